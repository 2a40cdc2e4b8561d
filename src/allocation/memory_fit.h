// Memory fit: from which memory nodes every container allocates, so that what all of them need together has room.
//
// A container needs what is resident, or what it is expected to need where that is more. Its nodes are those nearest to its whole CPU set (H6), and
// the next nearest where these are too full. Containers take their turn by how many nodes are near to them (who has least choice first), then by the
// time at which their group joined, then by id: the order of the snapshot plays no part, and newcomers make room for who was there. Each takes its
// bytes from what those before it left: level over the nearest nodes, the rest from the others in turn. What is only expected and has no room
// anywhere comes last: a guess that cannot come true takes no node from those who fit. Keeping: who has all its nearest nodes, and room in those it
// has, keeps them; it goes back to the nearest alone once these have `narrowSlack` to spare, and leaves memory of a lesser tier once the rest has. So
// a few bytes more or less write nothing. Widening moves no page and is free. Narrowing moves pages: it is paid from a bucket (payNarrowings), and
// waits until that holds what would move; more than the bucket ever holds goes when it is full and leaves a debt. Who cannot be paid makes those
// after it wait: nobody starves. Pressure: a container that waits for memory (PSI), or whose nearest nodes are all nearly full by what the kernel
// says, is given the next nearest node that is not, before the kernel has to reclaim. Where no node is left, a container has all that it may have: it
// is never narrowed below what is resident. Guarantees: what can only be on the nodes of one container fits into them, unless it has all it may have;
// fitting again what was fitted changes nothing; the order of groups changes nothing. Taking turns is not the best there is: where CPU sets of
// several nodes overlap without one holding the other, somebody may be widened although an exchange would have spared it. O(containers * nodes), and
// O(nodes log nodes) for each that is wider than its nearest (up to all). Integers. Pure. Thread-compatible. Source for what must hold:
// kubernetes#113130.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocation/policy.h"

namespace coterie::allocation {

struct MemoryNarrowing {
  std::size_t group{0};      // index into the targets
  std::size_t container{0};  // of the group
  CpuSet wide;               // what it keeps until it is paid
  CpuSet narrow;
  Bytes moves;  // at most
};

struct MemoryFit {
  std::vector<MemoryNarrowing> narrowings;  // by group, then container
  std::vector<Reason> reasons;              // by group
};

// Fills the targets' memory nodes, as if every narrowing were paid. Pending groups have none; what they still hold counts.
[[nodiscard]] MemoryFit fitMemory(const Problem& problem, std::vector<GroupTarget>& targets);

// Pays the narrowings that the bucket has tokens for; for the others the plan's targets stay wide. Adds the fit's reasons and its own to the plan's
// and sorts them by group (the order within one stays); fills the plan's bucket.
void payNarrowings(const Problem& problem, const MemoryFit& fit, Plan& plan);

// What the containers leave of each node where they stand now: for who looks for a place. O(fitMemory) to make.
class MemoryRoom {
 public:
  explicit MemoryRoom(const Problem& problem);
  // Do the nodes nearest to these CPUs have room for so much?
  [[nodiscard]] bool holds(const CpuSet& cpus, MemoryTier tier, Bytes bytes) const;
  void take(const CpuSet& cpus, MemoryTier tier, Bytes bytes);

 private:
  const MemoryMap* map_;
  std::vector<std::int64_t> left_;  // per node of the map
};

}  // namespace coterie::allocation
