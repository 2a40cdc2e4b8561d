// The plan as a picture: an SVG 1.1 document that needs nothing else, of every CPU of the machine in its core, cache, node and socket.
//
// Each CPU is one <g class="cpu" id="cpu-N"> with its id, its owner as "group.container" (numbers of the legend, the container only where a group has
// several; "+group" for each that borrows it) and a <title> that says all of it. A colour per tenant, a pattern per group (map_style.h); stripes are
// loans, a corner marks a CPU that changes hands. The legend has every group, with what it gets. Legible from 1 to 512 CPUs (map_layout.h), still
// sound beyond. Deterministic: the same plan gives the same bytes. O(CPUs * holders + groups). Pure. Thread-compatible.
#pragma once

#include <string>

#include "plan_node/node_plan.h"

namespace coterie::plan_node {

[[nodiscard]] std::string planMap(const NodePlan& plan);

}  // namespace coterie::plan_node
