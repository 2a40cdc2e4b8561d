#include "files/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace coterie::files {

namespace {
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

Error failed(int code, const std::string& path) {
  switch (code) {
    case ENOENT: return {Code::NotFound, "ModelNotFound", path + " does not exist below the tenant's model root"};
    case ENOTDIR: return {Code::NotFound, "ModelNotFound", path + " does not exist below the tenant's model root: a part of it is a file"};
    case EXDEV: return {Code::PermissionDenied, "ModelOutsideRoot", path + " leads out of the tenant's model root"};
    case ELOOP: return {Code::NotFound, "ModelNotFound", path + " goes through links that lead to no file (a circle, or more than 40)"};
    case EACCES: return {Code::PermissionDenied, "ModelNotReadable", path + " may not be read by coterie: check its owner and mode"};
    default: return {Code::Unavailable, "ModelReadFailed", path + ": " + std::strerror(code)};
  }
}

Result<UniqueFd> regularOnly(UniqueFd fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return failed(errno, path);
  if (!S_ISREG(status.st_mode))
    return Error{Code::InvalidArgument, "ModelNotAFile",
                 path + (S_ISDIR(status.st_mode) ? " is a folder: name the model's file in it" : " is no regular file")};
  return fd;
}
}  // namespace

Result<UniqueFd> openRoot(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Error{Code::NotFound, "ModelRootNotFound", "the tenant's model root " + path + ": " + std::strerror(errno)};
  return fd;
}

Result<UniqueFd> openByWalking(int root, const std::string& relativePath) {
  UniqueFd folder;
  std::string_view rest = relativePath;
  if (rest.starts_with('/')) return failed(EXDEV, relativePath);
  while (true) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string part(rest.substr(0, end));
    if (part == "..") return failed(EXDEV, relativePath);
    if (part.empty()) return failed(ENOENT, relativePath);
    const bool last = end == rest.size();
    const int from = folder ? folder.get() : root;
    UniqueFd next(::openat(from, part.c_str(), O_NOFOLLOW | O_CLOEXEC | (last ? kFlags : O_PATH | O_DIRECTORY)));
    if (!next) {
      struct stat status{};
      const int code = errno;
      const bool link = ::fstatat(from, part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
      if (!link) return failed(code, relativePath);
      return Error{
          Code::PermissionDenied, "ModelOutsideRoot",
          relativePath + " goes through a link, and this kernel (without openat2) cannot keep it below the model root; name the file itself"};
    }
    if (last) return regularOnly(std::move(next), relativePath);
    folder = std::move(next);
    rest.remove_prefix(end + 1);
  }
}

Result<UniqueFd> openBeneath(int root, const std::string& relativePath) {
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, relativePath.c_str(), &how, sizeof how)));
  if (fd) return regularOnly(std::move(fd), relativePath);
  if (errno == ENOSYS || errno == EPERM) return openByWalking(root, relativePath);
  return failed(errno, relativePath);
}

}  // namespace coterie::files
