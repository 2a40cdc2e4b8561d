// Devices and memory kinds out of hwloc's topology: parts of machine_reader.cc. Not for other folders.
#pragma once

#include <optional>
#include <vector>

#include "linux/hwloc_topology.h"
#include "model/machine.h"

namespace coterie::linux {

// By name. The machine's CPUs and memory nodes are known already.
[[nodiscard]] std::vector<Device> devicesOf(hwloc_topology_t topology, const Machine& machine);

// Fills memory nodes, their distances and the memory of all; homes[i] is the id of the node that machine.cpus[i] is local to.
void fillMemory(hwloc_topology_t topology, const KernelFacts& facts, const std::vector<int>& homes, Machine& machine);

// The id of the node that a CPU is local to.
[[nodiscard]] int homeNode(hwloc_obj_t pu, const KernelFacts& facts);

}  // namespace coterie::linux
