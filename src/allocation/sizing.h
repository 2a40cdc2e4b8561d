// Sizing: how many milli-CPUs each group is entitled to, and how many whole CPUs of each kind that becomes.
//
// Entitlements are weighted max-min fair over tenants, then over each tenant's groups: all rise together in proportion to weight; a group stops at
// its ceiling and never stands below its floor (from a CPU up rounded up to whole ones, whatever the ceiling); a tenant stops at its cap; what is
// left over is shared by the rest. A cap counts what is owned: whole CPUs of exclusive groups by capacity, shares of the pool by entitlement. Floors
// go before a cap: where they exceed it the tenant has its floors and nothing above. What a cap ends inside a CPU, nobody can own: the exclusive
// groups are entitled to a whole number of CPUs, and the fraction goes to other tenants. Where the floors exceed the capacity (slow cores), they are
// met band by band, high to low, and in proportion within the band that runs short. Load plays no part. Water-filling over sorted breakpoints, O(g
// log g). Whole: a group entitled to a CPU or more owns whole CPUs, each kind counted apart; the others share the pool, one claimant with the sum of
// theirs. First every claimant gets the CPUs it cannot do without (its floor rounded up, one at least), then the leftover CPUs of each kind go by
// largest remainder between tenants whose cap has room for one, then within the tenant; who holds one keeps it unless a rival's remainder is larger
// by more than `keepLeftover`. What one kind left undone counts in the next kind's remainders. O(g * leftovers), leftovers <= g + kinds. Guarantees:
// sum(entitlements) <= capacity; what a tenant owns <= the larger of its cap and its floors; division remainders go to the lowest id; needs that fit
// by Admission are met in whole CPUs; repeating with the result held gives the result. Pure, integers only. Thread-compatible. Source: Bertsekas &
// Gallager, Data Networks, section 6.5.2.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "allocation/decide.h"
#include "allocation/isolation.h"
#include "allocation/layout.h"
#include "allocation/unit_counts.h"

namespace coterie::allocation {

class FloorRoom;

struct Share {
  std::int64_t weight{1};
  std::int64_t low{0};
  std::int64_t high{0};  // >= low
};
// The weighted max-min vector with these bounds; its sum is min(capacity, sum of high). Needs sum of low <= capacity.
[[nodiscard]] std::vector<std::int64_t> waterFill(const std::vector<Share>& shares, std::int64_t capacity);

// Whole CPUs that these floors take, counted as in Admission: a floor of a CPU or more is rounded up, smaller ones are summed and then rounded up, at
// least 1; those of isolated groups are the fewest CPUs in whole units.
struct FloorCount {
  FloorCount() = default;  // of groups that are not isolated
  explicit FloorCount(const UnitCounts& counts) : units(&counts) {}
  const UnitCounts* units{nullptr};
  std::int64_t wholeCpus{0};
  std::int64_t poolFloor{0};  // milli-CPUs
  int poolGroups{0};
  void add(const GroupState& group);
  void addFloor(MilliCpu floor);  // of a group that is not isolated
  void remove(const GroupState& group);
  [[nodiscard]] std::int64_t cpus() const;
};
[[nodiscard]] std::int64_t cpusForFloor(MilliCpu floor);  // rounded up

// All groups from here on are shapes (roles.h).
// Which groups become Pending because their floors no longer fit: the youngest of the lowest band first, none without need. `groups` ascending by id.
[[nodiscard]] std::vector<bool> choosePending(const std::vector<const GroupState*>& groups, FloorRoom room);  // room: empty

inline constexpr std::int64_t kNoCap = std::numeric_limits<std::int64_t>::max();

struct Entitlements {
  struct Tenant {
    std::int64_t cap{kNoCap};
    std::int64_t limit{kNoCap};  // the larger of cap and floors (as they are counted): what it may own
    std::int64_t total{0};       // of its groups
  };
  std::vector<std::int64_t> milli;  // per group, 0 for pending ones
  std::vector<std::int64_t> plain;  // the same before isolated groups' were counted in units
  std::vector<bool> stoppedByCap;   // per group: its tenant's cap keeps it below its ceiling
  std::vector<int> tenantOf;        // per group: index into tenants, -1 for pending ones
  std::vector<Tenant> tenants;      // ascending id
};
// `grain`: milli-CPUs of which the capacity of every CPU is a multiple; 1000 where all are equal. An isolated group is entitled to a whole number of
// units; what that takes from it goes to the others. inUnits: per group, what the units that an isolated one has come to; empty: not known yet.
// atLeast: per group, what an isolated one's floor comes to in the units that are left to it; empty: the fewest CPUs in units.
[[nodiscard]] Entitlements entitlements(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending, std::int64_t capacity,
                                        std::int64_t grain = 1000, const UnitCounts& units = {}, const std::vector<std::int64_t>& inUnits = {},
                                        const std::vector<std::int64_t>& atLeast = {});

// Who claims whole CPUs: an exclusive group, or the pool.
struct Claimant {
  int group{-1};  // index into the groups; -1: the pool
  TenantId tenant;
  std::int64_t entitlement{0};
  std::int64_t need{1};                  // CPUs it cannot do without
  std::int64_t tenantLimit{kNoCap};      // milli-CPUs that its tenant's claimants may own together; needs go before
  std::array<int, kMaxKinds> held{};     // CPUs it holds now, by kind
  std::array<int, kMaxKinds> cpus{};     // result
  std::array<int, kMaxKinds> granted{};  // of them leftovers
  std::int64_t refusedRemainder{0};      // its remainder when it last lost a leftover, and the winner's
  std::int64_t winnersRemainder{0};
  bool stoppedByCap{false};  // there was a leftover, but its tenant's limit has no room for one
  [[nodiscard]] int total() const;
};

// Whole CPUs that an exclusive group cannot do without; of an isolated one the fewest in whole units.
[[nodiscard]] std::int64_t needOf(const GroupState& group, const UnitCounts& units);

// Who is in the pool: entitled to less than a CPU (with sidecars: to fewer than keep them apart, roles.h); and, where slow cores or the units of
// isolated groups leave fewer CPUs than needs, the least entitled of those with a floor below a CPU. cpus: those that are in nobody's units.
[[nodiscard]] std::vector<bool> choosePool(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending,
                                           const std::vector<std::int64_t>& entitled, std::int64_t cpus);

// The CPUs that are shared out: those of the machine, less the units of isolated groups.
struct Supply {
  std::array<int, kMaxKinds> cpusOfKind{};
  std::int64_t capacity{0};
  explicit Supply(const Layout& layout) : cpusOfKind(layout.cpusOfKind), capacity(layout.capacity) {}
};
// Fills cpus and granted. Claimants: groups ascending, the pool last.
void countWhole(std::vector<Claimant>& claimants, const Layout& layout, const Supply& supply, std::int64_t keepLeftover);
inline void countWhole(std::vector<Claimant>& claimants, const Layout& layout, std::int64_t keepLeftover) {
  countWhole(claimants, layout, Supply(layout), keepLeftover);
}

}  // namespace coterie::allocation
