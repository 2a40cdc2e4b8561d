// Where this process's own cgroup directories are, per hierarchy: from /proc/self/cgroup (which path) and /proc/self/mountinfo (mounted where,
// showing which part). Kernel formats: cgroups(7), proc(5). The parsing is pure and tested on recorded texts. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace coterie::linux {

struct CgroupDirectories {
  std::map<std::string, std::string, std::less<>> v1;  // controller ("cpu", "cpuset") -> absolute directory of the process's own cgroup
  std::optional<std::string> v2;
};

[[nodiscard]] CgroupDirectories parseCgroupDirectories(std::string_view procCgroup, std::string_view mountInfo);
[[nodiscard]] CgroupDirectories ownCgroupDirectories();
// Where the hierarchy with cpusets is mounted (v1 with that controller, else v2), the mount that shows most of it; empty: nowhere.
[[nodiscard]] std::string cpusetRoot(std::string_view mountInfo);

}  // namespace coterie::linux
