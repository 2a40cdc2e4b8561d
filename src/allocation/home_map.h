// Who owns which CPU once a plan is done, and what is near to whom: what loans need to know of the homes.
//
// Owners are the groups with a home of their own, by index, then the pool, then nobody. Of the homes alone, so it is good for as long as they stay;
// what lies around a home is found when it is asked for first, and remembered. O(n + g * n/64) to make, O(home * n/64) per home asked for, then
// O(n/64). Pure. Thread-compatible: asking changes it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "allocation/decide.h"
#include "allocation/layout.h"

namespace coterie::allocation {

class HomeMap {
 public:
  HomeMap() = default;
  HomeMap(const Layout& layout, const std::vector<GroupTarget>& targets, const CpuSet& pool);

  [[nodiscard]] std::size_t pool() const { return homes_.size() - 2; }
  [[nodiscard]] std::size_t nobody() const { return homes_.size() - 1; }
  // Empty for Pending groups and members of the pool.
  [[nodiscard]] const CpuSet& homeOf(std::size_t owner) const { return homes_[owner]; }
  [[nodiscard]] std::size_t ownerOf(int cpu) const { return static_cast<std::size_t>(owners_[static_cast<std::size_t>(cpu)]); }  // of a usable one
  // The one of these CPUs (one at least) that has most of its domains in common with the owner's home, the lowest id among equals. Not for nobody.
  [[nodiscard]] int nearestTo(const Layout& layout, std::size_t owner, const CpuSet& cpus);

 private:
  using Near = std::array<CpuSet, kLevels>;  // per level: the domains that the home touches; of the machine's nothing is asked
  [[nodiscard]] static Near around(const Layout& layout, const CpuSet& home);

  std::vector<CpuSet> homes_;
  std::vector<int> owners_;  // per CPU id
  std::vector<std::optional<Near>> near_;
};

}  // namespace coterie::allocation
