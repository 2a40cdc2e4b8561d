#include "allocation/isolation_room.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "allocation/roles.h"
#include "model/owned_floor.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
constexpr std::size_t kNamedHolders = 4;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// For each number of CPUs up to all of them the least sum of whole units that is no less.
std::vector<int> leastSums(const std::vector<int>& sizes, int cpus) {
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
  std::vector<int> least(reached.size());
  int nearest = cpus;  // all units together
  for (int sum = cpus; sum >= 0; --sum) least[at(sum)] = nearest = reached[at(sum)] ? sum : nearest;
  return least;
}

int needOf(const GroupState& shape) {
  return static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(1, cpusForFloor(shape.floor)), INT32_MAX));
}
}  // namespace

IsolationRoom::IsolationRoom(const Layout& layout) : cpus_(layout.size()), largest_(unitSizes(layout)), counted_(largest_) {
  for (const Isolation isolation : {Isolation::Core, Isolation::Cache, Isolation::Node}) {
    Level& level = levels_[at(static_cast<int>(isolation) - static_cast<int>(Isolation::Core))];
    for (const Layout::Branch& branch : layout.branches) {
      if (branch.level == unitLevel(isolation)) level.sizes.push_back(branch.size());
    }
    std::sort(level.sizes.begin(), level.sizes.end());
    level.least = leastSums(level.sizes, cpus_);
  }
}

const IsolationRoom::Level& IsolationRoom::levelOf(Isolation isolation) const {
  return levels_[at(static_cast<int>(isolation) - static_cast<int>(Isolation::Core))];
}

void IsolationRoom::keep(const GroupState& shape) {
  counted_.add(shape);
  bare_.addFloor(shape.floor);
  int cpus = static_cast<int>(cpusForFloor(shape.floor));
  if (isolated(shape)) {
    cpus = levelOf(shape.isolation).least[at(std::min(needOf(shape), cpus_))];
    inUnits_ += cpus;
  } else {
    open_.addFloor(shape.floor);
  }
  const bool inPool = !isolated(shape) && shape.floor < MilliCpu(kCpu);  // no whole CPU is its own: it counts with the others of the pool
  kept_.push_back({shape.id, 1, inPool ? 0 : cpus, shape.isolation});
}

int IsolationRoom::guaranteed() const { return inUnits_ + static_cast<int>(open_.cpus()); }

// By count; units of different sizes may still not fit.
std::optional<Isolation> IsolationRoom::lowerLevel(const GroupState& shape) const {
  for (const Isolation lower : {Isolation::Cache, Isolation::Core, Isolation::None}) {
    if (lower >= shape.isolation) continue;
    FloorCount count = counted_;
    if (lower == Isolation::None) {
      count.addFloor(shape.floor);
    } else {
      count.wholeCpus += ownedFloor(shape.floor, largest_.of(lower)).value / kCpu;
    }
    if (count.cpus() <= cpus_) return lower;
  }
  return std::nullopt;
}

std::vector<UnitShortage::Holder> IsolationRoom::holders() const {
  std::vector<UnitShortage::Holder> all = kept_;
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return std::tuple(-a.cpus, a.group) < std::tuple(-b.cpus, b.group); });
  std::size_t named = 0;
  while (named < all.size() && named < kNamedHolders && all[named].cpus > 0) ++named;
  // Those of the pool have no whole CPUs each: what all of them have together is what is left of the sum.
  int rest = guaranteed();
  for (std::size_t i = 0; i < named; ++i) rest -= all[i].cpus;
  const int groups = static_cast<int>(all.size() - named);
  all.resize(named);
  if (groups > 0 && rest > 0) all.push_back({GroupId{}, groups, rest, Isolation::None});
  return all;
}

bool IsolationRoom::floorFits(const GroupState& shape) const {
  FloorCount bare = bare_;
  bare.addFloor(shape.floor);
  return shape.floor.value <= 0 || bare.cpus() <= cpus_;
}

std::optional<UnitShortage> IsolationRoom::shortageOf(const GroupState& shape) const {
  const int need = needOf(shape);
  if (!isolated(shape) || need > cpus_ || !floorFits(shape)) return std::nullopt;
  const Level& level = levelOf(shape.isolation);
  const int missing = level.least[at(need)] + guaranteed() - cpus_;
  if (missing <= 0) return std::nullopt;

  UnitShortage shortage;
  shortage.isolation = shape.isolation;
  shortage.units = static_cast<int>(level.sizes.size());
  shortage.missingCpus = missing;
  int covered = 0;
  for (auto size = level.sizes.rbegin(); size != level.sizes.rend() && covered < need; ++size) covered += *size, ++shortage.needed;
  int left = cpus_ - guaranteed();
  for (const int size : level.sizes) {
    left -= size;
    if (left < 0 || shortage.left + 1 >= shortage.needed) break;  // as many as it needs would not be of a size that does
    ++shortage.left;
  }
  shortage.fits = lowerLevel(shape);
  shortage.floorMatters = shortage.needed > 1;
  shortage.holders = holders();
  return shortage;
}

std::optional<UnitShortage> unitShortage(const Snapshot& snapshot, const GroupState& newcomer) {
  if (!isolated(newcomer)) return std::nullopt;
  IsolationRoom room(makeLayout(*snapshot.machine, snapshot.reserved));
  for (const GroupState& group : snapshot.groups) room.keep(shapeOf(group));
  return room.shortageOf(shapeOf(newcomer));
}

Isolation impossibleIsolation(const std::vector<Reason>& reasons, GroupId group) {
  const auto found = std::find_if(reasons.begin(), reasons.end(),
                                  [&](const Reason& one) { return one.group == group && one.code == ReasonCode::IsolationImpossible; });
  return found == reasons.end() ? Isolation::None : found->isolation;
}

std::vector<Reason> shortageReasons(GroupId group, const UnitShortage& shortage) {
  std::vector<Reason> reasons;
  reasons.push_back({group, ReasonCode::IsolationImpossible, shortage.needed, shortage.left, {}, shortage.units, shortage.isolation});
  for (const UnitShortage::Holder& holder : shortage.holders)
    reasons.push_back({group, ReasonCode::IsolationHeldBy, holder.cpus, holder.groups, holder.group, 0, holder.isolation});
  reasons.push_back({group,
                     ReasonCode::IsolationRemedy,
                     shortage.missingCpus,
                     shortage.fits ? 1 : 0,
                     {},
                     shortage.floorMatters ? 1 : 0,
                     shortage.fits.value_or(Isolation::None)});
  return reasons;
}

}  // namespace coterie::allocation
