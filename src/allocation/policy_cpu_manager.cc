// cm-single and cm-multi: a node under kubelet's CPU manager policy `static`, with every container a guaranteed pod of floor(CPUs / containers) CPUs.
//
// Documented behaviour that is kept: whole CPUs, exclusive; whole sockets, nodes and cores before single threads, lowest ids first; a container keeps
// its CPUs while its number stays the same; what is not given away is the shared pool, for everybody without exclusive CPUs; with less than one CPU
// each nobody has any and all share everything. Weights, floors, caps of tenants and demand play no part. O(n log n + groups * domains). Source:
// Kubernetes documentation, "Control CPU Management Policies on the Node".
#include <algorithm>

#include "allocation/assignment.h"
#include "allocation/policy.h"
#include "allocation/selection.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Keeps what each group holds, up to its number, then fills up from the free CPUs.
void select(Board& board, const Problem& problem, int perContainer) {
  for (std::size_t g = 0; g < problem.groups.size(); ++g) {
    for (const ContainerState& container : problem.groups[g]->containers) {
      for (const int position : problem.layout.toPositions(container.home - problem.snapshot.pool)) {
        if (board.owner(position) == kFree) board.give(position, static_cast<int>(g));
      }
    }
  }
  const auto wanted = [&](int g) { return perContainer * static_cast<int>(problem.groups[at(g)]->containers.size()); };
  const auto has = [&](int g) { return static_cast<int>(board.owned(g).size()); };
  for (int g = 0; g < board.claimants(); ++g) {
    for (int kind = problem.layout.kindCount - 1; kind >= 0 && has(g) > wanted(g); --kind) board.shed(g, kind, has(g) - wanted(g));
  }
  for (int g = 0; g < board.claimants(); ++g) {
    for (int kind = 0; kind < problem.layout.kindCount && has(g) < wanted(g); ++kind) board.grow(g, kind, wanted(g) - has(g), perContainer);
  }
}
}  // namespace

Plan planCpuManager(const Problem& problem) {
  Plan plan;
  plan.bucket = problem.snapshot.bucket;
  plan.groups = emptyTargets(problem);
  const Layout& layout = problem.layout;
  int containers = 0;
  for (const GroupState* group : problem.groups) containers += static_cast<int>(group->containers.size());
  const int perContainer = containers == 0 ? 0 : layout.size() / containers;

  std::vector<TenantId> tenants;
  for (const GroupState* group : problem.groups) tenants.push_back(group->tenant);
  Board board(layout, tenants);
  if (perContainer > 0) select(board, problem, perContainer);

  plan.pool = layout.usable;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    GroupTarget& target = plan.groups[g];
    target.cpuWeight = 100 * static_cast<std::int64_t>(target.containers.size());
    if (perContainer == 0) {
      target.inPool = true;
      placeOnAll(target, layout.usable);
      plan.reasons.push_back({target.id, ReasonCode::SharesFloat, layout.size(), 0, {}});
      continue;
    }
    const std::vector<int>& cpus = board.owned(static_cast<int>(g));
    std::vector<Positions> held;
    for (const ContainerState& container : problem.groups[g]->containers) {
      held.push_back(layout.toPositions(container.home));
      std::erase_if(held.back(), [&](int position) { return board.owner(position) != static_cast<int>(g); });
    }
    const std::vector<Positions> homes = assignContainers(layout, cpus, held);
    for (std::size_t c = 0; c < homes.size(); ++c) {
      target.containers[c].home = layout.toSet(homes[c]);
      target.containers[c].ownLanes = perContainer;
      plan.pool -= target.containers[c].home;
    }
    target.entitlement = MilliCpu(static_cast<std::int64_t>(cpus.size()) * 1000);
    plan.reasons.push_back({target.id,
                            ReasonCode::EntitledByWeight,
                            target.entitlement.value,
                            1000 / std::max<std::int64_t>(1, static_cast<std::int64_t>(plan.groups.size())),
                            {}});
  }
  finish(problem, plan);
  return plan;
}

}  // namespace coterie::allocation
