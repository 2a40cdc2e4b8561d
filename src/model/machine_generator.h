// Synthetic machines: of any shape from a few counts, and the odd ones that have broken other schedulers.
//
// Shapes: domains at every level present or absent, SMT, kinds of core, memory-only and CPU-less nodes, device memory, sparse node ids, CPU ids above
// 1024, offline, isolated and forbidden CPUs, devices with and without a known place. Sibling threads are numbered as Linux numbers them on x86
// (thread t of core c is t * cores + c) or, as on POWER and hybrid chips, core by core. Distances: 10 to itself, then by socket; a memory-only node
// is as far from its own node as it says and farther from all others by what they are apart. Beside model/ and not in testing/, because the product
// plans for such machines too (`--machine NAME`). Pure. O(CPUs * levels + nodes^2). Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine.h"

namespace coterie {

// One CPU's place, by ids that need only differ within their parent's; cache -1: no cache group.
struct CpuPlace {
  int id{0};
  int socket{0};
  int node{0};
  int cache{-1};
  int core{0};
  int kind{0};
  MilliCpu capacity{1000};
};

// A node without CPUs.
struct ExtraMemory {
  int id{0};
  MemoryKind kind{MemoryKind::Slow};
  Bytes size{std::int64_t{16} << 30};
  int beside{-1};    // id of the node with CPUs that it is attached to; -1: to the whole machine
  int distance{20};  // from that node, or from all
};

struct DevicePlace {
  std::string name;
  DeviceKind kind{DeviceKind::Gpu};
  int node{-1};  // id of the nearest node; -1: unknown
};

enum class CpuNumbering : std::uint8_t { ThreadsApart, ThreadsTogether };

struct MachineShape {
  int sockets{1};
  int nodesPerSocket{1};
  int cachesPerNode{0};  // 0: no cache groups
  int coresPerCache{2};  // per node where there are none
  int threadsPerCore{1};

  int slowCores{0};  // further cores per socket, of kind 1, one thread and half the capacity, in the socket's last cache; numbered after all others
  CpuNumbering numbering{CpuNumbering::ThreadsApart};
  int firstCpu{0};              // the lowest CPU id
  std::vector<int> nodeIds{};   // of the nodes with CPUs, in order; empty: 0, 1, ...
  std::vector<int> noMemory{};  // ids of nodes with CPUs whose size is 0
  Bytes nodeSize{std::int64_t{16} << 30};
  int sameSocket{12};   // distance between nodes of one socket
  int otherSocket{20};  // and of two
  std::vector<ExtraMemory> memory{};
  std::vector<DevicePlace> devices{};
  CpuSet offline{};
  CpuSet isolated{};
  CpuSet forbidden{};  // online, outside the own cpuset
};
[[nodiscard]] Machine regularMachine(std::string name, const MachineShape& shape);
// The places of the online CPUs of a shape, to be changed and handed to machineFrom or machineWith.
[[nodiscard]] std::vector<CpuPlace> regularPlaces(const MachineShape& shape);

// Builds domains and memory nodes (16 GiB each) from places, in any order. extraMemory: nodes without CPUs, far from all.
[[nodiscard]] Machine machineFrom(std::string name, const std::vector<CpuPlace>& places, const std::vector<int>& extraMemory = {});
// The same with the sizes, distances, extra memory, devices and sets of a shape; its counts say nothing here.
[[nodiscard]] Machine machineWith(std::string name, const std::vector<CpuPlace>& places, const MachineShape& shape);

// 8, 64, 128, 256 or 512 CPUs, SMT 2: 1, 2, 4, 8, 8 nodes on one or two sockets, cache groups of 8 cores. For benches.
[[nodiscard]] Machine bigMachine(int cpus);

// The twelve machines of the histories, and one of them by name (as listed; aborts on an unknown one).
[[nodiscard]] const std::vector<std::string_view>& machineNames();
[[nodiscard]] Machine machineNamed(std::string_view name);

// Every named shape, the twelve first (machine_shapes.cc); nothing for a name that is not among them.
[[nodiscard]] const std::vector<std::string_view>& shapeNames();
[[nodiscard]] std::optional<Machine> shapeNamed(std::string_view name);

// The same machine with only these CPUs online (domains without CPUs vanish) and allowed. Memory nodes and devices stay.
[[nodiscard]] Machine withOnline(const Machine& machine, const CpuSet& online, const CpuSet& allowed);

}  // namespace coterie
