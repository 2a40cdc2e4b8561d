// LogFolder on a disk: fdatasync(2) for what must survive power loss, fsync(2) of the folder for names. The folder is held by a descriptor, so that
// nobody moves it from under us; links in it are not followed. Errors of open(): Unavailable/CannotWrite, PermissionDenied/InsecurePermissions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "ports/log_folder.h"

namespace coterie::files {

class DiskLogFolder final : public LogFolder {
 public:
  // Made with mode 0700 if it is not there; its parent must be.
  [[nodiscard]] static Result<std::unique_ptr<DiskLogFolder>> open(const std::string& path);

  [[nodiscard]] Result<std::vector<File>> list() const override;
  [[nodiscard]] Result<std::string> read(const std::string& name, std::uint64_t from, std::size_t most) const override;
  [[nodiscard]] Status create(const std::string& name) override;
  [[nodiscard]] Status append(const std::string& name, std::string_view bytes, Durable durable) override;
  [[nodiscard]] Status cut(const std::string& name, std::uint64_t size) override;
  [[nodiscard]] Status remove(const std::string& name) override;

 private:
  DiskLogFolder(std::string path, UniqueFd folder) : path_(std::move(path)), folder_(std::move(folder)) {}
  [[nodiscard]] UniqueFd at(const std::string& name, int flags) const;
  [[nodiscard]] Error failure(const std::string& name, const char* reason) const;  // of errno
  [[nodiscard]] Status flushNames();
  [[nodiscard]] bool writeAll(std::string_view bytes);

  std::string path_;
  UniqueFd folder_;
  std::string openName_;  // of the file that was appended to last
  UniqueFd open_;
};

}  // namespace coterie::files
