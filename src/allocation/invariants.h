// The hard rules H1-H7, checked on states and plans: what must hold after every step of every plan, whatever failed before it. And the tenants' caps
// (rule 0), which hold for every plan's targets and for what is held once the plan is done.
//
// H1 one owner per CPU: a group, the pool, or nobody. Sharing that was there before the plan may last until its leavers have gone; new sharing exists
// only among
//    members of the new pool on its CPUs (with leavers of the old pool), or for one SwapHome step.
// H2 normal lanes stay on their own home: no CPU is both home and loan within a group; own lanes are at most the CPUs of the home, one in the pool.
// H3 reserved, offline, disallowed CPUs are never written into a set, and none is left after a whole plan.
// H4 nobody who had a home is without one; no empty home is written.
// H5 isolation in every step: no other tenant's home or loan in a unit of an isolated group; a SwapHome shares only with the same tenant or the pool;
//    nobody borrows from an owner that does not lend.
// H6 memory nodes cover what is nearest to the whole home, are never narrowed below the resident bytes, and never those of a device. What can only be
//    on the nodes of one container fits into them, unless it has all that there are; no more pages move at once than the budget has, or one
//    container's.
// H7 one writer per field: two writes of one field of one container wait for each other, in order.
// Cap (policy drc): the homes of a tenant's exclusive groups, by capacity, and the pool shares of the others, by entitlement, sum to no more than its
//    cap; where its floors (those of a CPU or more rounded up) sum to more than that, to no more than these.
// What was wrong before the plan is no violation while it lasts. O(containers * n) per check. Pure. Thread-compatible.
#pragma once

#include <string_view>
#include <vector>

#include "allocation/decide.h"

namespace coterie::allocation {

struct Violation {
  int rule{0};  // 1..7; 0: a tenant's cap
  GroupId group;
  InstanceId container;
  int cpu{-1};  // a CPU or memory node id, or a step's index for H7
  std::string_view what;
};

// Of the plan alone: its targets and what it would write (caps, and H1-H7 as far as they can be seen there).
[[nodiscard]] std::vector<Violation> checkPlan(const Snapshot& before, const Plan& plan, const Config& config);

// Of a state between or after steps. `before` is the snapshot that the plan was decided on.
[[nodiscard]] std::vector<Violation> checkState(const Snapshot& before, const Plan& plan, const Snapshot& now, const Config& config);

// After every step has succeeded: nothing of the past is left. Containers of Pending groups are excepted.
[[nodiscard]] std::vector<Violation> checkDone(const Plan& plan, const Snapshot& now, const Config& config);

}  // namespace coterie::allocation
