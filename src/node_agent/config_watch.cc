#include "node_agent/config_watch.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "text/text.h"

namespace coterie::node_agent {

ConfigWatch::ConfigWatch(std::string path, std::string inForce) : path_(std::move(path)), acted_{true, std::move(inForce)} {}

bool ConfigWatch::canBeReadAgain(const std::string& path) {
  struct stat status{};
  return path != "-" && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<std::string> ConfigWatch::Content::result() const {
  if (readable) return text;
  return Error{Code::InvalidArgument, "Unreadable", text};
}

ConfigWatch::Content ConfigWatch::read() const {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return {false, path_ + ": cannot be read: " + std::strerror(errno)};
  if (!S_ISREG(status.st_mode)) return {false, path_ + ": cannot be read: it is no regular file any more"};  // a pipe would be waited for
  std::ifstream file(path_, std::ios::binary);
  std::string text = text::readUpToLimit(file);
  if (!file.is_open() || file.bad()) return {false, path_ + ": cannot be read; check that you may read it", true};
  // Said here, so that nobody keeps, compares and parses so many bytes on the control loop.
  if (text.size() > text::Limits{}.bytes) return {false, path_ + ": " + faultText(text::tooManyBytes())};
  return {true, std::move(text)};
}

std::optional<Result<std::string>> ConfigWatch::look() {
  const std::optional<FileMark> now = fileMark(path_);
  if (settled_ && *settled_ == now) return std::nullopt;
  Content content = read();
  // The time of a file may stand still between two writes: that it was as it is now at two looks is what counts.
  const bool same = pending_ && pendingMark_ == now && *pending_ == content;
  pendingMark_ = now;
  if (!same) {
    pending_ = std::move(content);
    return std::nullopt;
  }
  pending_.reset();
  if (!content.passing) settled_ = now;
  if (acted_ == content) return std::nullopt;
  acted_ = std::move(content);
  return acted_.result();
}

Result<std::string> ConfigWatch::readAgain() {
  acted_ = read();
  settled_.reset();  // if it was only half there, the looks that follow see the rest
  pending_.reset();
  return acted_.result();
}

}  // namespace coterie::node_agent
