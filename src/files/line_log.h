// A log of lines that a loop hands over, written by a thread of its own: the loop never waits, and what the disk does not take is dropped.
//
// append() takes a line or, where the buffer is full (a disk that is slow, full or gone), drops and counts it. What was taken is tried again with
// each look, so a disk that has room again goes on where it stopped, and a line is never cut. `said` hears once that lines are being dropped, and
// once how many that were when all is well again, on the writing thread. A file that was moved away or removed is made anew, with mode 0600, at the
// next look (a fifth of a second): how a log is rotated. One that is there is appended to. At the end it is tried once more. Errors of create():
// Unavailable/NotWritable, with the path. Thread rule: append() from one thread; dropped() from any.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace coterie::files {

class LineLog {
 public:
  struct Options {
    Bytes buffer{std::int64_t{4} << 20};           // taken and not yet written
    std::function<void(const std::string&)> said;  // may be empty
    // Writes as write(2) does, and sets errno; for tests. Empty: write(2).
    std::function<ssize_t(int file, std::string_view bytes)> write;
  };
  [[nodiscard]] static Result<std::unique_ptr<LineLog>> create(const std::string& path, Options options);
  ~LineLog();
  LineLog(const LineLog&) = delete;
  LineLog& operator=(const LineLog&) = delete;

  void append(std::string_view line);  // without its newline
  [[nodiscard]] std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // One look now, on the writing thread, and back when it is over: for tests.
  void flush();

 private:
  LineLog(std::string path, UniqueFd file, Options options);
  void run();
  void look();
  void reopenIfMoved();
  [[nodiscard]] std::string writeSome(std::string_view bytes, std::size_t& written);
  void dropTornLine();
  void say(const std::string& trouble);

  std::string path_;
  Options options_;
  std::atomic<std::int64_t> dropped_{0};
  std::atomic<std::int64_t> held_{0};  // bytes of buffer_ and pending_
  // The writing thread's:
  UniqueFd file_;
  std::string pending_;          // taken from buffer_, not yet written
  bool torn_{false};             // pending_ begins in the middle of a line that the file has the rest of
  bool troubled_{false};         // said
  std::int64_t droppedSaid_{0};  // of dropped(), those that were told of
  std::int64_t lastLost_{0};     // dropped() at the last look
  std::mutex mutex_;             // guards what follows
  std::condition_variable wake_;
  std::condition_variable looked_;
  std::string buffer_;
  std::int64_t looksWanted_{0};
  std::int64_t looksDone_{0};
  bool closing_{false};
  std::thread thread_;
};

}  // namespace coterie::files
