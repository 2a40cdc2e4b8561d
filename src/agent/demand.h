// How much CPU a service could use now, from what the gateway measured (in-node scheduling, "Demand").
//
// demand = 1000 * (arrivals * s / target utilisation + queued * s / drain time) * 1.2, in milli-CPUs, before clamping to floor and ceiling. Never
// from CPU use: use cannot exceed what was granted, so nobody would ever grow. Target utilisation 0.7 for latency-critical services, 0.95 for batch;
// drain time half the objective, 1 s without one. Integers; rates saturate. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"

namespace coterie::agent {

struct DemandSample {
  MilliRps arrivals;                 // EWMA, time constant 1 s, refused requests included
  Nanos cpuPerRequest{};             // thread CPU time of one run; 0: not known yet
  std::int64_t queued{0};            // requests that wait
  bool queuedBeyondOwnLanes{false};  // requests wait while every own lane is busy
};

[[nodiscard]] MilliCpu demandOf(const DemandSample& sample, bool latencyCritical, std::optional<Nanos> objective);

}  // namespace coterie::agent
