#include "agent/demand.h"

#include <algorithm>

namespace coterie::agent {

MilliCpu demandOf(const DemandSample& sample, bool latencyCritical, std::optional<Nanos> objective) {
  constexpr std::int64_t kMost = 1'000'000'000;  // keeps every product below within 63 bits
  const std::int64_t cpuMicros = std::clamp<std::int64_t>((sample.cpuPerRequest.count() + 999) / 1000, 0, kMost);
  const std::int64_t arrivals = std::clamp<std::int64_t>(sample.arrivals.value, 0, kMost);
  const std::int64_t queued = std::clamp<std::int64_t>(sample.queued, 0, 1'000'000);
  const std::int64_t targetPercent = latencyCritical ? 70 : 95;
  const Nanos drain = objective ? *objective / 2 : Nanos{Seconds{1}};
  const std::int64_t drainMicros = std::max<std::int64_t>(drain.count() / 1000, 1000);
  const std::int64_t running = arrivals * cpuMicros / 1'000'000 * 100 / targetPercent;
  const std::int64_t draining = queued * cpuMicros / drainMicros * 1000 + queued * cpuMicros % drainMicros * 1000 / drainMicros;
  return MilliCpu(std::min<std::int64_t>((running + draining) * 12 / 10, kMost));
}

}  // namespace coterie::agent
