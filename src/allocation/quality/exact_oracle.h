// What the best plan of a small machine is, found by looking at all of them: the oracle that decide() is measured against. Tests and benches only.
//
// Written from the objective in the design note and not from the planner: it calls nothing of sizing, selection, assignment or objective.
// L1 who becomes Pending: all subsets of the groups; floors count as Admission counts them, in whole CPUs and whole units. A floor is met or its
// group waits, so the best subset is the one that is greatest as a word of kept flags, the most deserving (band, then age) first. L2 weighted max-min
// over tenants, then over each tenant's groups, by bisection of the level in real numbers; so decide()'s integers, which round once per layer, may
// differ by kRounding. Caps of tenants are not in it: instances have none. J the least cost over all ways to hand each claimant as many CPUs of each
// kind as it has, isolated groups in whole units, and to split them among its containers. Depth first over CPUs in the order of the machine's tree.
// Nearness to a device is counted when all have their CPUs. Equivalent CPUs, cores, caches, nodes and sockets below one parent are kept in ascending
// order of what they hold, so of all mirror images one is looked at; a branch ends where what is already certain (cores, caches, spans so far)
// reaches the best. Exponential: for machines of a dozen CPUs. Costs are in quarters, as spans of groups weigh a quarter. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocation/decide.h"

namespace coterie::allocation::quality {

inline constexpr double kRounding = 2;  // milli-CPUs: one of the tenant's share, one of the group's

// One who owns CPUs: a group, or the pool, which is a tenant of its own with one container.
struct Owner {
  int tenant{0};
  bool pool{false};
  Isolation isolation{Isolation::None};
  std::vector<CpuSet> homes;  // of its containers; the pool's: one
  CpuSet device{};            // the CPUs nearest to the device that it names; empty: it names none, or nobody knows where it is
  [[nodiscard]] CpuSet all() const;
};

// L1. Per group of the snapshot.
[[nodiscard]] std::vector<bool> bestPending(const Snapshot& snapshot);
// Does everybody who is not Pending have his floor in CPUs?
[[nodiscard]] bool floorsMet(const Snapshot& snapshot, const Plan& plan);
// Is there a choice of whole units for every group that has `present`, isolated as it asks, each with its floor in CPUs and one unit at least, that
// leaves the others theirs?
[[nodiscard]] bool unitsExist(const Snapshot& snapshot, const std::vector<bool>& present);
// L2. Milli-CPUs per group of the snapshot; 0 for the pending. Isolated groups only on machines of one kind whose units are of equal size.
[[nodiscard]] std::vector<double> fairShares(const Snapshot& snapshot, const std::vector<bool>& pending);

// Who owns what in a plan for the snapshot.
[[nodiscard]] std::vector<Owner> ownersOf(const Snapshot& snapshot, const Plan& plan);
// J of a placement, straight from its definition.
[[nodiscard]] std::int64_t costOf(const Snapshot& snapshot, const std::vector<Owner>& owners);
// A placement of least J with the same owners, as many CPUs of each kind each, and containers of the same sizes; nothing if none costs less than
// `below`.
[[nodiscard]] std::optional<std::vector<Owner>> cheapest(const Snapshot& snapshot, const std::vector<Owner>& owners, std::int64_t below);

}  // namespace coterie::allocation::quality
