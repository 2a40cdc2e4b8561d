// Whole units for several isolated groups at once, as few CPUs together as is asked for: what one group alone could have (unit_counts.h) may be
// another's already, and where units differ in size it matters who takes which.
//
// Units of the same size and with the same insides are one class: which of them somebody takes makes no difference to anybody else, so choices are
// counts of each class. Depth first over the groups, nodes before caches before cores (the smaller units are what the larger ones leave), larger
// needs before smaller ones; a group's choices are the sets of units from which none can be left out, the fewest CPUs first. A branch ends where what
// the others need at least (unit_counts.h) no longer fits; a state of classes that failed for the same rest is not looked at again. Exact while it
// ends within the choices that it may try, which machines that exist stay far below (one or two classes per level: O(groups) choices, O(groups *
// units) time); beyond, nothing is found: a group may wait that could be placed, never the reverse. Pure, deterministic. Thread-compatible.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "allocation/layout.h"
#include "allocation/unit_counts.h"

namespace coterie::allocation {

struct UnitNeed {
  Isolation isolation{Isolation::Core};
  int cpus{1};            // of its floor; at least 1
  std::vector<int> held;  // positions that it holds: of equal units it is given these
};

inline constexpr int kPackingChoices = 4'000;

struct UnitPacking {
  int cpus{0};                          // of all units
  std::vector<std::vector<int>> units;  // per need: branches
  std::vector<int> cpusOf;              // per need
};

class UnitPacker {
 public:
  UnitPacker(const Layout& layout, const UnitCounts& counts);
  // Units for every need that come to no more than `limit` CPUs; nothing: none were found.
  [[nodiscard]] std::optional<UnitPacking> pack(const std::vector<UnitNeed>& needs, int limit) const;
  // The same, only whether. choices: tried at most, over one for each need; what was tried is taken off.
  [[nodiscard]] bool canPack(const std::vector<UnitNeed>& needs, int limit, int& choices) const;
  // The same with the fewest CPUs.
  [[nodiscard]] std::optional<UnitPacking> packTightest(const std::vector<UnitNeed>& needs) const;

 private:
  friend class PackingSearch;
  struct Class {
    int size{0};
    std::vector<int> members;  // branches, ascending
    std::vector<int> inside;   // per class of the next level: how many of them it is made of
  };
  static constexpr int kUnitLevels = 3;  // node, cache, core
  const Layout& layout_;
  const UnitCounts& counts_;
  std::array<std::vector<Class>, kUnitLevels> classes_;  // the largest units first
};

}  // namespace coterie::allocation
