#include "allocation/unit_counts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "allocation/sizing.h"
#include "model/owned_floor.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Which numbers of CPUs whole units of these sizes come to.
std::vector<bool> sumsOf(const std::vector<int>& sizes, int cpus) {
  std::map<int, int> unitsOfSize;
  for (const int size : sizes) ++unitsOfSize[size];
  std::vector<bool> reached(at(cpus) + 1, false);
  reached[0] = true;
  for (const auto& [size, count] : unitsOfSize) {
    std::vector<int> used(reached.size(), 0);  // units of this size, the fewest
    for (int sum = size; sum <= cpus; ++sum) {
      if (reached[at(sum)] || !reached[at(sum - size)] || used[at(sum - size)] >= count) continue;
      reached[at(sum)] = true;
      used[at(sum)] = used[at(sum - size)] + 1;
    }
  }
  return reached;
}
}  // namespace

UnitCounts::UnitCounts(const Layout& layout) {
  for (const Isolation isolation : {Isolation::Core, Isolation::Cache, Isolation::Node}) {
    Level& level = levels_[at(static_cast<int>(isolation) - static_cast<int>(Isolation::Core))];
    std::vector<int> sizes;
    for (const Layout::Branch& branch : layout.branches) {
      if (branch.level == unitLevel(isolation)) sizes.push_back(branch.size());
    }
    if (sizes.empty()) continue;
    std::sort(sizes.begin(), sizes.end());
    level.sizes = std::move(sizes);
    if (level.sizes.front() == level.sizes.back()) continue;
    const std::vector<bool> sums = sumsOf(level.sizes, layout.size());
    level.least.resize(sums.size());
    level.most.resize(sums.size());
    int nearest = 0;
    for (int sum = 0; sum <= layout.size(); ++sum) level.most[at(sum)] = nearest = sums[at(sum)] ? sum : nearest;
    for (int sum = layout.size(); sum >= 0; --sum) level.least[at(sum)] = nearest = sums[at(sum)] ? sum : nearest;
  }
}

const UnitCounts::Level& UnitCounts::levelOf(Isolation isolation) const {
  return levels_[at(static_cast<int>(isolation) - static_cast<int>(Isolation::Core))];
}

std::int64_t UnitCounts::least(Isolation isolation, std::int64_t cpus) const {
  if (isolation == Isolation::None) return cpus;
  const Level& level = levelOf(isolation);
  if (cpus < static_cast<std::int64_t>(level.least.size())) return level.least[at(std::max<std::int64_t>(0, cpus))];
  if (cpus <= 0) return 0;
  return ownedFloor(MilliCpu(std::min(cpus, std::numeric_limits<std::int64_t>::max() / kCpu) * kCpu), level.sizes.back()).value / kCpu;
}

std::int64_t UnitCounts::most(Isolation isolation, std::int64_t cpus) const {
  if (isolation == Isolation::None || cpus <= 0) return std::max<std::int64_t>(0, cpus);
  const Level& level = levelOf(isolation);
  if (!level.most.empty()) return level.most[at(std::min(cpus, static_cast<std::int64_t>(level.most.size()) - 1))];
  return cpus / level.sizes.back() * level.sizes.back();
}

bool UnitCounts::even(Isolation isolation) const { return isolation == Isolation::None || levelOf(isolation).least.empty(); }

const std::vector<int>& UnitCounts::sizes(Isolation isolation) const { return levelOf(isolation).sizes; }

std::int64_t cpusForFloor(const GroupState& group, const UnitCounts& units) {
  const std::int64_t cpus = cpusForFloor(group.floor);
  return isolated(group) ? units.least(group.isolation, std::max<std::int64_t>(1, cpus)) : cpus;
}

}  // namespace coterie::allocation
