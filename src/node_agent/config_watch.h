// Whether the configuration file has become another: what to act upon, once for each change.
//
// look(), a few times a second: one stat; where that tells of a change (another file by rename, another size, another time) the file is read, and
// acted upon once a later look finds it still the same: a file that is being written, or moved away for a moment by an editor, is nobody's wish. The
// same holds for one that has gone. readAgain() is for who says that it is finished (SIGHUP): what is there, now, also if it is the same. Only a
// regular file can be read again: not standard input, not a pipe. One that is there and cannot be opened or read (no descriptors are left, say) is
// tried again at each look, since no change of the file would tell that it can be. Cost of a look where nothing happens: one system call. Errors:
// InvalidArgument/Unreadable, with the path; also of a file beyond the parser's size limit, of which no more is read than that. Thread
// rule: control loop.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "node_agent/file_mark.h"

namespace coterie::node_agent {

class ConfigWatch {
 public:
  // inForce: the text that was read of it at the start.
  ConfigWatch(std::string path, std::string inForce);
  [[nodiscard]] static bool canBeReadAgain(const std::string& path);

  [[nodiscard]] std::optional<Result<std::string>> look();
  [[nodiscard]] Result<std::string> readAgain();

 private:
  struct Content {
    bool readable{false};
    std::string text;     // or why it cannot be used
    bool passing{false};  // that may end without a change of the file
    friend bool operator==(const Content&, const Content&) = default;
    [[nodiscard]] Result<std::string> result() const;
  };
  [[nodiscard]] Content read() const;

  std::string path_;
  Content acted_;                                   // what was acted upon last
  std::optional<std::optional<FileMark>> settled_;  // of the file as it was then; none: it is to be read in any case
  std::optional<FileMark> pendingMark_;
  std::optional<Content> pending_;  // another than that, as seen by the look before
};

}  // namespace coterie::node_agent
