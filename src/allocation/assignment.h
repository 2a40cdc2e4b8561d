// Container resource assignment: which of its group's CPUs each container gets, and from which memory nodes it allocates.
//
// Sizes are equal up to one CPU, unless some are given: then those first, and equal parts of the rest; who holds the larger share keeps it. A
// container keeps what it holds, gives up its most distant CPUs first, and is filled with the nearest unassigned ones; one that holds nothing gets
// the run of CPUs that spans least. With fewer CPUs than containers each gets one CPU, shared evenly. Memory nodes are derived from the whole set:
// for each CPU the nearest nodes with memory; they are widened by the next nearest until they hold what is resident; a device's memory
// (MemoryKind::Device) is never among them. O(k * n log n) for k containers and n CPUs. Pure. Thread-compatible. Source: Liu & Guitart, IEEE CLOUD
// 2025 (container resource assignment).
#pragma once

#include <cstdint>
#include <vector>

#include "allocation/layout.h"
#include "base/cpu_set.h"
#include "base/units.h"

namespace coterie::allocation {

using Positions = std::vector<int>;  // ascending

// cpus: the group's, at least one; held[c]: what container c holds of them (any subset). Every result is non-empty; together they are `cpus`.
// sizes[c]: CPUs of container c, 0 for an equal part of what the others leave, which at least one must have; empty: all parts are equal. Where
// there are too few for that, all parts are equal.
[[nodiscard]] std::vector<Positions> assignContainers(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held,
                                                      const std::vector<int>& sizes = {});

// Distances between CPUs and memory. A copy of what it needs of the machine; O(nodes with CPUs * nodes) to make, O(CPUs of the set) to ask where the
// nearest nodes hold what is resident.
class MemoryMap {
 public:
  explicit MemoryMap(const Machine& machine);
  // Nodes nearest to the whole set; empty if the machine names no memory node.
  [[nodiscard]] CpuSet nearest(const CpuSet& cpus) const;
  // The same, widened until the nodes hold `resident` or there are no more.
  [[nodiscard]] CpuSet nodesFor(const CpuSet& cpus, Bytes resident) const;

 private:
  struct Node {
    int id{0};
    Bytes size;
    bool usable{false};
    CpuSet nearest;             // of a node with CPUs: the nodes with memory nearest to them
    std::vector<int> distance;  // of a node with CPUs: to all nodes
  };
  void widen(CpuSet& nodes, Bytes held, const CpuSet& cpus, Bytes resident) const;

  std::vector<Node> nodes_;  // ascending id
  std::vector<int> nodeOf_;  // CPU id -> index of its node, kOrphan for online CPUs without one, kAbsent for others
  CpuSet all_;
};

}  // namespace coterie::allocation
