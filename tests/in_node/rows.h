// The steady part of the bench: for each scenario, the rows of drc against every baseline, from one session (session.h) that measures each distinct
// form once. A row's `tuned` is the candidate that drc beats least, which favours the baseline.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "chart.h"
#include "testing/bench_report.h"

namespace coterie::in_node {

struct RowsOptions {
  bool quick{false};
  bool onlyControls{false};  // only drc against itself (A/A)
  std::string scenario;      // only those whose name contains it
  std::string against;       // only this policy
  Seconds limit{660};        // of all scenarios together: each gets its share of what is left
  std::string slices;        // a file for every slice as CSV; empty: none
};

// Prints, reports and charts as it goes. False where a scenario failed to run.
bool runRows(testing::BenchReport& report, std::vector<Bar>& bars, const RowsOptions& options);

}  // namespace coterie::in_node
