// 600 changes of a loaded service's CPUs, and what followed each.
//
// One service of a 1 ms model under a closed loop of 2 requests per CPU. Its ceiling goes to and fro between one CPU and all of them, with lending
// off, so that each change is one decision of the controller: a growth opens lanes, a shrink takes CPUs away. Every decision is followed by a pause
// of random length, so that nothing beats in step with the controller's timers. Between a growth and the next shrink stands a hold: a decision that
// leaves the CPUs as they are, judged by the growth's own rule as if the rate had been one CPU's until then. What a hold takes is the machine's own
// unsteadiness (CPUs that its host gives to others), which no controller can be quicker than.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "elastic_node.h"

namespace coterie::elastic {

struct ChangesOptions {
  int changes{600};
  Nanos pause{Millis(180)};  // mean
  std::string dump;          // a file for the raw delays; empty: none
};

struct ChangesFigures {
  std::vector<double> laneStarts;  // ms; a change that never took effect counts with the whole pause
  std::vector<double> cpuLeft;
  std::vector<double> followed;     // ms; answers per second
  std::vector<double> cpuFollowed;  // CPU time per second: less the CPUs' own speed
  std::vector<double> held;         // as `followed`, of the holds
  int notFollowed{0};
  double runP50{0};     // ms of CPU of a run
  double smallRate{0};  // answers/s with one CPU and with all
  double largeRate{0};
  double rssGrowth{0};  // after the last change against after the 20th
  double sampleGapP99{0};
  bool realtimeSampler{false};
  double foreignCpus{0};  // used by others meanwhile
};

// Uses and then ends service `service` of the node.
[[nodiscard]] Result<ChangesFigures> measureChanges(ElasticNode& node, std::size_t service, const ChangesOptions& options);

}  // namespace coterie::elastic
