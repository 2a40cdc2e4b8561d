// What a plan's steps are about: every container on its way from what it holds to what it shall hold, and the set above all of them.
//
// Where nobody moves and nobody is isolated, a container of which nothing is to be written concerns nobody: only the others become items. homesAtRest
// says so for homes without looking at each of them again. O(containers * n/64), with homesAtRest O(containers + loans * n/64). Thread-compatible.
#pragma once

#include <vector>

#include "allocation/policy.h"
#include "allocation/step_items.h"
#include "allocation/unit_guard.h"

namespace coterie::allocation {

// homesAtRest: all that containers hold, where no target's home differs from what its container holds; null: not known. Targets: one per group of
// the problem, containers as there.
void gatherItems(const Problem& problem, const std::vector<GroupTarget>& targets, const CpuSet* homesAtRest, StepItems& items, UnitGuard& guard);

}  // namespace coterie::allocation
