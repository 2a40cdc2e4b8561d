// What a floor takes of the machine: below one CPU a share of the pool, from there on whole CPUs, because nobody owns a part of one; of an isolated
// service whole units (cores, caches, nodes), one at least. The one rule by which admission counts floors against quota.cpus and by which the
// allocator grants them. O(1), pure; saturates instead of overflowing.
#pragma once

#include <cstdint>
#include <limits>

#include "base/units.h"

namespace coterie {

[[nodiscard]] constexpr MilliCpu ownedFloor(MilliCpu floor) {
  constexpr std::int64_t kCpu = 1000;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kCpu;
  if (floor.value <= kCpu) return floor;
  const std::int64_t cpus = (floor.value - 1) / kCpu + 1;
  return MilliCpu(cpus > kMost ? std::numeric_limits<std::int64_t>::max() : cpus * kCpu);
}

// unitCpus: CPUs of a unit of its isolation, the largest if they differ; 0: it is not isolated.
[[nodiscard]] constexpr MilliCpu ownedFloor(MilliCpu floor, std::int64_t unitCpus) {
  if (unitCpus <= 0) return ownedFloor(floor);
  const std::int64_t unit = unitCpus * 1000;
  const std::int64_t units = floor.value <= unit ? 1 : (floor.value - 1) / unit + 1;
  return MilliCpu(units > std::numeric_limits<std::int64_t>::max() / unit ? std::numeric_limits<std::int64_t>::max() : units * unit);
}

}  // namespace coterie
