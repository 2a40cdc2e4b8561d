// hwloc's topology of a MachineReading, and what hwloc does not tell: shared by the reader and the recorder. Not for other folders (it shows hwloc).
//
// A recorded root is a matter of environment variables for hwloc (HWLOC_FSROOT, HWLOC_COMPONENTS, HWLOC_THISSYSTEM): they are set for the time of the
// call and put back, so nobody else may read or change the environment meanwhile. So it is for the live machine where CPU 0 has no topology (it is
// offline, or ids start higher): hwloc 2 asks CPU 0 alone whether there is any, and would give up; it is then shown the same files through a folder
// of symbolic links in which CPU 0 has the topology of the first CPU online. All other readings leave the environment alone and are thread-safe.
#pragma once

#include <hwloc.h>

#include <memory>
#include <optional>
#include <string>

#include "base/cpu_set.h"
#include "base/result.h"
#include "linux/machine_reader.h"

namespace coterie::linux {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

[[nodiscard]] Result<Topology> loadTopology(const MachineReading& reading);

[[nodiscard]] CpuSet toSet(hwloc_const_bitmap_t bitmap);
// The value of an info of the object; "" if it has none.
[[nodiscard]] std::string infoOf(hwloc_obj_t object, const char* name);

// What the kernel says and hwloc does not, from the files below the root; from XML that Coterie recorded: from infos of its root object.
struct KernelFacts {
  CpuSet isolated;                       // isolcpus
  CpuSet present;                        // CPUs that the machine has; empty: not known
  std::optional<CpuSet> allowed;         // of the recording process
  std::optional<CpuSet> nodesWithCpus;   // ids; hwloc shows a memory-only node as local to the CPUs that it is near to
  std::optional<CpuSet> initiatorNodes;  // ids of nodes that stand for devices (ACPI's generic initiators)
};
[[nodiscard]] KernelFacts factsOf(const MachineReading& reading, hwloc_topology_t topology);
// Writes them where factsOf() finds them.
void addFacts(hwloc_topology_t topology, const KernelFacts& facts);

}  // namespace coterie::linux
