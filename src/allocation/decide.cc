#include "allocation/decide.h"

#include <algorithm>
#include <utility>

#include "allocation/floor_room.h"
#include "allocation/isolation.h"
#include "allocation/memory_fit.h"
#include "allocation/plan_steps.h"
#include "allocation/planner.h"
#include "allocation/policy.h"
#include "allocation/roles.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

std::string_view reasonName(ReasonCode code) {
  switch (code) {
    case ReasonCode::EntitledByWeight: return "EntitledByWeight";
    case ReasonCode::RaisedToFloor: return "RaisedToFloor";
    case ReasonCode::CappedAtCeiling: return "CappedAtCeiling";
    case ReasonCode::CappedByQuota: return "CappedByQuota";
    case ReasonCode::PoolMember: return "PoolMember";
    case ReasonCode::IsolationCharged: return "IsolationCharged";
    case ReasonCode::IsolationBlocked: return "IsolationBlocked";
    case ReasonCode::LeftoverKept: return "LeftoverKept";
    case ReasonCode::LeftoverGranted: return "LeftoverGranted";
    case ReasonCode::LeftoverRefused: return "LeftoverRefused";
    case ReasonCode::PlacedTogether: return "PlacedTogether";
    case ReasonCode::SpansDomains: return "SpansDomains";
    case ReasonCode::KeptInPlace: return "KeptInPlace";
    case ReasonCode::MovedForBetterFit: return "MovedForBetterFit";
    case ReasonCode::MoveDeferred: return "MoveDeferred";
    case ReasonCode::MovedOffline: return "MovedOffline";
    case ReasonCode::PendingInsufficientCpu: return "PendingInsufficientCpu";
    case ReasonCode::IsolationImpossible: return "IsolationImpossible";
    case ReasonCode::IsolationHeldBy: return "IsolationHeldBy";
    case ReasonCode::IsolationRemedy: return "IsolationRemedy";
    case ReasonCode::LoanWoken: return "LoanWoken";
    case ReasonCode::LoanParked: return "LoanParked";
    case ReasonCode::LoanRefusedIsolation: return "LoanRefusedIsolation";
    case ReasonCode::LendingOff: return "LendingOff";
    case ReasonCode::SizedByInit: return "SizedByInit";
    case ReasonCode::SidecarsApart: return "SidecarsApart";
    case ReasonCode::MemoryWidened: return "MemoryWidened";
    case ReasonCode::MemoryUnderPressure: return "MemoryUnderPressure";
    case ReasonCode::MemoryShort: return "MemoryShort";
    case ReasonCode::MemoryTierAbsent: return "MemoryTierAbsent";
    case ReasonCode::MemoryOtherTier: return "MemoryOtherTier";
    case ReasonCode::MemoryNarrowDeferred: return "MemoryNarrowDeferred";
    case ReasonCode::DeviceFar: return "DeviceFar";
    case ReasonCode::DeviceUnknown: return "DeviceUnknown";
    case ReasonCode::SharesFloat: return "SharesFloat";
  }
  return "Unknown";
}

std::vector<GroupTarget> emptyTargets(const std::vector<const GroupState*>& groups) {
  std::vector<GroupTarget> targets;
  targets.reserve(groups.size());
  for (const GroupState* group : groups) {
    GroupTarget target;
    target.id = group->id;
    for (const ContainerState& container : group->containers) {
      target.containers.push_back({});
      target.containers.back().id = container.id;
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

void placeOnAll(GroupTarget& target, const CpuSet& cpus) {
  for (ContainerTarget& container : target.containers) container.home = cpus;
}

std::vector<std::size_t> sortByGroup(std::vector<Reason>& reasons) {
  std::vector<std::pair<GroupId, std::size_t>> order;
  order.reserve(reasons.size());
  for (std::size_t i = 0; i < reasons.size(); ++i) order.emplace_back(reasons[i].group, i);
  std::sort(order.begin(), order.end());
  std::vector<Reason> sorted;
  sorted.reserve(reasons.size());
  std::vector<std::size_t> placeOf(order.size());
  for (const auto& [group, index] : order) placeOf[index] = sorted.size(), sorted.push_back(reasons[index]);
  reasons = std::move(sorted);
  return placeOf;
}

void closeLanes(std::vector<GroupTarget>& targets) {
  for (GroupTarget& target : targets) {
    for (ContainerTarget& container : target.containers) {
      if (container.home.empty()) container.ownLanes = 0;
    }
  }
}

std::vector<bool> orderSteps(const Problem& problem, Plan& plan, const CpuSet* homesAtRest) {
  std::vector<bool> blocked;
  plan.steps = planSteps(problem, plan, homesAtRest, &blocked);
  return blocked;
}

void finish(const Problem& problem, Plan& plan) {
  closeLanes(plan.groups);
  payNarrowings(problem, fitMemory(problem, plan.groups), plan);
  orderSteps(problem, plan);
}

Plan decide(const Snapshot& snapshot, const Config& config) {
  Planner planner;
  planner.decide(snapshot, config);
  return std::move(planner).take();
}

MilliCpu missingForFloor(const Snapshot& snapshot, const GroupState& newcomer) {
  // Only isolated groups need to know the machine's units: this is asked at every pass for every service that waits.
  const bool anyIsolated = isolated(newcomer) || std::any_of(snapshot.groups.begin(), snapshot.groups.end(), isolated);
  const Layout layout = anyIsolated ? makeLayout(*snapshot.machine, snapshot.reserved) : Layout{};
  const UnitCounts units = anyIsolated ? UnitCounts(layout) : UnitCounts{};
  FloorRoom room(layout, units);
  for (const GroupState& group : snapshot.groups) room.add(shapeOf(group));
  room.add(shapeOf(newcomer));
  const std::int64_t missing = room.count().cpus() - usableCpus(*snapshot.machine, snapshot.reserved).count();
  if (missing > 0) return MilliCpu(missing * 1000);
  return MilliCpu(!anyIsolated || room.fits() ? 0 : 1000);  // units of different sizes: by count there would be room
}

}  // namespace coterie::allocation
