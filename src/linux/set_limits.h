// Which cgroup above a container keeps CPUs from it.
//
// A set lies within that of the cgroup above: version 1 refuses what does not (EACCES), version 2 takes it and cuts it. Of cgroups above that allow
// the same the topmost is named: it was narrowed, those below follow. What the hierarchy's top has not is no cgroup's doing, and nothing is said.
// Errors: none; where nothing can be read nothing limits. A small read for each cgroup above. Thread-safe. Source: cpuset(7), the kernel's
// cgroup-v2.rst.
#pragma once

#include <string>

#include "base/cpu_set.h"

namespace coterie::linux {

// "cgroup /sys/fs/cgroup/docker allows only CPU 1"; empty: a child of the directory may have the CPUs.
[[nodiscard]] std::string limitBy(const std::string& directory, bool v2, const CpuSet& wanted);
// Of the container of that process whose own cgroup that is; empty: it has none, and what its process lies in is what limits it.
[[nodiscard]] std::string limitAbove(int pid, const std::string& cgroup, const CpuSet& wanted);

}  // namespace coterie::linux
