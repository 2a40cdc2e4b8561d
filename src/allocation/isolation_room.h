// Whether isolation can be had at all: how many units a group would need, how many the guarantees of the others can leave, who has the rest, and what
// would help. The one rule for the plan, which says it of whoever waits, and for the admission of a newcomer.
//
// Guarantees are CPUs that nobody else may be given: of an isolated group the fewest CPUs in whole units of its level that cover its floor (units may
// differ in size: the least sum of sizes), of the others their floors as Admission counts them (sizing.h). Sets of whole units are disjoint, so where
// the guarantees and the group's own come to more than there is, no choice of units exists: a shortage is proven. The converse holds where the units
// of a level are of one size; elsewhere Admission, which counts by the largest, may let a group wait although nothing is proven: then there is no
// answer. Nor is there one where the floor is what is too large: where the floors do not fit even with nobody isolated, none of it is isolation's.
// O(n * sizes of units) once, O(groups log groups) per answer. Pure. Thread-compatible.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "allocation/isolation.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

struct UnitShortage {
  struct Holder {
    GroupId group;  // invalid: several that hold little
    int groups{1};
    int cpus{0};  // guaranteed to it
    Isolation isolation{Isolation::None};
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  Isolation isolation{Isolation::Core};
  int needed{0};                  // units, the fewest that would do
  int left{0};                    // of them, the most that the others' guarantees can leave
  int units{0};                   // of that level on this machine
  int missingCpus{0};             // by which the others' guarantees are too large
  std::optional<Isolation> fits;  // the highest lower level that would fit
  bool floorMatters{false};       // a smaller floor of its own would need fewer
  std::vector<Holder> holders;    // the largest first, then all others as one
};

class IsolationRoom {
 public:
  explicit IsolationRoom(const Layout& layout);
  void keep(const GroupState& shape);  // its guarantee stands
  // Would its floor fit, if nobody were isolated? One that has none has nothing that could not.
  [[nodiscard]] bool floorFits(const GroupState& shape) const;
  // Why the group, which is not kept, cannot be isolated as it asks beside those that are; nothing: it can, or it waits for something else.
  [[nodiscard]] std::optional<UnitShortage> shortageOf(const GroupState& shape) const;

 private:
  struct Level {
    std::vector<int> sizes;  // of its units, ascending
    std::vector<int> least;  // CPUs needed -> the least sum of whole units that covers them
  };
  [[nodiscard]] const Level& levelOf(Isolation isolation) const;
  [[nodiscard]] int guaranteed() const;
  [[nodiscard]] std::optional<Isolation> lowerLevel(const GroupState& shape) const;
  [[nodiscard]] std::vector<UnitShortage::Holder> holders() const;

  int cpus_;
  UnitSizes largest_;
  std::array<Level, 3> levels_;  // core, cache, node
  int inUnits_{0};               // CPUs guaranteed to isolated groups
  FloorCount open_;              // the floors of the others
  FloorCount bare_;              // all floors, as if nobody were isolated
  FloorCount counted_;           // all floors as Admission counts them
  std::vector<UnitShortage::Holder> kept_;
};

// Would the newcomer, which Admission refuses, fit if it, or the others, were not isolated?
[[nodiscard]] std::optional<UnitShortage> unitShortage(const Snapshot& snapshot, const GroupState& newcomer);

// The level that a group of the plan waits for because it cannot be had; None: none.
[[nodiscard]] Isolation impossibleIsolation(const std::vector<Reason>& reasons, GroupId group);

// A shortage as reasons of the group that waits: what is missing, who has it, what would help.
[[nodiscard]] std::vector<Reason> shortageReasons(GroupId group, const UnitShortage& shortage);

}  // namespace coterie::allocation
