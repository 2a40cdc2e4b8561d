// Which exchanges of CPUs are worth a trial: part of one claimant's CPUs against as many that lie together elsewhere, whoever has them.
//
// Parts: all of the claimant's CPUs; if it spans caches or shares a core with another tenant, also what it has in each domain, and each single one. A
// part is held against every run of neighbouring places (CPUs of a core lie together, so whole cores stay whole) in the largest domain of at most
// kReach CPUs around it, and in the caches that the claimant touches: on a small machine everything, on a large one what is near. An exchange is
// proposed if a bound from the ends of the sets (nobody's containers span less than nothing, caches cost nothing at best) leaves a gain of J that
// pays for the CPUs that would be taken from those who run there. O(parts * (kReach + caches touched * CPUs of one) * CPUs of the part) at worst.
// Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/selection.h"

namespace coterie::allocation {

inline constexpr int kReach = 32;

// The largest domain of at most kReach CPUs around a position; its cache, if that is larger.
[[nodiscard]] int reachOf(const Layout& layout, int position);

// What is known of the board under trial.
struct ExchangeView {
  const Board& board;
  const std::vector<int>& holders;                   // position -> claimant that holds it now, or kFree
  const std::vector<std::int64_t>& costs;            // quarters, per claimant
  const std::vector<std::int64_t>& cacheCosts;       // quarters, per branch of cache level
  const std::vector<std::vector<Positions>>& homes;  // per claimant: its containers' CPUs
  std::int64_t gainPerMoved;                         // quarters
};
// `attempt` gets the positions that leave the claimant and the first of the run that it gets for them. Made: the board is another now. Waits: it is
// worth it, but not now, and nothing else is tried for this claimant. Returns whether one was made.
enum class Tried : std::uint8_t { Not, Made, Waits };
using Attempt = std::function<Tried(const std::vector<int>& leaving, int entering)>;
bool tryExchanges(const ExchangeView& view, int claimant, const Attempt& attempt);

}  // namespace coterie::allocation
