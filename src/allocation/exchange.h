// Which exchanges of CPUs are worth a trial: part of one claimant's CPUs against as many that lie together elsewhere, whoever has them.
//
// Parts: of a claimant that spans caches all its CPUs, what it has in each domain, and each single one; of a newcomer all; of one whose CPUs change,
// each single one on a core shared with another tenant. More than kReach CPUs are not moved as a whole: only those on shared cores. A part is held
// against every run of neighbouring places (CPUs of a core lie together, so whole cores stay whole) in the largest domain of at most kReach CPUs
// around what stays of the claimant, in the other caches it is in, and for shared cores around itself: on a small machine everything, on a large one
// what is near. An exchange is proposed if J falls by what it costs to take CPUs from those who run there. Spans, cores and caches are counted
// exactly; a group's containers as if each CPU that goes were replaced in place, a newcomer's by the least that they can cost. One who runs somewhere
// must pay for himself; what others gain, their own trials find.
// O(parts * (kReach + kFarCaches * CPUs of a cache)) looks at the ends of sets, and O(CPUs of the caches touched) for those that pass. Pure.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/selection.h"

namespace coterie::allocation {

inline constexpr int kReach = 32;
inline constexpr int kFarCaches = 4;

// spanOf() the positions from low to high, of which these are the ends.
[[nodiscard]] std::int64_t spanBetween(const Layout& layout, int low, int high);
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
  std::int64_t affordable;                           // what takes more CPUs from those who run there is not looked for; negative: no end
};
// `attempt` gets the positions that leave the claimant and the first of the run that it gets for them. Made: the board is another now. Waits: it is
// worth it, but not now, and nothing else is tried for this claimant. Returns whether one was made.
enum class Tried : std::uint8_t { Not, Made, Waits };
using Attempt = std::function<Tried(const std::vector<int>& leaving, int entering)>;
bool tryExchanges(const ExchangeView& view, int claimant, const Attempt& attempt);

}  // namespace coterie::allocation
