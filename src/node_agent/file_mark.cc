#include "node_agent/file_mark.h"

#include <sys/stat.h>

namespace coterie::node_agent {

std::optional<FileMark> fileMark(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileMark{status.st_dev,          status.st_ino,         status.st_size,        status.st_mtim.tv_sec,
                  status.st_mtim.tv_nsec, status.st_ctim.tv_sec, status.st_ctim.tv_nsec};
}

}  // namespace coterie::node_agent
