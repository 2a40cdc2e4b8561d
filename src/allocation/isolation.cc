#include "allocation/isolation.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

DomainLevel unitLevel(Isolation isolation) {
  switch (isolation) {
    case Isolation::Cache: return DomainLevel::Cache;
    case Isolation::Node: return DomainLevel::Node;
    case Isolation::None:
    case Isolation::Core: break;
  }
  return DomainLevel::Core;
}

CpuSet unitsOf(const Machine& machine, const CpuSet& cpus, Isolation isolation) {
  CpuSet units = cpus;
  if (isolation == Isolation::None) return units;
  for (const int id : cpus) {
    const Cpu* cpu = machine.findCpu(id);
    if (cpu == nullptr) continue;
    const int domain = isolation == Isolation::Node ? cpu->node : isolation == Isolation::Cache ? cpu->cache : cpu->core;
    const CpuSet& domainCpus = machine.domains[at(domain)].cpus;
    if (isolation != Isolation::Cache || cpu->cache != cpu->node) {
      units |= domainCpus;
      continue;
    }
    for (const int near : domainCpus) {
      if (machine.findCpu(near)->cache == cpu->cache) units.add(near);
    }
  }
  return units;
}

bool mayTouch(const GroupState& one, const GroupState& other) { return one.tenant == other.tenant || (!isolated(one) && !isolated(other)); }

UnitSizes unitSizes(const Layout& layout) {
  UnitSizes sizes;
  for (const Layout::Branch& branch : layout.branches) {
    if (branch.level == DomainLevel::Core) sizes.core = std::max(sizes.core, branch.size());
    if (branch.level == DomainLevel::Cache) sizes.cache = std::max(sizes.cache, branch.size());
    if (branch.level == DomainLevel::Node) sizes.node = std::max(sizes.node, branch.size());
  }
  return sizes;
}

namespace {
class UnitChooser {
 public:
  UnitChooser(const Layout& layout, const std::vector<int>& holders) : layout_(layout), holders_(holders), taken_(layout.ids.size(), false) {}

  void chooseLevel(std::vector<UnitClaim>& claims, Isolation isolation) {
    for (UnitClaim& claim : claims) {
      if (claim.isolation == isolation && claim.pinned) keep(claim);
    }
    for (const bool onlyHeld : {true, false}) {
      for (UnitClaim& claim : claims) {
        if (claim.isolation != isolation || claim.pinned) continue;
        take(claim, onlyHeld);
        if (onlyHeld) continue;
        prune(claim);
      }
    }
    // What was pruned is room for all, those before its holder too.
    for (bool again = true; again;) {
      again = false;
      for (UnitClaim& claim : claims) {
        if (claim.isolation != isolation || claim.pinned) continue;
        const std::size_t before = claim.cpus.size();
        take(claim, false);
        again = again || claim.cpus.size() > before;
      }
    }
    for (UnitClaim& claim : claims) {
      if (claim.isolation == isolation) std::sort(claim.cpus.begin(), claim.cpus.end());
    }
  }

  // One more, of those that no claim has.
  bool add(std::vector<UnitClaim>& claims, std::size_t index, const UnitRoom& room) {
    for (const UnitClaim& claim : claims) {
      for (const int position : claim.cpus) taken_[at(position)] = true;
    }
    UnitClaim& claim = claims[index];
    int best = -1;
    Key bestKey;
    for (std::size_t b = 0; b < layout_.branches.size(); ++b) {
      const Layout::Branch& unit = layout_.branches[b];
      if (unit.level != unitLevel(claim.isolation) || unit.size() > room.cpus || anyTaken(unit)) continue;
      std::int64_t capacity = 0;
      for (int position = unit.begin; position < unit.end; ++position) capacity += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
      if (capacity > room.capacity) continue;
      const Key key = keyOf(claim, unit, true);
      if (best < 0 || key < bestKey) best = static_cast<int>(b), bestKey = key;
    }
    if (best < 0) return false;
    occupy(claim, layout_.branches[at(best)]);
    std::sort(claim.cpus.begin(), claim.cpus.end());
    return true;
  }

 private:
  // What prefers a unit; the least is the best.
  // Does not fit, -held, distance to its own, CPUs that others must leave, kind, -size (of those that do not fit: size), first position.
  using Key = std::tuple<bool, int, int, int, int, int, int>;

  [[nodiscard]] Key keyOf(const UnitClaim& claim, const Layout::Branch& unit, bool fits) const {
    return {
        !fits,     -heldIn(claim, unit), distance(claim, unit), others(claim, unit), layout_.kinds[at(unit.begin)], fits ? -unit.size() : unit.size(),
        unit.begin};
  }

