// The order of writes that leads from what is held to what shall be held, such that the hard rules hold after every one of them, whatever fails.
//
// 1. loans that end; memory nodes and ancestors widened to old|new. 2. losers narrowed to old&new. 3. gainers widened to new, each waiting only for
// the writes by which the CPUs it takes are left. 4. loans that begin; memory nodes narrowed, weights, ancestors narrowed. A container whose old and
// new sets are disjoint moves in one write; where such moves wait for each other in a circle, one of them first steps aside: onto part of its new set
// that is free, a CPU of its own group, a free CPU, a pool CPU (one that joins the pool: what was the pool's so far), or (one step, same tenant) onto
// the CPU it takes; where none of that is left, a group that alone keeps another out waits on a free CPU that somebody gains, who comes after it.
// CPUs held by a Pending group are taken only after its containers have ended: until then their takers do without. CPUs that are the pool's before
// and after may be entered while a leaver is still there: all of them share it by right. Isolation holds after every write: an isolated container
// enters a unit when other tenants have left all of it, and they enter when it has. Two writes of one field of one container wait for each other in
// order. O(sum of set sizes + steps * waits). Pure. Thread-compatible.
#pragma once

#include <vector>

#include "allocation/policy.h"

namespace coterie::allocation {

// The steps to the plan's targets: one per group of the problem, containers as there. homesAtRest: gather_items.h. blocked: per group, whether it
// stays behind because no order of writes leads to its target.
[[nodiscard]] std::vector<Step> planSteps(const Problem& problem, const Plan& plan, const CpuSet* homesAtRest, std::vector<bool>* blocked);

}  // namespace coterie::allocation
