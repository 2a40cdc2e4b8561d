#include <algorithm>

#include "allocation/placement.h"

namespace coterie::allocation {

namespace {
// These name every member, so that one that is added is thought of here: do the homes depend on it, or the memory nodes?
bool sameForPlacement(const ContainerState& now, const ContainerState& then) {
  const auto& [id, home, memoryNodes, loans, awakeLoanLanes, resident, expected, cpuWeight, memoryPressure, role, floor] = now;
  return id == then.id && home == then.home && role == then.role && floor == then.floor;
}

bool sameForMemory(const ContainerState& now, const ContainerState& then) {
  const auto& [id, home, memoryNodes, loans, awakeLoanLanes, resident, expected, cpuWeight, memoryPressure, role, floor] = now;
  return memoryNodes == then.memoryNodes && resident == then.resident && expected == then.expected && memoryPressure == then.memoryPressure;
}

bool sameForPlacement(const GroupState& now, const GroupState& then) {
  const auto& [id, tenant, band, tenantWeight, weight, tenantCap, floor, ceiling, latencyCritical, lend, isolation, memory, device, loanLanes, joined,
               containers, demand, queuedBeyondOwnLanes, demandBelowEntitlementSince, lastOptionalMove] = now;
  return id == then.id && tenant == then.tenant && band == then.band && tenantWeight == then.tenantWeight && weight == then.weight &&
         tenantCap == then.tenantCap && floor == then.floor && ceiling == then.ceiling && isolation == then.isolation && device == then.device &&
         joined == then.joined &&
         std::equal(containers.begin(), containers.end(), then.containers.begin(), then.containers.end(),
                    [](const ContainerState& a, const ContainerState& b) { return sameForPlacement(a, b); });
}

// Of groups that are the same for placement.
bool sameForMemory(const GroupState& now, const GroupState& then) {
  return now.memory == then.memory && std::equal(now.containers.begin(), now.containers.end(), then.containers.begin(),
                                                 [](const ContainerState& a, const ContainerState& b) { return sameForMemory(a, b); });
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

bool KeptPlacement::holds(const Problem& problem) {
  if (!known_ || problem.groups.size() != groups_.size() || problem.config != config_ || problem.snapshot.pool != pool_) return false;
  sameMemory_ = memoryFree_ == problem.snapshot.memoryFree;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!sameForPlacement(*problem.groups[g], groups_[g])) return false;
    sameMemory_ = sameMemory_ && sameForMemory(*problem.groups[g], groups_[g]);
  }
  if (placement_.memoryHadASay && !sameMemory_) return false;
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
  held_.clear();
  atRest_ = true;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g] = *problem.groups[g];
    mayMove_[g] = mayMove(groups_[g], problem);
    for (std::size_t c = 0; c < groups_[g].containers.size(); ++c) {
      held_ |= groups_[g].containers[c].home;
      atRest_ = atRest_ && groups_[g].containers[c].home == placement_.groups[g].containers[c].home;
    }
  }
  pool_ = problem.snapshot.pool;
  config_ = problem.config;
  memoryFree_ = problem.snapshot.memoryFree;
  known_ = true;
}

// Memory nodes depend on what changes at any time, too. What one needs is another's room, so all are fitted again.
void KeptPlacement::renewMemory(const Problem& problem) {
  if (sameMemory_) return;
  memoryFree_ = problem.snapshot.memoryFree;
  for (std::size_t g = 0; g < groups_.size(); ++g) groups_[g] = *problem.groups[g];
  placement_.memory = fitMemory(problem, placement_.groups);
  taken_ = false;
}

}  // namespace coterie::allocation
