#include "shared_page.h"

#include <algorithm>
#include <cmath>

namespace coterie::in_node {

int latencyBucket(Nanos latency) {
  const double micros = std::max(1.0, static_cast<double>(latency.count()) / 1e3);
  return std::min(kLatencyBuckets - 1, static_cast<int>(std::log2(micros) * 16));
}

void ServiceCounters::began(std::size_t lane, Nanos now, Nanos expected) {
  if (lane >= runs.size()) return;
  version.fetch_add(1);
  lanes.store(std::max(lanes.load(), static_cast<int>(lane) + 1));
  runs[lane].expected.store(std::max<std::int64_t>(expected.count(), 1));
  runs[lane].since.store(std::max<std::int64_t>(now.count(), 1));
  version.fetch_add(1);
}

void ServiceCounters::ended(std::size_t lane) {
  version.fetch_add(1);
  completed.fetch_add(1);
  if (lane < runs.size()) runs[lane].since.store(0);
  version.fetch_add(1);
}

double workAt(const ServiceCounters& counters, Nanos now) {
  while (true) {
    const std::uint32_t version = counters.version.load();
    if (version % 2 != 0) continue;
    auto work = static_cast<double>(counters.completed.load());
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(counters.lanes.load()); ++lane) {
      const std::int64_t since = counters.runs[lane].since.load();
      if (since == 0 || since >= now.count()) continue;
      work += std::min(1.0, static_cast<double>(now.count() - since) / static_cast<double>(counters.runs[lane].expected.load()));
    }
    if (counters.version.load() == version) return work;
  }
}

Nanos latencyOfBucket(int bucket) { return Nanos(static_cast<std::int64_t>(std::exp2((bucket + 1) / 16.0) * 1e3)); }

}  // namespace coterie::in_node
