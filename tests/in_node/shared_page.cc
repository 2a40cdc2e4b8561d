#include "shared_page.h"

#include <algorithm>
#include <cmath>

namespace coterie::in_node {

int latencyBucket(Nanos latency) {
  const double micros = std::max(1.0, static_cast<double>(latency.count()) / 1e3);
  return std::min(kLatencyBuckets - 1, static_cast<int>(std::log2(micros) * 16));
}

Nanos latencyOfBucket(int bucket) { return Nanos(static_cast<std::int64_t>(std::exp2((bucket + 1) / 16.0) * 1e3)); }

}  // namespace coterie::in_node
