// Follows the chain of an audit log, line by line and over its files, to the first line that does not fit.
//
// A line fits if it is one that this log writes, its number is the next one and its hash follows from the line before. The first line of a file must
// say where the file begins, and fit to the end of the file before; files may be joined to one. What this finds: a line that was altered, removed,
// put in or moved, and a file that is missing between two others. What it cannot find: lines that are missing at the end, files that are missing at
// the beginning (rotation removes them), and a log that somebody wrote anew from some line on; for these a hash that was noted elsewhere must be
// among those of the log. A line that was altered together with its own hash shows at the next one. O(bytes), memory O(one line). Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "audit/line.h"

namespace coterie::audit {

struct ChainFault {
  std::string file;
  std::int64_t line{0};  // 1-based, in the file; 0: the file
  std::string what;      // "line 7 is missing before it"
  [[nodiscard]] std::string text() const { return file + ":" + std::to_string(line) + ": " + what; }
};

class ChainCheck {
 public:
  // Lines are this file's from here on.
  void startFile(std::string name);
  // A line without its end of line. False: it does not fit, and nothing after it is looked at.
  bool take(std::string_view text);
  // startFile(), and all lines of it. A last line without an end is left out (cutOff()): a server that writes it, or was killed.
  bool takeFile(std::string name, std::string_view bytes, const std::function<void(const Line&)>& each = {});

  [[nodiscard]] const std::optional<ChainFault>& fault() const { return fault_; }
  [[nodiscard]] bool cutOff() const { return cutOff_ > 0; }
  [[nodiscard]] std::size_t cutOffBytes() const { return cutOff_; }
  [[nodiscard]] std::int64_t lines() const { return lines_; }
  [[nodiscard]] std::uint64_t first() const { return first_; }                   // number of the first line; 0: none
  [[nodiscard]] const Line& last() const { return last_; }                       // that fits
  [[nodiscard]] const std::optional<Begins>& begins() const { return begins_; }  // of the last file

 private:
  [[nodiscard]] std::string whyBeginsNot(const Line& line) const;
  [[nodiscard]] std::string whyNot(const Line& line, std::string_view text) const;
  bool fail(std::string what);

  std::string file_;
  std::int64_t line_{0};  // of the file
  std::size_t cutOff_{0};
  std::int64_t lines_{0};
  std::uint64_t first_{0};
  Line last_;
  std::optional<Begins> begins_;
  std::optional<ChainFault> fault_;
};

}  // namespace coterie::audit
