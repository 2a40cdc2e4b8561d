#include "linux/lane_spread.h"

#include <algorithm>

namespace coterie::linux {

std::vector<int> spreadLanes(const std::vector<int>& present, const CpuSet& cpus) {
  std::vector<int> lanes(present.size(), -1);
  const std::size_t placed = std::min(present.size(), static_cast<std::size_t>(cpus.count()));
  CpuSet left = cpus;
  for (std::size_t lane = 0; lane < placed; ++lane) {
    if (present[lane] < 0 || !left.contains(present[lane])) continue;
    lanes[lane] = present[lane];
    left.remove(present[lane]);
  }
  for (std::size_t lane = 0; lane < placed; ++lane) {
    if (lanes[lane] >= 0) continue;
    lanes[lane] = left.first();
    left.remove(lanes[lane]);
  }
  return lanes;
}

}  // namespace coterie::linux
