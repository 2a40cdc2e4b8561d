#include "linux/kept_file.h"

#include <fcntl.h>

#include "linux/files.h"

namespace coterie::linux {

std::optional<std::string> KeptFile::read() {
  if (path_.empty() || missing_) return std::nullopt;
  if (file_) {
    if (auto text = readText(file_.get())) return text;
  }
  file_ = openFor(path_, O_RDONLY);
  if (!file_) {
    missing_ = !wasThere_;  // one that has gone may come again
    return std::nullopt;
  }
  wasThere_ = true;
  return readText(file_.get());
}

}  // namespace coterie::linux
