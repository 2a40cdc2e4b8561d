// The plan as a tree of values, everything in it; README.md lists the fields, which stay. O(groups + containers + steps). Pure. Thread-compatible.
#pragma once

#include "model/value.h"
#include "plan_node/node_plan.h"

namespace coterie::plan_node {

[[nodiscard]] Value planValue(const NodePlan& plan);

}  // namespace coterie::plan_node
