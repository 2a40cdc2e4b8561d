// Reads a machine into a coterie::Machine: the live one, a recorded file system root, hwloc XML, or a synthetic one.
//
// hwloc walks the hardware; what it reports is regrouped into a strict tree machine > socket > node > L3 > core, whatever contains what in reality: a
// NUMA node over several sockets, or an L3 over several nodes, becomes one domain per part (same id). L3 groups are optional; where a CPU has none,
// an L2 shared by several cores takes its place (ARM clusters). Without NUMA directories there is one node.
// Memory: every CPU is local to one node, the nearest that has CPUs of its own (the kernel's has_cpu; where nobody says it, the nearest of DRAM); the
// others are memory-only and `near` to what hwloc attaches them to. Their kind is what hwloc calls them (HBM, CXL, GPU memory, ...), else Device for
// ACPI's generic initiators and POWER9's nodes 240-255, else Dram where CPUs without memory of their own have nothing nearer, else by bandwidth
// against DRAM, else Slow. hwloc leaves out nodes that the NVIDIA driver names. Kinds of cores: fastest first, capacity from the kernel's
// cpu_capacity, else from the maximum frequency; kinds within 5 % of each other are one. Devices: what has a name in the kernel, and PCI functions of
// classes that matter without one. One that hangs on the whole machine (numa_node -1) has no place, unless the machine has one node. isolated: the
// kernel's isolcpus list. allowed: own cpuset, for the live machine also own affinity. O(n log n) for n CPUs, plus nodes^2. Files: below the root of
// a recorded machine nothing else is read; XML of hwloc 3 is rewritten (hwloc_xml.h). Errors: Internal or InvalidArgument
// /MachineUnreadable; InvalidArgument/NotThisMachine if the user's environment makes hwloc report another machine than the live one. Thread rule: a
// recorded root changes the environment for the time of the call, so one thread only; likewise the live machine where CPU 0 is offline
// (hwloc_topology.h); otherwise thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/machine.h"

namespace coterie::linux {

enum class MachineOrigin : std::uint8_t {
  Live,       // this machine
  Recorded,   // text: a folder with the files of /sys and /proc of another machine, as hwloc-gather-topology packs them
  Xml,        // text: path of an hwloc XML file, of hwloc 2 or 3, or of `coterie machine record`
  Synthetic,  // text: an hwloc description such as "pack:2 numa:2 l3:2 core:4 pu:2"; "pu:1" may be left out
};

struct MachineReading {
  MachineOrigin origin{MachineOrigin::Live};
  std::string text;
};

[[nodiscard]] Result<Machine> readMachine(const MachineReading& reading = {});

// The machine as hwloc XML that hwloc 2 and this reader read: with what hwloc does not know (isolated and allowed CPUs, nodes with CPUs, device
// nodes) as infos of the root object, and without what identifies the host. Errors and threads as readMachine().
[[nodiscard]] Result<std::string> recordMachine(const MachineReading& reading = {});

}  // namespace coterie::linux
