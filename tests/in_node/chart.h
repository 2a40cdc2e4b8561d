// A bar chart of ratios with their intervals, as SVG text.
#pragma once

#include <string>
#include <vector>

#include "testing/paired.h"

namespace coterie::in_node {

struct Bar {
  std::string label;
  testing::Ratio ratio;
};

// One row per bar; a line marks 1. O(bars).
[[nodiscard]] std::string ratioChart(const std::string& title, const std::vector<Bar>& bars);

}  // namespace coterie::in_node
