// Isolation: groups that own whole units of the machine, so that no other tenant stands on the same core, beside the same cache or on the same node.
//
// The unit of a level is its domain: a core with its threads, the CPUs of one last-level cache, a node. An isolated group's home is a union of whole
// units (usable CPUs), it is charged for all of them, and it is never in the pool. A machine's units may differ in size (a core with one online
// thread); what a floor costs in them: unit_counts.h, whether there are enough for all: unit_packing.h.
// chooseUnits: nodes first, then caches, then cores, as the smaller ones fit into what the larger ones leave; at each level everybody first keeps the
// units that he has, then those who need more take the nearest to their own, and among equals those that the fewest CPUs of others must leave, the
// largest first; of those that are more than its entitlement, which it takes only for its floor, the smallest. O(isolated groups * units * n). What
// it cannot give: memory bandwidth, and siblings that a virtual machine does not show. Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "allocation/decide.h"
#include "allocation/layout.h"

namespace coterie::allocation {

[[nodiscard]] constexpr bool isolated(const GroupState& group) { return group.isolation != Isolation::None; }
// The domains that are an isolated group's units.
[[nodiscard]] DomainLevel unitLevel(Isolation isolation);
// The units that the CPUs are in, with all their online CPUs; none: the CPUs themselves. CPUs of a node that share no cache, where others of it do,
// are one unit.
[[nodiscard]] CpuSet unitsOf(const Machine& machine, const CpuSet& cpus, Isolation isolation);
// May two groups stand in one unit of either, or use each other's CPUs?
[[nodiscard]] bool mayTouch(const GroupState& one, const GroupState& other);

// CPUs of the largest unit of each level.
struct UnitSizes {
  int core{1};
  int cache{1};
  int node{1};
};
[[nodiscard]] UnitSizes unitSizes(const Layout& layout);

struct UnitClaim {
  int claimant{-1};
  Isolation isolation{Isolation::Core};
  int wanted{0};          // CPUs it is entitled to
  int need{0};            // CPUs of its floor; at least one unit
  std::vector<int> held;  // positions it holds now
  bool pinned{false};     // stays in the units that it holds and nobody else is in, whatever it is entitled to
  std::vector<int> cpus;  // result, ascending; fewer than `need` if there was no room
};
// Claims in ascending order of claimants. holders[p]: the claimant that has position p now, or negative.
void chooseUnits(std::vector<UnitClaim>& claims, const Layout& layout, const std::vector<int>& holders);

struct UnitRoom {
  int cpus{0};
  std::int64_t capacity{0};  // milli-CPUs
};
// One more unit for a claim, of those that nobody has: the one that it would have taken next, if it is no larger than the room. False: there is none.
bool addUnit(std::vector<UnitClaim>& claims, std::size_t claim, const Layout& layout, const std::vector<int>& holders, const UnitRoom& room);

}  // namespace coterie::allocation
