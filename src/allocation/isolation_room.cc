#include "allocation/isolation_room.h"

#include <algorithm>
#include <tuple>

#include "allocation/roles.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
constexpr std::size_t kNamedHolders = 4;

int needOf(const GroupState& shape) {
  return static_cast<int>(std::min<std::int64_t>(std::max<std::int64_t>(1, cpusForFloor(shape.floor)), INT32_MAX));
}
}  // namespace

IsolationRoom::IsolationRoom(const Layout& layout) : cpus_(layout.size()), units_(layout), room_(layout, units_) {}

void IsolationRoom::keep(const GroupState& shape) {
  room_.add(shape);
  tightest_.reset();
  bare_.addFloor(shape.floor);
  const bool inPool = !isolated(shape) && shape.floor < MilliCpu(kCpu);  // no whole CPU is its own: it counts with the others of the pool
  kept_.push_back({shape.id, 1, inPool ? 0 : static_cast<int>(cpusForFloor(shape.floor)), shape.isolation});
}

std::optional<Isolation> IsolationRoom::lowerLevel(const GroupState& shape) const {
  for (const Isolation lower : {Isolation::Cache, Isolation::Core, Isolation::None}) {
    if (lower >= shape.isolation) continue;
    GroupState less;
    less.floor = shape.floor;
    less.isolation = lower;
    if (fits(less)) return lower;
  }
  return std::nullopt;
}

std::vector<UnitShortage::Holder> IsolationRoom::holders(const UnitPacking& units, int guaranteed) const {
  std::vector<UnitShortage::Holder> all = kept_;
  auto next = units.cpusOf.begin();
  for (UnitShortage::Holder& holder : all) {
    if (holder.isolation != Isolation::None) holder.cpus = *next++;
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return std::tuple(-a.cpus, a.group) < std::tuple(-b.cpus, b.group); });
  std::size_t named = 0;
  while (named < all.size() && named < kNamedHolders && all[named].cpus > 0) ++named;
  // Those of the pool have no whole CPUs each: what all of them have together is what is left of the sum.
  int rest = guaranteed;
  for (std::size_t i = 0; i < named; ++i) rest -= all[i].cpus;
  const int groups = static_cast<int>(all.size() - named);
  all.resize(named);
  if (groups > 0 && rest > 0) all.push_back({GroupId{}, groups, rest, Isolation::None});
  return all;
}

const std::optional<UnitPacking>& IsolationRoom::tightest() const {
  if (!tightest_) tightest_ = room_.tightestUnits();
  return *tightest_;
}

bool IsolationRoom::fits(const GroupState& shape) const {
  FloorRoom room = room_;
  room.add(shape);
  // What all of them take is no less than what the others take at best, and this one.
  const std::int64_t units = tightest() ? tightest()->cpus : 0;
  const std::int64_t own = isolated(shape) ? cpusForFloor(shape, units_) : 0;
  return units + own + room.open().cpus() <= cpus_ && room.fits();
}

int IsolationRoom::freeCpus() const {
  const std::optional<UnitPacking>& units = tightest();
  const std::int64_t guaranteed = units ? units->cpus + room_.open().cpus() : room_.count().cpus();
  return static_cast<int>(std::max<std::int64_t>(0, cpus_ - guaranteed));
}

bool IsolationRoom::floorFits(const GroupState& shape) const {
  FloorCount bare = bare_;
  bare.addFloor(shape.floor);
  return shape.floor.value <= 0 || bare.cpus() <= cpus_;
}

std::optional<UnitShortage> IsolationRoom::shortageOf(const GroupState& shape) const {
  const int need = needOf(shape);
  if (!isolated(shape) || need > cpus_ || !floorFits(shape)) return std::nullopt;
  if (fits(shape)) return std::nullopt;
  const std::optional<UnitPacking>& others = tightest();
  if (!others) return std::nullopt;
  const auto open = static_cast<int>(room_.open().cpus());
  const int guaranteed = others->cpus + open;

  UnitShortage shortage;
  shortage.isolation = shape.isolation;
  const std::vector<int>& sizes = units_.sizes(shape.isolation);
  shortage.units = static_cast<int>(sizes.size());
  shortage.missingCpus = static_cast<int>(units_.least(shape.isolation, need)) + guaranteed - cpus_;
  if (shortage.missingCpus <= 0) {  // by count there would be room: what they take together
    FloorRoom with = room_;
    with.add(shape);
    const std::optional<UnitPacking> all = with.tightestUnits();
    shortage.missingCpus = std::max(1, (all ? all->cpus : 0) + open - cpus_);
  }
  int covered = 0;
  for (auto size = sizes.rbegin(); size != sizes.rend() && covered < need; ++size) covered += *size, ++shortage.needed;
  int left = cpus_ - guaranteed;
  for (const int size : sizes) {
    left -= size;
    if (left < 0 || shortage.left + 1 >= shortage.needed) break;  // as many as it needs would not be of a size that does
    ++shortage.left;
  }
  shortage.fits = lowerLevel(shape);
  shortage.floorMatters = shortage.left > 0;
  shortage.holders = holders(*others, guaranteed);
  return shortage;
}

std::optional<UnitShortage> unitShortage(const Snapshot& snapshot, const GroupState& newcomer) {
  if (!isolated(newcomer)) return std::nullopt;
  const Layout layout = makeLayout(*snapshot.machine, snapshot.reserved);
  IsolationRoom room(layout);
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
