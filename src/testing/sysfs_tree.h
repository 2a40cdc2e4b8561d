// A machine's files as the kernel would show them, below any folder: what hwloc reads of /sys and /proc, for a generated machine.
//
// Written: the CPU lists (online, possible, isolated), topology, last-level cache and capacity of each CPU, the nodes with CPUs, size, distances and,
// where a memory's kind is known, bandwidth or the mark of a device; own cpuset (cgroup v2) where it is narrower than what is online; a PCI function
// for each device. An L2 shared by a cluster is written as an L3. O(CPUs^2 / 64) bytes: each CPU's files name all its siblings by mask. For tests;
// local files.
#pragma once

#include <string>

#include "model/machine.h"

namespace coterie::testing {

// What the writer is to leave out, as some kernels do.
struct SysfsGaps {
  bool nodes{false};
  bool caches{false};
};

// The folder is made if need be. Aborts if a file cannot be written.
void writeSysfs(const Machine& machine, const std::string& folder, const SysfsGaps& gaps = {});

}  // namespace coterie::testing
