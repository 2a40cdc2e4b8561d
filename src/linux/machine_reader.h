// Reads the machine into a coterie::Machine: the live one, or a recorded or synthetic one in tests.
//
// hwloc walks the hardware; what it reports is regrouped into a strict tree machine > socket > node > L3 > core, whatever contains what in reality: a
// NUMA node over several sockets, or an L3 over several nodes, becomes one domain per part (same id). L3 groups are optional; where a node has none,
// an L2 shared by several cores takes their place (ARM clusters). Without NUMA directories there is one node. Memory-only nodes are memory nodes
// without CPUs; a CPU without local memory belongs to the node of its nearest ancestor that has some. Kinds of cores: fastest first, capacity from
// the kernel's cpu_capacity, else from the maximum frequency; kinds within 5 % of each other are one. O(n log n) for n CPUs. isolated: the kernel's
// isolcpus list below sysRoot. hwloc's environment variables are never set here; if the user's environment makes hwloc report another machine, the
// live reading refuses (InvalidArgument/NotThisMachine). Errors: Internal/MachineUnreadable, NotFound/MachineUnreadable. Thread-safe (each call has
// its own topology).
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/machine.h"

namespace coterie::linux {

enum class MachineOrigin : std::uint8_t {
  Live,       // this machine
  Recorded,   // what hwloc is told to see by its environment (a recorded root in tests)
  Xml,        // text: path of an hwloc XML file
  Synthetic,  // text: an hwloc description such as "pack:2 numa:2 l3:2 core:4 pu:2"
};

struct MachineReading {
  MachineOrigin origin{MachineOrigin::Live};
  std::string text;
  std::string sysRoot;  // prefix of /sys for the isolcpus list: "" for the live machine, a recorded root in tests
};

[[nodiscard]] Result<Machine> readMachine(const MachineReading& reading = {});

}  // namespace coterie::linux
