// Synthetic machines: regular ones from a few counts, and the odd ones that have broken other schedulers.
//
// Shapes: domains at every level present or absent, SMT, kinds of core, memory-only and CPU-less nodes, sparse node ids, CPU ids above 1024, offline
// CPUs (CPU 0 among them), one CPU. Sibling threads are numbered as Linux numbers them on x86: thread t of core c is t * cores + c. O(CPUs * nodes).
// Thread-compatible.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/machine.h"

namespace coterie::testing {

// One CPU's place, by ids that need only differ; cache -1: the machine has no cache groups.
struct CpuPlace {
  int id{0};
  int socket{0};
  int node{0};
  int cache{-1};
  int core{0};
  int kind{0};
  MilliCpu capacity{1000};
};
// Builds domains and memory nodes (16 GiB each) from places, in any order. extraMemory: nodes without CPUs.
[[nodiscard]] Machine machineFrom(std::string name, const std::vector<CpuPlace>& places, const std::vector<int>& extraMemory = {});

struct MachineShape {
  int sockets{1};
  int nodesPerSocket{1};
  int cachesPerNode{0};  // 0: no cache groups
  int coresPerCache{2};  // per node where there are none
  int threadsPerCore{1};
};
[[nodiscard]] Machine regularMachine(std::string name, const MachineShape& shape);

// 8, 64, 128, 256 or 512 CPUs, SMT 2: 1, 2, 4, 8, 8 nodes on one or two sockets, cache groups of 8 cores. For benches.
[[nodiscard]] Machine bigMachine(int cpus);

// The twelve machines of the histories, and one of them by name (as listed; aborts on an unknown one).
[[nodiscard]] const std::vector<std::string_view>& machineNames();
[[nodiscard]] Machine machineNamed(std::string_view name);

// The same machine with only these CPUs online (domains without CPUs vanish) and allowed. Memory nodes stay.
[[nodiscard]] Machine withOnline(const Machine& machine, const CpuSet& online, const CpuSet& allowed);

}  // namespace coterie::testing
