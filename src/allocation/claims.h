// How much of the machine everybody gets, before it is asked where: who waits, entitlements, whole CPUs, the pool, and the whole units of those who
// are isolated, which are chosen here, because their number is what they cost.
//
// Who waits (floor_room.h) -> entitlements (sizing.h) -> pool (whole.cc) -> units (isolation.h), again while a tenant's units pass its cap. Units
// that were chosen by what everybody holds and is entitled to may leave others too little where they differ in size: then from those that the floors
// are known to fit into (unit_packing.h). Where somebody is pinned even that may not go: then newcomers wait, the youngest of the lowest band first.
// -> Whole units that nobody is entitled to, by largest remainder. -> The CPUs that are in nobody's units, among all others. O(g log g + n) without
// isolated groups, else O(isolated groups * (g log g + n)), and the search for units. Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <vector>

#include "allocation/isolation.h"
#include "allocation/policy.h"
#include "allocation/selection.h"
#include "allocation/sizing.h"
#include "allocation/unit_counts.h"

namespace coterie::allocation {

struct Claims {
  UnitCounts units;
  std::vector<bool> pending;  // per group
  std::vector<bool> inPool;   // per group
  Entitlements sizing;
  std::vector<Claimant> claimants;  // groups with CPUs of their own, then the pool
  std::vector<int> claimantOf;      // per group; kFree for pending ones
  int pool{kFree};                  // its claimant
  std::vector<int> holders;         // per position: the claimant that holds it now
  std::vector<int> unitOwner;       // per position: the isolated claimant whose unit it is in
  std::vector<int> wantedCpus;      // per group: CPUs of isolated ones as they are entitled, their floors at least; 0 for others
  bool unitsRooted{false};          // somebody's units differ from what he asked for: another's, moved, would leave what he could take
};

// groups: those of the problem, as shapes (roles.h). pinned: per group, whether it stays in the units that it holds.
[[nodiscard]] Claims makeClaims(const Problem& problem, const std::vector<const GroupState*>& groups, const std::vector<bool>& pinned);
[[nodiscard]] bool ownsUnits(const Claims& claims, const std::vector<const GroupState*>& groups, std::size_t claimant);

}  // namespace coterie::allocation
