#include "allocation/replay.h"

#include <algorithm>

namespace coterie::allocation {

namespace {
ContainerState* find(Snapshot& snapshot, const Step& step) {
  for (GroupState& group : snapshot.groups) {
    if (group.id != step.group) continue;
    for (ContainerState& container : group.containers) {
      if (container.id == step.container) return &container;
    }
  }
  return nullptr;
}
}  // namespace

void applyStep(Snapshot& snapshot, const Step& step) {
  ContainerState* container = find(snapshot, step);
  if (container == nullptr) return;
  switch (step.kind) {
    case StepKind::NarrowHome:
    case StepKind::WidenHome:
    case StepKind::SwapHome: container->home = step.cpus; return;
    case StepKind::SetLoans:
      container->loans = step.cpus;
      container->awakeLoanLanes = step.cpus.count();
      return;
    case StepKind::SetMemoryNodes: container->memoryNodes = step.memoryNodes; return;
    case StepKind::SetWeight: container->cpuWeight = step.weight; return;
    case StepKind::WidenAncestors:
    case StepKind::NarrowAncestors: return;
  }
}

CpuSet poolReadBack(const Snapshot& before, const Plan& plan, const Snapshot& now) {
  const CpuSet possible = before.pool | plan.pool;
  CpuSet pool;
  for (const GroupState& group : now.groups) {
    const auto target = std::find_if(plan.groups.begin(), plan.groups.end(), [&](const GroupTarget& one) { return one.id == group.id; });
    if (target == plan.groups.end() || !target->inPool) continue;
    for (const ContainerState& container : group.containers) pool |= container.home & possible;
  }
  return pool;
}

void applyAll(Snapshot& snapshot, const Plan& plan) {
  for (const Step& step : plan.steps) applyStep(snapshot, step);
  snapshot.pool = plan.pool;
  snapshot.bucket = plan.bucket;
  snapshot.migration = plan.migration;
  for (GroupState& group : snapshot.groups) {
    for (const GroupTarget& target : plan.groups) {
      if (target.id == group.id && target.moved) group.lastOptionalMove = snapshot.now;
    }
  }
}

}  // namespace coterie::allocation
