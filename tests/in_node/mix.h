// The dynamic mix: three services arrive at 0, 5 and 10 s, each with work for so many seconds alone; the time until all is done (makespan).
#pragma once

#include "testing/bench_report.h"

namespace coterie::in_node {

// Both orders of arrival, drc and what else could be run, interleaved. About a quarter of an hour at 25 s. False where a run failed.
bool runMix(testing::BenchReport& report, double secondsAlone);

}  // namespace coterie::in_node
