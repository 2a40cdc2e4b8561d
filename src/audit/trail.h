// The audit log on a disk: an append-only chain of lines (line.h, chain.h) over a bounded number of files.
//
// A change is written twice. begin() writes what is about to be done, and by whom, so that it survives power loss; only then may it be done. end()
// says how it went; that line survives kill -9. So nothing is in force of which the log does not tell, and a change that has begun and neither ended
// nor failed is one at which the server died. While the log cannot be written begin() is Unavailable/AuditUnavailable, each time after a try; what
// ends meanwhile and other lines are kept, kMostPending of them, and written first as soon as there is room; how many more there were is said then.
// Files are named audit-00000001.jsonl and so on. One that would grow beyond its size is followed by the next, and the oldest goes. At a start, and
// after each failure, the newest is read again: a line that a kill left without its end is cut off, and said here and in the log; a chain that is
// broken goes on in a new file, from the last line that fits. Construction never fails: a server on a full disk starts, and refuses changes.
// O(bytes written); after a failure O(one file). Thread rule: the control loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/line.h"
#include "base/result.h"
#include "base/units.h"
#include "ports/clock.h"
#include "ports/log_folder.h"

namespace coterie::audit {

// A change that may be made now.
struct Begun {
  std::uint64_t sequence{0};
  Entry entry;
};

// A piece of one file, as it is there.
struct Page {
  std::string file;
  std::vector<std::string> lines;  // without their ends
  std::uint64_t next{0};           // give this to continue
  bool last{false};                // nothing comes after it yet
};

class Trail {
 public:
  static constexpr std::size_t kMostPending = 256;
  static constexpr std::size_t kPageBytes = 128 << 10;
  struct Options {
    Bytes fileSize{std::int64_t{4} << 20};  // also what a start reads: about 0.1 s
    int files{64};                          // the oldest goes when there are more
  };
  // Both outlive it.
  Trail(LogFolder& folder, const Clock& clock, Options options);
  Trail(LogFolder& folder, const Clock& clock) : Trail(folder, clock, Options{}) {}

  // Time and outcome are set here.
  [[nodiscard]] Result<Begun> begin(Entry change);
  // What became known by the change, the id of a new key, may be put into the entry before.
  void end(Begun begun, const Status& how);
  // Lines of other kinds, as they are; time, where there is none, is set here.
  void note(std::vector<Entry> lines);

  // From the beginning (0), or where a page ended: kPageBytes at most, of which `wanted` gets each line (none: all are). Lines that are none of ours
  // are given where all are wanted.
  [[nodiscard]] Result<Page> read(std::uint64_t from, const std::function<bool(const Line&)>& wanted) const;

 private:
  struct File {
    std::int64_t number{0};
    std::uint64_t size{0};
  };
  [[nodiscard]] Status write(const std::vector<Entry>& entries, Durable durable);
  [[nodiscard]] Status writePending();
  [[nodiscard]] Status prepare(std::size_t bytes);
  [[nodiscard]] Status recover();
  [[nodiscard]] Status readNewest();
  [[nodiscard]] Status roll();
  [[nodiscard]] Status appendTo(File& file, const std::vector<Entry>& entries, Durable durable);
  void keep(Entry entry);
  [[nodiscard]] bool keepOnce(Entry entry);
  [[nodiscard]] Error unavailable(const Error& error);
  [[nodiscard]] Entry noteOf(std::string verb, std::string kind, std::string object, std::string reason) const;

  LogFolder& folder_;
  const Clock& clock_;
  Options options_;
  std::deque<File> files_;      // ascending; the last one is written to
  std::int64_t lastNumber_{0};  // that a file has had
  std::uint64_t sequence_{0};   // of the last line
  std::string head_{noHash()};  // its hash
  bool sound_{false};           // what is above is what is on the disk
  bool mustRoll_{false};
  bool said_{false};  // that it cannot be written
  std::vector<Entry> pending_;
  std::int64_t lost_{0};
};

[[nodiscard]] std::string fileName(std::int64_t number);

}  // namespace coterie::audit
