#include <algorithm>

#include "allocation/assignment.h"
#include "allocation/placement.h"

namespace coterie::allocation {

namespace {
// Both name every member, so that one that is added is thought of here: does the placement depend on it?
bool sameForPlacement(const ContainerState& now, const ContainerState& then) {
  const auto& [id, home, memoryNodes, loans, awakeLoanLanes, resident, cpuWeight, role, floor] = now;
  return id == then.id && home == then.home && role == then.role && floor == then.floor;  // resident: see renewMemory()
}

bool sameForPlacement(const GroupState& now, const GroupState& then) {
  const auto& [id, tenant, band, tenantWeight, weight, tenantCap, floor, ceiling, latencyCritical, lend, isolation, loanLanes, joined, containers,
               demand, queuedBeyondOwnLanes, demandBelowEntitlementSince, lastOptionalMove] = now;
  return id == then.id && tenant == then.tenant && band == then.band && tenantWeight == then.tenantWeight && weight == then.weight &&
         tenantCap == then.tenantCap && floor == then.floor && ceiling == then.ceiling && isolation == then.isolation && joined == then.joined &&
         std::equal(containers.begin(), containers.end(), then.containers.begin(), then.containers.end(),
                    [](const ContainerState& a, const ContainerState& b) { return sameForPlacement(a, b); });
}
}  // namespace

Placement& KeptPlacement::of(const Problem& problem) {
  if (holds(problem)) {
    renewMemory(problem);
  } else {
    known_ = taken_ = false;
    placement_ = place(problem, std::vector<bool>(problem.groups.size(), false));
    keep(problem);
  }
  return placement_;
}

bool KeptPlacement::holds(const Problem& problem) const {
  if (!known_ || problem.groups.size() != groups_.size() || problem.config != config_ || problem.snapshot.pool != pool_) return false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!sameForPlacement(*problem.groups[g], groups_[g])) return false;
  }
  if (!placement_.limited) return true;
  const MilliCpu level = bucketNow(problem).level;
  if (level < placement_.bucketFrom || level >= placement_.bucketBelow) return false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (mayMove(*problem.groups[g], problem) != mayMove_[g]) return false;
  }
  return true;
}

void KeptPlacement::keep(const Problem& problem) {
  groups_.resize(problem.groups.size());
  mayMove_.resize(problem.groups.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g] = *problem.groups[g];
    mayMove_[g] = mayMove(groups_[g], problem);
  }
  pool_ = problem.snapshot.pool;
  config_ = problem.config;
  known_ = true;
}

// Memory nodes depend on what is resident, too, which changes at any time, and for its container alone.
void KeptPlacement::renewMemory(const Problem& problem) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t c = 0; c < groups_[g].containers.size(); ++c) {
      const Bytes resident = problem.groups[g]->containers[c].resident;
      if (resident == groups_[g].containers[c].resident) continue;
      groups_[g].containers[c].resident = resident;
      taken_ = false;
      ContainerTarget& target = placement_.groups[g].containers[c];
      if (!target.home.empty()) target.memoryNodes = problem.memory.nodesFor(target.home, resident);
    }
  }
}

}  // namespace coterie::allocation
