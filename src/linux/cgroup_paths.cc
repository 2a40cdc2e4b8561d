#include "linux/cgroup_paths.h"

#include <sstream>
#include <utility>
#include <vector>

#include "linux/files.h"

namespace coterie::linux {
namespace {

struct CgroupMount {
  bool v2{false};
  std::string shownPart;  // the hierarchy's path that is seen at the mount point
  std::string point;
  std::string options;  // v1: the controllers among others
};

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, by);) parts.push_back(part);
  return parts;
}

std::vector<CgroupMount> parseMounts(std::string_view mountInfo) {
  std::vector<CgroupMount> mounts;
  for (const std::string& line : split(mountInfo, '\n')) {
    const std::vector<std::string> fields = split(line, ' ');
    std::size_t dash = 6;  // optional fields end with a dash
    while (dash < fields.size() && fields[dash] != "-") ++dash;
    if (dash + 3 >= fields.size()) continue;
    const std::string& type = fields[dash + 1];
    if (type == "cgroup" || type == "cgroup2") mounts.push_back({type == "cgroup2", fields[3], fields[4], fields[dash + 3]});
  }
  return mounts;
}

std::string directoryBelow(const CgroupMount& mount, const std::string& path) {
  std::string below = path;
  if (mount.shownPart != "/") {
    const bool inside = path.compare(0, mount.shownPart.size(), mount.shownPart) == 0;
    below = inside ? path.substr(mount.shownPart.size()) : "";  // outside of what is shown: the best there is is the mount's root
  }
  while (!below.empty() && below.back() == '/') below.pop_back();
  return mount.point + below;
}

bool contains(const std::vector<std::string>& list, const std::string& word) {
  for (const std::string& entry : list) {
    if (entry == word) return true;
  }
  return false;
}

}  // namespace

CgroupDirectories parseCgroupDirectories(std::string_view procCgroup, std::string_view mountInfo) {
  const std::vector<CgroupMount> mounts = parseMounts(mountInfo);
  CgroupDirectories directories;
  for (const std::string& line : split(procCgroup, '\n')) {  // hierarchy:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    for (const CgroupMount& mount : mounts) {
      if (controllers.empty() && mount.v2 && !directories.v2) directories.v2 = directoryBelow(mount, path);
      if (controllers.empty() || mount.v2) continue;
      for (const std::string& controller : split(controllers, ',')) {
        if (contains(split(mount.options, ','), controller)) directories.v1.try_emplace(controller, directoryBelow(mount, path));
      }
    }
  }
  return directories;
}

std::string cpusetRoot(std::string_view mountInfo) {
  std::string root;
  std::pair<bool, bool> best{false, false};  // v1, whole
  for (const CgroupMount& mount : parseMounts(mountInfo)) {
    if (!mount.v2 && !contains(split(mount.options, ','), "cpuset")) continue;
    const std::pair<bool, bool> now{!mount.v2, mount.shownPart == "/"};
    if (!root.empty() && now <= best) continue;
    best = now;
    root = mount.point;
  }
  return root;
}

CgroupDirectories ownCgroupDirectories() {
  return parseCgroupDirectories(readText("/proc/self/cgroup").value_or(""), readText("/proc/self/mountinfo").value_or(""));
}

}  // namespace coterie::linux
