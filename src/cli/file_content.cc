#include "cli/file_content.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

namespace coterie::cli {

Result<std::string> contentOf(const std::string& path) {
  errno = 0;  // of whatever was before
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()).good())
    return Error{Code::NotFound, "CannotRead", path + " cannot be read" + (errno != 0 ? std::string(": ") + std::strerror(errno) : " or is empty")};
  return std::move(text).str();
}

}  // namespace coterie::cli
