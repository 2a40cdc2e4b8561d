// Roles: what a group's init, sidecar and pause containers mean for its CPUs.
//
// The stages (sizing, selection, assignment, moves) see a group's SHAPE: its apps, which share the group's CPUs evenly, and its sidecars, which own
// CPUs of their own within it. Init containers run before the apps: the group is as large as the largest of the two needs, the apps' CPUs are the
// init's as well, and what only the init needed is given back when it has gone. CPUs that an init holds and no other container of the group count as
// held by the first app: it takes them over. Who ends frees what nobody else holds, as homes are read back from those who are there. A group with
// sidecars owns CPUs only from so many on as keep them apart (leastCpus); with fewer all of it is in the pool. Pause containers do nothing and own
// nothing: they follow the pool; where there is none, and in an isolated group, they stand on their own group's home, never on another's. A group of
// pause containers alone is a member of the pool, and the first to wait where the floors do not fit.
// Within a group an app may stand on a sidecar's CPU, or a sidecar on an app's, between the steps of one plan. Containers are known by their ids.
// O(containers * n/64) per group. Pure. Thread-compatible. Source: Kubernetes' rules for effective pod requests and sidecar containers; the failures
// are named in stories_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "allocation/decide.h"

namespace coterie::allocation {

[[nodiscard]] bool hasRoles(const GroupState& group);  // any but apps
// The group as the stages see it: at least one app, then sidecars; floor, ceiling and what is held are the whole group's. The group itself if it has
// no roles.
[[nodiscard]] GroupState shapeOf(const GroupState& group);
// Of a shape. Whole CPUs below which it owns none: one for each CPU of its sidecars and one for its apps; 1 without sidecars.
[[nodiscard]] std::int64_t leastCpus(const GroupState& shape);
// Of a shape: CPUs of each container, 0 for an even part of what is left. Empty if all parts are even.
[[nodiscard]] std::vector<int> fixedSizes(const GroupState& shape);
// Floor that its inits add to what apps and sidecars need; 0: none.
[[nodiscard]] MilliCpu addedByInits(const GroupState& group);

// From the shape's target to that of all containers, in the group's order.
[[nodiscard]] std::vector<ContainerTarget> castOf(const GroupState& group, const GroupTarget& shape, const CpuSet& pool);

// Containers that share the group's weight: all but pauses, at least 1.
[[nodiscard]] std::int64_t sharersOf(const GroupState& group);

}  // namespace coterie::allocation
