// Programs on this machine that set the CPUs of processes that are not their own: whom to suspect when somebody undoes what was written.
//
// The kernel does not tell who wrote a cpuset or an affinity. Known by name: the kubelet and node agents that do its work, HPC and virtual machine
// daemons, daemons that "tune" a system; and other servers of Coterie, and its agents that enforce (one that observes sets nothing; where that
// cannot be told, as without cgroups, all are named). A list of suspects for a message, nothing to decide by. O(processes) small
// reads. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "linux/enforcer_lock.h"

namespace coterie::linux {

// "kubelet (pid 812), coterie (pid 900)", ascending pid; empty: none. `self`: a process that is none. enforcing: the agents that are known to.
[[nodiscard]] std::string cpuRivals(int self, const std::string& procRoot = "/proc", const std::optional<std::vector<int>>& enforcing = enforcers());

}  // namespace coterie::linux