  void occupy(UnitClaim& claim, const Layout::Branch& unit) {
    for (int position = unit.begin; position < unit.end; ++position) {
      taken_[at(position)] = true;
      claim.cpus.push_back(position);
    }
  }

  void keep(UnitClaim& claim) {
    for (const Layout::Branch& unit : layout_.branches) {
      if (unit.level == unitLevel(claim.isolation) && !anyTaken(unit) && heldIn(claim, unit) > 0 && others(claim, unit) == 0) occupy(claim, unit);
    }
  }

  void take(UnitClaim& claim, bool onlyHeld) {
    while (static_cast<int>(claim.cpus.size()) < std::max(claim.wanted, claim.need)) {
      const int missing = claim.wanted - static_cast<int>(claim.cpus.size());
      const bool needy = static_cast<int>(claim.cpus.size()) < claim.need;
      int best = -1;
      Key bestKey;
      for (std::size_t b = 0; b < layout_.branches.size(); ++b) {
        const Layout::Branch& unit = layout_.branches[b];
        if (unit.level != unitLevel(claim.isolation) || anyTaken(unit)) continue;
        const bool fits = unit.size() <= missing;
        if ((onlyHeld && heldIn(claim, unit) == 0) || (!fits && !needy)) continue;
        const Key key = keyOf(claim, unit, fits);
        if (best < 0 || key < bestKey) best = static_cast<int>(b), bestKey = key;
      }
      if (best < 0) break;
      occupy(claim, layout_.branches[at(best)]);
    }
  }

  // Where units differ in size, the last one may have made an earlier, smaller one needless: what is left is what the next decision chooses again.
  void prune(UnitClaim& claim) {
    std::vector<int> units;
    for (const int position : claim.cpus) {
      const int unit = layout_.paths[at(position)][at(static_cast<int>(unitLevel(claim.isolation)))];
      if (units.empty() || units.back() != unit) units.push_back(unit);
    }
    const auto smallest = [&](int unit) { return std::pair(layout_.branches[at(unit)].size(), unit); };
    std::sort(units.begin(), units.end(), [&](int a, int b) { return smallest(a) < smallest(b); });
    for (const int index : units) {
      const Layout::Branch& unit = layout_.branches[at(index)];
      const int size = static_cast<int>(claim.cpus.size());
      if (size <= claim.wanted || size - unit.size() < claim.need) return;
      std::erase_if(claim.cpus, [&](int position) { return position >= unit.begin && position < unit.end; });
      std::fill(taken_.begin() + unit.begin, taken_.begin() + unit.end, false);
    }
  }

  [[nodiscard]] bool anyTaken(const Layout::Branch& unit) const {
    return std::any_of(taken_.begin() + unit.begin, taken_.begin() + unit.end, [](bool one) { return one; });
  }
  [[nodiscard]] static int heldIn(const UnitClaim& claim, const Layout::Branch& unit) {
    return static_cast<int>(std::count_if(claim.held.begin(), claim.held.end(), [&](int p) { return p >= unit.begin && p < unit.end; }));
  }
  [[nodiscard]] int others(const UnitClaim& claim, const Layout::Branch& unit) const {
    return static_cast<int>(std::count_if(holders_.begin() + unit.begin, holders_.begin() + unit.end,
                                          [&](int holder) { return holder >= 0 && holder != claim.claimant; }));
  }
  // Levels between the unit and the nearest CPU that the claim has so far: 0 the same cache, ... ; 0 for the first.
  [[nodiscard]] int distance(const UnitClaim& claim, const Layout::Branch& unit) const {
    if (claim.cpus.empty()) return 0;
    int deepest = 0;
    for (const int position : claim.cpus) {
      int level = static_cast<int>(DomainLevel::Cache);
      while (level > deepest && layout_.paths[at(position)][at(level)] != layout_.paths[at(unit.begin)][at(level)]) --level;
      deepest = std::max(deepest, level);
    }
    return static_cast<int>(DomainLevel::Cache) - deepest;
  }

  const Layout& layout_;
  const std::vector<int>& holders_;
  std::vector<bool> taken_;
};
}  // namespace

void chooseUnits(std::vector<UnitClaim>& claims, const Layout& layout, const std::vector<int>& holders) {
  UnitChooser chooser(layout, holders);
  for (const Isolation level : {Isolation::Node, Isolation::Cache, Isolation::Core}) chooser.chooseLevel(claims, level);
}

bool addUnit(std::vector<UnitClaim>& claims, std::size_t claim, const Layout& layout, const std::vector<int>& holders, const UnitRoom& room) {
  return UnitChooser(layout, holders).add(claims, claim, room);
}

}  // namespace coterie::allocation
