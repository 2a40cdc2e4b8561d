#include "process/prepared_file.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace coterie::process {

Result<UniqueFd> PreparedFile::create() {
  UniqueFd fd(::memfd_create("coterie-prepared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return Error{Code::Unavailable, "NoMemory", std::string("a memory file: ") + std::strerror(errno)};
  return fd;
}

std::shared_ptr<const PreparedFile> PreparedFile::seal(UniqueFd fd) {
  if (!fd || ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) return nullptr;
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || status.st_size <= 0) return nullptr;
  return std::shared_ptr<const PreparedFile>(new PreparedFile(std::move(fd), Bytes(status.st_size)));
}

}  // namespace coterie::process
