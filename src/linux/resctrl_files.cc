#include "linux/resctrl_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "linux/files.h"

namespace coterie::linux {

std::optional<std::string> MountedResctrl::read(const std::string& path) const { return readText(root_ + "/" + path); }

int MountedResctrl::write(const std::string& path, const std::string& text) { return writeText(root_ + "/" + path, text); }

int MountedResctrl::makeGroup(const std::string& name) {
  constexpr mode_t kMode = 0755;
  return ::mkdir((root_ + "/" + name).c_str(), kMode) == 0 ? 0 : errno;
}

int MountedResctrl::removeGroup(const std::string& name) { return ::rmdir((root_ + "/" + name).c_str()) == 0 ? 0 : errno; }

std::vector<std::string> MountedResctrl::groups() const {
  std::vector<std::string> names;
  std::error_code fault;
  for (std::filesystem::directory_iterator entry(root_, fault), end; !fault && entry != end; entry.increment(fault)) {
    std::error_code unknown;
    if (std::filesystem::exists(entry->path() / "schemata", unknown)) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace coterie::linux
