// Do floors fit a machine together? The one rule for who waits (sizing.h), for the admission of newcomers (decide.h) and for the claims that follow.
//
// Whole CPUs are counted as FloorCount does, isolated groups' in the fewest CPUs of whole units. Where the units that somebody asks for differ in
// size, the count alone proves nothing: then units must be found for all of them at once (unit_packing.h). Monotone: what fits does so without any of
// its members. O(1) by count; units are looked for only if the count fits. Pure. Thread-compatible.
#pragma once

#include <optional>
#include <vector>

#include "allocation/layout.h"
#include "allocation/sizing.h"
#include "allocation/unit_packing.h"

namespace coterie::allocation {

class FloorRoom {
 public:
  // Both outlive it.
  FloorRoom(const Layout& layout, const UnitCounts& units) : layout_(layout), units_(units), count_(units), open_(units) {}
  void add(const GroupState& shape);
  void removeLast(const GroupState& shape);  // the one that was added last
  // choices: of the search for units, if one is needed; what was tried is taken off.
  [[nodiscard]] bool fits(int& choices) const;
  [[nodiscard]] bool fits() const;
  // Units of those that are isolated, in the order in which they were added, beside the floors of the others; nothing: none were found.
  // held: per isolated group the positions that it holds; empty: nobody holds any.
  [[nodiscard]] std::optional<UnitPacking> units(const std::vector<std::vector<int>>& held = {}) const;
  // The same in the fewest CPUs, whatever the floors of the others.
  [[nodiscard]] std::optional<UnitPacking> tightestUnits() const;
  [[nodiscard]] const FloorCount& open() const { return open_; }  // those who are not isolated
  [[nodiscard]] const FloorCount& count() const { return count_; }

 private:
  [[nodiscard]] const UnitPacker& packer() const;
  [[nodiscard]] int leftForUnits() const;

  const Layout& layout_;
  const UnitCounts& units_;
  FloorCount count_;             // all of them
  FloorCount open_;              // those who are not isolated
  std::vector<UnitNeed> needs_;  // of the others
  int uneven_{0};                // of them, those whose units differ in size
  mutable std::optional<UnitPacker> packer_;
};

}  // namespace coterie::allocation
