#include "files/disk_log_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace coterie::files {

namespace {
struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
}  // namespace

Result<std::unique_ptr<DiskLogFolder>> DiskLogFolder::open(const std::string& path) {
  const auto cannot = [&] { return Error{Code::Unavailable, "CannotWrite", path + " cannot be used as a folder: " + std::strerror(errno)}; };
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return cannot();
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info{};
  if (!folder || ::fstat(folder.get(), &info) != 0) return cannot();
  if ((info.st_mode & 077U) != 0) {
    return Error{Code::PermissionDenied, "InsecurePermissions", path + " can be entered by others: chmod 700 " + path};
  }
  if (made) {  // its own name must survive as well
    const UniqueFd parent(::openat(folder.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || ::fsync(parent.get()) != 0) return cannot();
  }
  return std::unique_ptr<DiskLogFolder>(new DiskLogFolder(path, std::move(folder)));
}

UniqueFd DiskLogFolder::at(const std::string& name, int flags) const {
  return UniqueFd(::openat(folder_.get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0600));
}

Error DiskLogFolder::failure(const std::string& name, const char* reason) const {
  const int error = errno;
  const std::string file = path_ + "/" + name;
  if (error == ENOENT) return {Code::NotFound, "NoSuchFile", file + " is not there"};
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return {Code::Unavailable, "NoRoom", "no room to write " + file + ": free some space on that disk"};
  return {Code::Unavailable, reason, file + ": " + std::strerror(error)};
}

Result<std::vector<LogFolder::File>> DiskLogFolder::list() const {
  // A descriptor of its own: reading moves it.
  UniqueFd again(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return failure(".", "CannotRead");
  const std::unique_ptr<DIR, CloseFolder> entries(::fdopendir(again.get()));
  if (!entries) return failure(".", "CannotRead");
  (void)again.release();  // the stream closes it
  std::vector<File> files;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    struct stat info{};
    if (::fstatat(folder_.get(), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // it has gone meanwhile
      return failure(entry->d_name, "CannotRead");
    }
    if (S_ISREG(info.st_mode)) files.push_back({entry->d_name, static_cast<std::uint64_t>(info.st_size)});
    errno = 0;
  }
  if (errno != 0) return failure(".", "CannotRead");
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.name < b.name; });
  return files;
}

Result<std::string> DiskLogFolder::read(const std::string& name, std::uint64_t from, std::size_t most) const {
  const UniqueFd file = at(name, O_RDONLY | O_NONBLOCK);
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) return failure(name, "CannotRead");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::string bytes(from >= size ? 0 : std::min<std::uint64_t>(most, size - from), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(name, "CannotRead");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

Status DiskLogFolder::flushNames() { return ::fsync(folder_.get()) == 0 ? Status() : Status(failure(".", "CannotWrite")); }

Status DiskLogFolder::create(const std::string& name) {
  const UniqueFd file = at(name, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return failure(name, "CannotWrite");
  return flushNames();
}

bool DiskLogFolder::writeAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(open_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

Status DiskLogFolder::append(const std::string& name, std::string_view bytes, Durable durable) {
  if (!open_ || openName_ != name) {
    open_ = at(name, O_WRONLY | O_APPEND);
    openName_ = name;
    if (!open_) return failure(name, "CannotWrite");
  }
  struct stat info{};
  if (::fstat(open_.get(), &info) == 0 && info.st_nlink == 0) {  // somebody removed it: what is written here nobody will find
    open_.reset();
    errno = ENOENT;
    return failure(name, "CannotWrite");
  }
  if (!writeAll(bytes)) return failure(name, "CannotWrite");
  if (durable == Durable::No || ::fdatasync(open_.get()) == 0) return {};
  const Error error{Code::Unavailable, "CannotWrite", path_ + "/" + name + ": " + std::strerror(errno)};
  open_.reset();  // the same descriptor would not tell of it again
  return error;
}

Status DiskLogFolder::cut(const std::string& name, std::uint64_t size) {
  const UniqueFd file = at(name, O_WRONLY);
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(size)) != 0 || ::fsync(file.get()) != 0) return failure(name, "CannotWrite");
  return {};
}

Status DiskLogFolder::remove(const std::string& name) {
  if (openName_ == name) open_.reset();
  if (::unlinkat(folder_.get(), name.c_str(), 0) != 0) return failure(name, "CannotWrite");
  return flushNames();
}

}  // namespace coterie::files
