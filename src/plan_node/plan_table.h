// The plan as people read it: a few lines and tables of cells, for whoever aligns them (the CLI: cli/table.h). Every group, container and step is
// there, in the plan's order. O(groups + containers + steps). Pure. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "plan_node/node_plan.h"

namespace coterie::plan_node {

struct TextTable {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

struct GroupReasons {
  std::string group;
  struct Line {
    std::string reason;  // CamelCase
    std::string sentence;
  };
  std::vector<Line> lines;
};

struct PlanText {
  std::vector<std::string> summary;  // the machine; policy and pool; J
  TextTable places;                  // a row per container
  std::vector<GroupReasons> reasons;
  TextTable widths;  // a row per group and width that was judged; no rows: the file has no run times
  TextTable moves;   // no rows: nobody moves
  TextTable steps;   // numbered from 1; no rows: nothing to write
};

[[nodiscard]] PlanText planText(const NodePlan& plan);
// "8 CPUs, 1 socket, 2 NUMA nodes, 4 cores, 32 GiB"
[[nodiscard]] std::string machineText(const Machine& machine);

}  // namespace coterie::plan_node
