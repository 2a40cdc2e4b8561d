// The node's hardware as a value: CPUs, and the tree of domains above them; memory nodes; devices.
//
// Read by an adapter (src/linux, through hwloc) or made by machine_generator.h; the cores know no other source. A domain is any subtree that groups
// CPUs: the machine, a socket, a NUMA node, a cluster of CPUs under one last-level cache, a core with its hardware threads. Domains are stored
// parents first; index 0 is the machine. Any level may be absent (no L3 groups, no NUMA directories) or have one child. Ids are the kernel's and may
// be sparse. Only online CPUs appear. Memory nodes may have no CPUs (CXL, HBM, GPU memory) and CPUs may have no local memory. A device's place may be
// unknown (the kernel's numa_node -1). Thread-compatible; immutable once built.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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
  int cache{0};             // index of its Cache domain, or of its Node domain if it is in no L3 group
  int node{0};              // index of its Node domain
  int socket{0};            // index of its Socket domain
  int kind{0};              // 0 = the fastest kind of core (P), 1 = the next (E), ...
  MilliCpu capacity{1000};  // 1000 for the fastest kind; less for slower ones
  friend bool operator==(const Cpu&, const Cpu&) = default;
};

enum class MemoryKind : std::uint8_t {
  Dram,           // ordinary memory of a socket
  HighBandwidth,  // HBM, MCDRAM: faster, small
  Slow,           // CXL, persistent memory, or a memory-only node of which nothing is known
  Device,         // a GPU's memory that the kernel shows as a node: never given to a container
};
[[nodiscard]] std::string_view memoryKindName(MemoryKind kind);  // "dram", "high-bandwidth", "slow", "device"

struct MemoryNode {
  int id{0};
  Bytes size;
  CpuSet cpus;                        // online CPUs local to it: each CPU to one node; empty for memory-only nodes
  std::vector<int> distance;          // SLIT row, in the order of Machine::memoryNodes; empty: unknown (10 to itself, 20 to others)
  MemoryKind kind{MemoryKind::Dram};  // of a memory-only node as far as it is known
  CpuSet near;                        // of a memory-only node: the CPUs it is attached to; empty: unknown, or the whole machine
  friend bool operator==(const MemoryNode&, const MemoryNode&) = default;
};

// What of a memory node can be had at once: free, or held by pages of files that need only be dropped. It changes all the time, so it is no part of
// the machine.
struct NodeFree {
  int node{0};  // id
  Bytes free;
  friend bool operator==(const NodeFree&, const NodeFree&) = default;
};

enum class DeviceKind : std::uint8_t { Gpu, Coprocessor, Network, Fabric, Storage };
[[nodiscard]] std::string_view deviceKindName(DeviceKind kind);  // "gpu", "coprocessor", "network", "fabric", "storage"

struct Device {
  std::string name;  // the kernel's ("eth0", "nvme0n1"), or the PCI address where it has none
  DeviceKind kind{DeviceKind::Network};
  CpuSet cpus;   // the online CPUs nearest to it; empty: unknown
  int node{-1};  // id of the memory node nearest to it; -1: unknown
  friend bool operator==(const Device&, const Device&) = default;
};

struct Machine {
  std::string name;                     // model of the CPU or the generator's name
  std::vector<Domain> domains;          // parents first; [0] is the machine
  std::vector<Cpu> cpus;                // ascending id
  std::vector<MemoryNode> memoryNodes;  // ascending id
  CpuSet online;
  CpuSet present;               // what it has, online or not; no less than online
  CpuSet allowed;               // what this process may use (its own cpuset and affinity), a subset of online
  CpuSet isolated;              // isolcpus: used only on request
  Bytes memory;                 // total physical memory, without that of devices
  bool virtualMachine{false};   // it is known to be one (of the live machine only): what the host has, nobody here sees
  std::vector<Device> devices;  // by name

  [[nodiscard]] const Cpu* findCpu(int id) const;  // nullptr if it is not online; O(log n)
};

}  // namespace coterie
