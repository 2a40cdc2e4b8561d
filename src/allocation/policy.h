// What the policies share: the problem as they see it, and the end of every plan (memory nodes, steps).
//
// A policy is a function from Problem to Plan, one per file: policy_drc.cc, policy_none.cc, policy_kubelet_static.cc, policy_balloons.cc. decide()
// makes the Problem and chooses. Pure. Thread-compatible.
#pragma once

#include <vector>

#include "allocation/decide.h"
#include "allocation/layout.h"

namespace coterie::allocation {

struct Problem {
  const Snapshot& snapshot;
  const Config& config;
  Layout layout;
  std::vector<const GroupState*> groups;  // ascending id
};

[[nodiscard]] Plan planDrc(const Problem& problem);
[[nodiscard]] Plan planNone(const Problem& problem);
[[nodiscard]] Plan planKubeletStatic(const Problem& problem);
[[nodiscard]] Plan planBalloons(const Problem& problem);

// One target per group, containers named, nothing placed.
[[nodiscard]] std::vector<GroupTarget> emptyTargets(const Problem& problem);
// Puts every container of the group on `cpus`.
void placeOnAll(GroupTarget& target, const CpuSet& cpus);
// Fills memory nodes from homes and the steps from what is held; a target without a home (Pending) keeps none. Answers which groups cannot get to
// their target, because somebody would have to be beside somebody else in between.
std::vector<bool> finish(const Problem& problem, Plan& plan);

}  // namespace coterie::allocation
