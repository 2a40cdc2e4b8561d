// Seeded instances small enough to look at every placement: machines of up to twelve CPUs with each kind of shape (flat, SMT, cache groups, nodes,
// sockets, fast and slow cores, an uneven core), and groups that have all just arrived. The same seed gives the same instance. Tests and benches
// only. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "allocation/decide.h"
#include "allocation/quality/exact_oracle.h"

namespace coterie::allocation::quality {

[[nodiscard]] Snapshot instanceOf(std::uint64_t seed);

// What the oracle says of decide()'s plan for an instance.
struct Judgement {
  bool l1{false};                    // the right groups wait, and everybody else has his floor
  bool l2{false};                    // entitlements are the fair ones; only looked at where L1 holds
  std::int64_t cost{0};              // J in quarters
  std::int64_t least{0};             // of all placements with the same CPU counts
  std::vector<Owner> best;           // one of those
  [[nodiscard]] double gap() const;  // (J - J*) / max(J*, 1)
};
[[nodiscard]] Judgement judge(const Snapshot& snapshot, const Plan& plan);

// For people: the machine, the groups, the plan, and the best placement where it costs less.
[[nodiscard]] std::string describe(const Snapshot& snapshot, const Plan& plan, const Judgement& judgement);

}  // namespace coterie::allocation::quality
