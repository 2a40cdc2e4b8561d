// A file of the kernel that is read again and again, through a descriptor that is kept: a fifth of what opening it anew costs.
//
// Where reading fails (the cgroup has gone, ENODEV; the process has, ESRCH) it is opened again by its path, once a reading; one that was never there
// is not looked for again. Errors: "not there, or not now" is a value. Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace coterie::linux {

class KeptFile {
 public:
  KeptFile() = default;
  explicit KeptFile(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] bool named() const { return !path_.empty(); }
  // nullopt: not there, or not now.
  [[nodiscard]] std::optional<std::string> read();

 private:
  std::string path_;
  UniqueFd file_;
  bool wasThere_{false};
  bool missing_{false};
};

}  // namespace coterie::linux
