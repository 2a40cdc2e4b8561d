// Sizing: how many milli-CPUs each group is entitled to, and how many whole CPUs of each kind that becomes.
//
// Entitlements are weighted max-min fair over tenants, then over each tenant's groups: all rise together in proportion to weight; a group stops at
// its ceiling and never stands below its floor; what it leaves is shared by the rest. Where the floors exceed the capacity (slow cores), they are met
// band by band, high to low, and in proportion within the band that runs short. Load plays no part. Water-filling over sorted breakpoints, O(g log
// g). Whole: a group entitled to a CPU or more owns whole CPUs, each kind counted apart; the others share the pool, one claimant with the sum of
// theirs. First every claimant gets the CPUs it cannot do without (its floor rounded up, one at least), then the leftover CPUs of each kind go by
// largest remainder between tenants, then within the tenant; who holds one keeps it unless a rival's remainder is larger by more than `keepLeftover`.
// What one kind left undone counts in the next kind's remainders. O(g * leftovers), leftovers <= g + kinds. Guarantees: sum(entitlements) <=
// capacity; division remainders go to the lowest id; needs that fit by Admission are met in whole CPUs; repeating with the result held gives the
// result. Pure, integers only. Thread-compatible. Source: Bertsekas & Gallager, Data Networks, section 6.5.2.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "allocation/decide.h"
#include "allocation/layout.h"

namespace coterie::allocation {

struct Share {
  std::int64_t weight{1};
  std::int64_t low{0};
  std::int64_t high{0};  // >= low
};
// The weighted max-min vector with these bounds; its sum is min(capacity, sum of high). Needs sum of low <= capacity.
[[nodiscard]] std::vector<std::int64_t> waterFill(const std::vector<Share>& shares, std::int64_t capacity);

// Whole CPUs that these floors take, counted as in Admission: a floor of a CPU or more is rounded up, smaller ones are summed and then rounded up, at
// least 1.
struct FloorCount {
  std::int64_t wholeCpus{0};
  std::int64_t poolFloor{0};  // milli-CPUs
  int poolGroups{0};
  void add(const GroupState& group);
  void remove(const GroupState& group);
  [[nodiscard]] std::int64_t cpus() const;
};
[[nodiscard]] std::int64_t cpusForFloor(MilliCpu floor);  // rounded up

// Which groups become Pending because their floors no longer fit: the youngest of the lowest band first, none without need. `groups` ascending by id.
[[nodiscard]] std::vector<bool> choosePending(const std::vector<const GroupState*>& groups, int cpus);

// Milli-CPUs per group, 0 for pending ones.
[[nodiscard]] std::vector<std::int64_t> entitlements(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending,
                                                     std::int64_t capacity);

// Who claims whole CPUs: an exclusive group, or the pool.
struct Claimant {
  int group{-1};  // index into the groups; -1: the pool
  TenantId tenant;
  std::int64_t entitlement{0};
  std::int64_t need{1};                  // CPUs it cannot do without
  std::array<int, kMaxKinds> held{};     // CPUs it holds now, by kind
  std::array<int, kMaxKinds> cpus{};     // result
  std::array<int, kMaxKinds> granted{};  // of them leftovers
  std::int64_t refusedRemainder{0};      // its remainder when it last lost a leftover, and the winner's
  std::int64_t winnersRemainder{0};
  [[nodiscard]] int total() const;
};

// Who is in the pool: entitled to less than a CPU; and, where slow cores leave fewer CPUs than needs, the least entitled of those with a floor below
// a CPU.
[[nodiscard]] std::vector<bool> choosePool(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending,
                                           const std::vector<std::int64_t>& entitled, int cpus);
// Fills cpus and granted. Claimants: groups ascending, the pool last.
void countWhole(std::vector<Claimant>& claimants, const Layout& layout, std::int64_t keepLeftover);

}  // namespace coterie::allocation
