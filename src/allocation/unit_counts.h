// How many CPUs whole units come to. A machine's units of a level may differ in size (a core with one online thread, a cache that only slow cores
// have): least(): the fewest CPUs in whole units that are no less than asked for, which is what a guarantee costs at least; most(): the most that are
// no more, which is what an entitlement can be had in. Each for one group alone: whether several find units at once, unit_packing.h says. Where all
// units of a level are of one size, they are multiples of it. O(n * sizes of units) once for a level whose units differ, else O(units); O(1) per
// question. Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "allocation/isolation.h"
#include "allocation/layout.h"

namespace coterie::allocation {

class UnitCounts {
 public:
  UnitCounts() = default;  // for those among whom nobody is isolated: a unit is a CPU
  explicit UnitCounts(const Layout& layout);

  // More than the machine has: rounded up to the largest unit, saturating.
  [[nodiscard]] std::int64_t least(Isolation isolation, std::int64_t cpus) const;
  [[nodiscard]] std::int64_t most(Isolation isolation, std::int64_t cpus) const;
  [[nodiscard]] bool even(Isolation isolation) const;                      // all units are of one size
  [[nodiscard]] const std::vector<int>& sizes(Isolation isolation) const;  // of the units, ascending; not of none

 private:
  struct Level {
    std::vector<int> sizes{1};
    std::vector<int> least;  // per number of CPUs; empty: all are of one size
    std::vector<int> most;
  };
  [[nodiscard]] const Level& levelOf(Isolation isolation) const;
  std::array<Level, 3> levels_;  // core, cache, node
};

// Whole CPUs that the group owns for its floor: rounded up to CPUs, and to units if it is isolated; at least one unit then. 0 without either.
[[nodiscard]] std::int64_t cpusForFloor(const GroupState& group, const UnitCounts& units);

}  // namespace coterie::allocation
