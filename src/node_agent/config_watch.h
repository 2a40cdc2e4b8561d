// Whether the configuration file has become another: what to act upon, once for each change.
//
// look(), a few times a second: one stat; where that tells of a change (another file by rename, another size, another time) the file is read, and
// acted upon once a later look finds it still the same: a file that is being written, or moved away for a moment by an editor, is nobody's wish. The
// same holds for one that has gone. readAgain() is for who says that it is finished (SIGHUP): what is there, now, also if it is the same. Only a
// regular file can be read again: not standard input, not a pipe. Cost of a look where nothing happens: one system call. Errors:
// InvalidArgument/Unreadable, with the path; also of a file beyond the parser's size limit, of which no more is read than that. Thread
// rule: control loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "base/result.h"

namespace coterie::node_agent {

class ConfigWatch {
 public:
  // inForce: the text that was read of it at the start.
  ConfigWatch(std::string path, std::string inForce);
  [[nodiscard]] static bool canBeReadAgain(const std::string& path);

  [[nodiscard]] std::optional<Result<std::string>> look();
  [[nodiscard]] Result<std::string> readAgain();

 private:
  using Mark = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  struct Content {
    bool readable{false};
    std::string text;  // or why it cannot be used
    friend bool operator==(const Content&, const Content&) = default;
    [[nodiscard]] Result<std::string> result() const;
  };
  [[nodiscard]] std::optional<Mark> mark() const;  // nullopt: it is not there
  [[nodiscard]] Content read() const;

  std::string path_;
  Content acted_;                               // what was acted upon last
  std::optional<std::optional<Mark>> settled_;  // of the file as it was then; none: it is to be read in any case
  std::optional<Mark> pendingMark_;
  std::optional<Content> pending_;  // another than that, as seen by the look before
};

}  // namespace coterie::node_agent
