// Optional moves: exchanges that make the placement clearly better, within limits that keep it calm.
//
// Tried for each exclusive group in turn: gather it in one cache, node or socket that has room, the device's too (free CPUs first, then exchanges
// with groups that are strangers there); take single CPUs off cores shared with another tenant; exchange parts with whoever is near (exchange.h);
// exchange CPUs between its containers. A change is made if J (without move terms) falls, and by `optionalMoveGain` per CPU that somebody holds now
// and would lose: of an exchange what one side loses, the larger. CPUs nobody held yet (a newcomer's) move for free, and so do the whole units of an
// isolated newcomer and a pool's new CPUs. A group that moved within `optionalMoveInterval`, or an empty bucket, defers the change; what would only
// wait for the same is not looked for again. Repeats until nothing is left to gain: every change lowers J, so it ends; what is tried depends on the
// board and on what is held alone, and holding more never permits more, so that a plan, once applied, finds nothing more to do. O(changes * groups *
// domains * n) at worst; groups that already sit in one cache and share no core cost O(n). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/decide.h"
#include "allocation/selection.h"

namespace coterie::allocation {

struct Movable {
  Isolation isolation{Isolation::None};
  bool fixed{false};                  // whole units of an isolated group: never gathered, exchanged only as a newcomer's
  bool rooted{false};                 // not even then: units are short, and what it left would be taken by the next decision
  bool mayMove{true};                 // not within its interval; not the pool
  std::vector<Positions> containers;  // what each container holds now; none: the pool
  std::vector<int> away;              // per position, from the device that it names (objective.h); empty: it names none
};
struct MoveOutcome {
  std::vector<std::vector<Positions>> homes;  // per claimant: its containers' CPUs (container resource assignment of the result)
  std::vector<std::int64_t> moved;            // per claimant: CPUs moved for better fit
  std::vector<std::int64_t> gain;             // per claimant: gain of J in quarters, summed
  std::vector<bool> deferredByTime;           // a worthwhile change waits for the group's interval
  std::vector<bool> deferredByBucket;
  std::int64_t bucketLeft{0};  // milli-CPUs, as below
  // Did intervals and bucket have a say? With the same intervals, any bucket from `bucketFrom` on and below `bucketBelow` leads to the same.
  bool limited{false};
  std::int64_t bucketFrom{std::numeric_limits<std::int64_t>::min()};
  std::int64_t bucketBelow{std::numeric_limits<std::int64_t>::max()};
};

// holders: position -> claimant that holds it now, or kFree. movables: per claimant of the board; the pool (if any) is the last one and keeps what it
// holds.
[[nodiscard]] MoveOutcome improve(Board& board, const std::vector<int>& holders, const std::vector<Movable>& movables, std::int64_t bucket,
                                  const Config& config);

}  // namespace coterie::allocation
