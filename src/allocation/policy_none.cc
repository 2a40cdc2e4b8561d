// none-single and none-multi: what a node does without a CPU manager (kubelet's policy `none`): every container may run on every usable CPU and the
// kernel's scheduler decides. A tenant's cap plays no part: the peer has none. One container per service or many is the caller's choice. Assumes
// nothing; moves nothing once everybody has the whole set. O(containers * n).
#include <algorithm>

#include "allocation/policy.h"
#include "allocation/roles.h"

namespace coterie::allocation {

Plan planNone(const Problem& problem) {
  Plan plan;
  plan.bucket = problem.snapshot.bucket;
  plan.groups = emptyTargets(problem.groups);
  plan.pool = problem.layout.usable;
  const int cpus = problem.layout.size();
  for (GroupTarget& target : plan.groups) {
    target.inPool = true;
    target.entitlement = MilliCpu(problem.layout.capacity / static_cast<std::int64_t>(plan.groups.size()));
    target.cpuWeight = 100 * sharersOf(*problem.groups[static_cast<std::size_t>(&target - plan.groups.data())]);
    placeOnAll(target, problem.layout.usable);
    for (ContainerTarget& container : target.containers) container.ownLanes = std::max(1, cpus / static_cast<int>(target.containers.size()));
    plan.reasons.push_back({target.id, ReasonCode::SharesFloat, cpus, 0, {}});
  }
  finish(problem, plan);
  return plan;
}

}  // namespace coterie::allocation
