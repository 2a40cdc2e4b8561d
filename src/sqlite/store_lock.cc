#include "sqlite/store_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace coterie::sqlite {

namespace {
constexpr std::size_t kPidWidth = 11;
constexpr std::size_t kVersionWidth = 21;

std::string padded(std::uint64_t number, std::size_t width) {
  std::string text = std::to_string(number);
  return std::string(width - 1 - text.size(), ' ') + text + '\n';
}
}  // namespace

Result<std::unique_ptr<StoreLock>> StoreLock::take(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return Error{Code::Unavailable, "StoreUnavailable", "cannot open " + path + ": " + std::strerror(errno)};
  ::fchmod(fd.get(), 0600);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (::fcntl(fd.get(), F_SETLK, &lock) != 0) {
    struct flock holder = lock;
    const bool known = ::fcntl(fd.get(), F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK;
    return Error{Code::Unavailable, "StoreLocked",
                 "the store is in use by " + (known ? "process " + std::to_string(holder.l_pid) : std::string("another process")) + " (" + path +
                     " is locked): stop that one, or name another data folder"};
  }
  std::unique_ptr<StoreLock> taken(new StoreLock(std::move(fd)));
  std::array<char, kPidWidth + kVersionWidth> content{};
  const ssize_t size = ::pread(taken->fd_.get(), content.data(), content.size(), 0);
  if (size == static_cast<ssize_t>(content.size())) {
    std::string_view text(content.data() + kPidWidth, kVersionWidth - 1);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::from_chars(text.data(), text.data() + text.size(), taken->witnessed_);
  }
  const std::string pid = padded(static_cast<std::uint64_t>(::getpid()), kPidWidth);
  [[maybe_unused]] const ssize_t written = ::pwrite(taken->fd_.get(), pid.data(), pid.size(), 0);
  return taken;
}

void StoreLock::witness(std::uint64_t version) {
  witnessed_ = version;
  const std::string text = padded(version, kVersionWidth);
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_.get(), text.data(), text.size(), kPidWidth);  // a full disk: no witness, no harm
}

}  // namespace coterie::sqlite
