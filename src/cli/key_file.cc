#include "cli/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "identity/key_format.h"

namespace coterie::cli {

Result<std::string> readKeyFile(const std::string& path) {
  const auto unreadable = [&](const char* why) {
    return Error{Code::InvalidArgument, "NoSuchFile", "--key-file: " + path + " cannot be read: " + why};
  };
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!fd || ::fstat(fd.get(), &info) != 0) return unreadable(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return unreadable("it is no file");
  if ((info.st_mode & 077) != 0) {
    return Error{Code::PermissionDenied, "InsecurePermissions",
                 "--key-file: others may read " + path + ": chmod 600 " + path + ", and if they may have read it, rotate the key"};
  }
  std::array<char, identity::kKeyLength + 2> bytes{};  // a line end, and one more to see that there is more
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  if (got < 0) return unreadable(std::strerror(errno));
  std::string key(bytes.data(), static_cast<std::size_t>(got));
  if (!key.empty() && key.back() == '\n') key.pop_back();
  if (const auto parts = identity::parseKey(key); !parts.ok())
    return Error{parts.error().code, parts.error().reason, "--key-file: " + path + ": " + parts.error().message};
  return key;
}

}  // namespace coterie::cli
