// What the policies share: the problem as they see it, and the end of every plan (memory nodes, steps).
//
// A policy is a function from Problem to Plan, one per file: policy_drc.cc, policy_none.cc, policy_kubelet_static.cc, policy_balloons.cc. The Planner
// makes the Problem and chooses. Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/decide.h"
#include "allocation/layout.h"
#include "allocation/memory_map.h"

namespace coterie::allocation {

struct Problem {
  const Snapshot& snapshot;
  const Config& config;
  const Layout& layout;
  const MemoryMap& memory;
  const std::vector<const GroupState*>& groups;  // ascending id
};

class KeptPlacement;
// Fills the plan, whatever was in it.
void planDrc(const Problem& problem, KeptPlacement& kept, Plan& plan);
[[nodiscard]] Plan planNone(const Problem& problem);
[[nodiscard]] Plan planKubeletStatic(const Problem& problem);
[[nodiscard]] Plan planBalloons(const Problem& problem);

// One target per group, containers named, nothing placed.
[[nodiscard]] std::vector<GroupTarget> emptyTargets(const std::vector<const GroupState*>& groups);
// Puts every container of the group on `cpus`.
void placeOnAll(GroupTarget& target, const CpuSet& cpus);
// Those of one group stay in their order. Answers where each went. O(n log n)
std::vector<std::size_t> sortByGroup(std::vector<Reason>& reasons);
// Who has no home (Pending) has no lane.
void closeLanes(std::vector<GroupTarget>& targets);
// Fills the steps from what is held. Answers which groups cannot get to their target, because somebody would have to be beside somebody else in
// between. homesAtRest: gather_items.h; null: not known.
std::vector<bool> orderSteps(const Problem& problem, Plan& plan, const CpuSet* homesAtRest = nullptr);
// The end of a plan whose homes are there: lanes, memory nodes (memory_fit.h), steps.
void finish(const Problem& problem, Plan& plan);

}  // namespace coterie::allocation
