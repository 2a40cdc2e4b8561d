#include "linux/set_limits.h"

#include <optional>
#include <utility>

#include "base/count_text.h"
#include "linux/cgroup_paths.h"
#include "linux/files.h"
#include "linux/own_cgroup.h"

namespace coterie::linux {

namespace {

std::string above(const std::string& directory) { return directory.substr(0, directory.rfind('/')); }

std::optional<CpuSet> allowedBy(const std::string& directory, bool v2) {
  const auto text = readText(directory + (v2 ? "/cpuset.cpus.effective" : "/cpuset.cpus"));
  CpuSet set = setOf(text);
  return set.empty() ? std::nullopt : std::optional(std::move(set));
}

}  // namespace

std::string limitBy(const std::string& directory, bool v2, const CpuSet& wanted) {
  const auto allowed = allowedBy(directory, v2);
  if (!allowed || wanted.isSubsetOf(*allowed)) return {};
  std::string topmost = directory;
  for (auto next = allowedBy(above(topmost), v2); next; next = allowedBy(above(topmost), v2)) {
    if (*next != *allowed) return "cgroup " + topmost + " allows only " + cpusNamed(*allowed);
    topmost = above(topmost);
  }
  return {};
}

std::string limitAbove(int pid, const std::string& cgroup, const CpuSet& wanted) {
  const CgroupDirectories own = cgroup.empty() ? parseCgroupDirectories(readText("/proc/" + std::to_string(pid) + "/cgroup").value_or(""),
                                                                        readText("/proc/self/mountinfo").value_or(""))
                                               : ownCgroups(pid, cgroup);
  const auto v1 = own.v1.find("cpuset");
  const bool v2 = v1 == own.v1.end();
  if (v2 && !own.v2) return {};
  const std::string& directory = v2 ? *own.v2 : v1->second;
  return limitBy(cgroup.empty() ? directory : above(directory), v2, wanted);
}

}  // namespace coterie::linux
