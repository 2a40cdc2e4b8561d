// Whether isolation can be had at all: how many units a group would need, how many the guarantees of the others can leave, who has the rest, and what
// would help. The one rule for the plan, which says it of whoever waits, and for the admission of a newcomer.
//
// Guarantees are CPUs that nobody else may be given: of isolated groups the fewest CPUs in whole units of their levels that cover all their floors at
// once (unit_packing.h), of the others their floors as FloorCount has them. A shortage is said where no units are found for the group beside them,
// which is what makes it wait (floor_room.h). Nothing is said where the floor is what is too large: where the floors do not fit even with nobody
// isolated, none of it is isolation's. A search for units, and one per answer. Pure. Thread-compatible.
#pragma once

#include <optional>
#include <vector>

#include "allocation/floor_room.h"
#include "allocation/isolation.h"
#include "allocation/sizing.h"
#include "allocation/unit_counts.h"

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
  bool floorMatters{false};       // with a smaller floor of its own it could do with those that are left
  std::vector<Holder> holders;    // the largest first, then all others as one
};

class IsolationRoom {
 public:
  explicit IsolationRoom(const Layout& layout);  // which outlives it
  IsolationRoom(const IsolationRoom&) = delete;
  IsolationRoom& operator=(const IsolationRoom&) = delete;
  void keep(const GroupState& shape);                      // its guarantee stands
  [[nodiscard]] int freeCpus() const;                      // that no guarantee takes
  [[nodiscard]] bool fits(const GroupState& shape) const;  // beside those that are kept
  // Would its floor fit, if nobody were isolated? One that has none has nothing that could not.
  [[nodiscard]] bool floorFits(const GroupState& shape) const;
  // Why the group, which is not kept, cannot be isolated as it asks beside those that are; nothing: it can, or it waits for something else.
  [[nodiscard]] std::optional<UnitShortage> shortageOf(const GroupState& shape) const;

 private:
  [[nodiscard]] const std::optional<UnitPacking>& tightest() const;
  [[nodiscard]] std::optional<Isolation> lowerLevel(const GroupState& shape) const;
  // guaranteed: CPUs of all.
  [[nodiscard]] std::vector<UnitShortage::Holder> holders(const UnitPacking& units, int guaranteed) const;

  int cpus_;
  UnitCounts units_;
  FloorRoom room_;   // of those that are kept
  FloorCount bare_;  // all floors, as if nobody were isolated
  std::vector<UnitShortage::Holder> kept_;
  mutable std::optional<std::optional<UnitPacking>> tightest_;  // of those that are kept; empty: not looked for
};

// Would the newcomer, which Admission refuses, fit if it, or the others, were not isolated?
[[nodiscard]] std::optional<UnitShortage> unitShortage(const Snapshot& snapshot, const GroupState& newcomer);

// The level that a group of the plan waits for because it cannot be had; None: none.
[[nodiscard]] Isolation impossibleIsolation(const std::vector<Reason>& reasons, GroupId group);

// A shortage as reasons of the group that waits: what is missing, who has it, what would help.
[[nodiscard]] std::vector<Reason> shortageReasons(GroupId group, const UnitShortage& shortage);

}  // namespace coterie::allocation
