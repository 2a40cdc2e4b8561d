#include "linux/own_cgroup.h"

#include "linux/files.h"

namespace coterie::linux {

std::optional<std::string> ownPart(const std::string& directory, const std::string& cgroup) {
  const std::string name = cgroup.substr(cgroup.rfind('/') + 1);
  const std::size_t begin = directory.find("/" + name);
  const std::size_t end = begin + 1 + name.size();
  if (name.empty() || begin == std::string::npos || (end < directory.size() && directory[end] != '/')) return std::nullopt;
  return directory.substr(0, end);
}

CgroupDirectories ownCgroups(int pid, const std::string& cgroup) {
  CgroupDirectories own;
  if (cgroup.empty()) return own;
  const CgroupDirectories found =
      parseCgroupDirectories(readText("/proc/" + std::to_string(pid) + "/cgroup").value_or(""), readText("/proc/self/mountinfo").value_or(""));
  for (const auto& [controller, directory] : found.v1) {
    if (const auto part = ownPart(directory, cgroup)) own.v1.emplace(controller, *part);
  }
  if (found.v2) own.v2 = ownPart(*found.v2, cgroup);
  return own;
}

}  // namespace coterie::linux
