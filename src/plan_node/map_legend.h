// The map's legend as entries: what each fill, stripe and mark means. Tenants, then every group with what it gets, then the marks that the map has.
// Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan_node/cpu_owners.h"
#include "plan_node/node_plan.h"

namespace coterie::plan_node {

enum class LegendMark : std::uint8_t { None, Corner, Dashed };

struct LegendEntry {
  std::string kind;     // class of its <g>: "tenant", "group", "mark"
  std::string id;       // of its <g>; may be empty
  std::string fill;     // of the swatch
  std::string stripes;  // over its right half; may be empty
  LegendMark mark{LegendMark::None};
  std::string text;
  std::string title;  // the whole of it, for the tooltip; may be empty
};

[[nodiscard]] std::vector<LegendEntry> legendOf(const NodePlan& plan, const std::vector<CpuUse>& uses);

}  // namespace coterie::plan_node
