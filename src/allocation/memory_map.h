// The machine's memory as containers see it: which nodes are near to a set of CPUs, of which kind, and in which order to widen by.
//
// A node is ranked by what was asked for: usually slow memory comes after all other, on request DRAM or high-bandwidth memory comes first, or only
// the distance counts. Nearest to a whole set are, for each of its CPUs, the nearest nodes of the best rank that the machine has. A device's memory
// (MemoryKind::Device) is never among them, however near it is: what lands there is lost to its owner. A copy of what it needs of the machine;
// O(nodes with CPUs * nodes) to make, O(CPUs of the set) to ask for the nearest, O(CPUs + nodes log nodes) for the order. Pure. Thread-compatible;
// immutable once built.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocation/decide.h"
#include "base/cpu_set.h"
#include "base/units.h"
#include "model/machine.h"

namespace coterie::allocation {

class MemoryMap {
 public:
  explicit MemoryMap(const Machine& machine);

  struct Node {
    int id{0};
    Bytes size;
    MemoryKind kind{MemoryKind::Dram};
    bool usable{false};  // a container may allocate from it
  };
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }  // ascending id
  [[nodiscard]] const CpuSet& usable() const { return usable_; }           // ids
  // How far a kind is from what was asked for; 0 is best. Less is had first, whatever the distance.
  [[nodiscard]] static int rank(MemoryKind kind, MemoryTier tier);
  // The rank of the nodes that nearest() answers with.
  [[nodiscard]] int bestRank(MemoryTier tier) const { return bestRank_[static_cast<std::size_t>(tier)]; }

  // Nodes nearest to the whole set; empty if the machine names no memory node.
  [[nodiscard]] CpuSet nearest(const CpuSet& cpus, MemoryTier tier = MemoryTier::Usual) const;
  // All usable nodes, as indices into nodes(): by rank, then by distance to the nearest of these CPUs, then by id.
  [[nodiscard]] std::vector<std::size_t> order(const CpuSet& cpus, MemoryTier tier) const;

 private:
  struct Source {  // of a node with CPUs
    std::array<CpuSet, kMemoryTiers> nearest;
    std::vector<int> distance;  // to all nodes
  };
  template <typename Visit>
  void eachNodeOf(const CpuSet& cpus, const Visit& visit) const;

  std::vector<Node> nodes_;
  std::vector<Source> sources_;  // per node; empty for those without CPUs
  std::vector<int> nodeOf_;      // CPU id -> index of its node, kOrphan for online CPUs without one, kAbsent for others
  CpuSet usable_;
  std::array<CpuSet, kMemoryTiers> best_;  // nodes of the best rank
  std::array<int, kMemoryTiers> bestRank_{};
};

}  // namespace coterie::allocation
