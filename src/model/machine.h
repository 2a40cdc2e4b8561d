// The node's hardware as a value: CPUs, and the tree of domains above them.
//
// Read by an adapter (src/linux, through hwloc) or made by a generator in tests; the cores know no other source. A domain is any subtree that groups
// CPUs: the machine, a socket, a NUMA node, a cluster of CPUs under one last-level cache, a core with its hardware threads. Domains are stored
// parents first; index 0 is the machine. Any level may be absent (no L3 groups, no NUMA directories) or have one child. Ids are the kernel's and may
// be sparse. Only online CPUs appear. Memory nodes may have no CPUs (CXL, HBM, GPU memory) and CPUs may have no local memory. Thread-compatible;
// immutable once built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"

namespace coterie {

enum class DomainLevel : std::uint8_t { Machine, Socket, Node, Cache, Core };

struct Domain {
  DomainLevel level{DomainLevel::Machine};
  int parent{-1};  // index into Machine::domains; -1 for the machine
  int id{0};       // the kernel's id at this level (node id, package id, ...); for people and ties
  CpuSet cpus;     // online CPUs below
};

struct Cpu {
  int id{0};
  int core{0};              // index of its Core domain
  int cache{0};             // index of its Cache domain, or of its Node domain where there are no L3 groups
  int node{0};              // index of its Node domain
  int socket{0};            // index of its Socket domain
  int kind{0};              // 0 = the fastest kind of core (P), 1 = the next (E), ...
  MilliCpu capacity{1000};  // 1000 for the fastest kind; less for slower ones
};

struct MemoryNode {
  int id{0};
  Bytes size;
  CpuSet cpus;                // CPUs local to it; empty for memory-only nodes
  std::vector<int> distance;  // SLIT row, in the order of Machine::memoryNodes; empty: unknown (10 to itself, 20 to others)
};

struct Machine {
  std::string name;                     // model of the CPU or the generator's name
  std::vector<Domain> domains;          // parents first; [0] is the machine
  std::vector<Cpu> cpus;                // ascending id
  std::vector<MemoryNode> memoryNodes;  // ascending id
  CpuSet online;
  CpuSet allowed;   // what this process may use (its own cpuset and affinity), a subset of online
  CpuSet isolated;  // isolcpus: used only on request
  Bytes memory;     // total physical memory

  [[nodiscard]] const Cpu* findCpu(int id) const;  // nullptr if it is not online; O(log n)
};

}  // namespace coterie
