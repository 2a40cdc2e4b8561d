// Which CPU each own lane of a container keeps to (CpuChangeKind::LaneCpus): lane i of the first |cpus| lanes has one CPU to itself. A lane whose CPU
// stays in the set keeps it (a move costs its caches); the others take what is left, lowest id first. Lanes beyond the CPUs float: -1.
// O(lanes + CPUs). Thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "base/cpu_set.h"

namespace coterie::linux {

// `present`: the CPU that each lane keeps to now, -1 for none; its size is the number of lanes. An empty set frees them all.
[[nodiscard]] std::vector<int> spreadLanes(const std::vector<int>& present, const CpuSet& cpus);

}  // namespace coterie::linux
