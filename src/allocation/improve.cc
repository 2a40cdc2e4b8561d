#include "allocation/improve.h"

#include <algorithm>

#include "allocation/exchange.h"
#include "allocation/isolation.h"
#include "allocation/objective.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kQuarters = 4;
constexpr std::int64_t kMilliPerCpu = 1000;
constexpr int kUnknown = -1;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Improver {
 public:
  Improver(Board& board, const std::vector<int>& holders, const std::vector<Movable>& movables, std::int64_t bucket, const Config& config)
      : board_(board), layout_(board.layout()), holders_(holders), movables_(movables), config_(config), bucket_(bucket), costs_(movables.size()) {
    outcome_.moved.assign(movables.size(), 0);
    outcome_.gain.assign(movables.size(), 0);
    outcome_.deferredByTime.assign(movables.size(), false);
    outcome_.deferredByBucket.assign(movables.size(), false);
    outcome_.bucketLeft = bucket_;
    held_.assign(movables.size(), false);
    for (const int holder : holders) {
      if (holder != kFree) held_[at(holder)] = true;
    }
    for (int c = 0; c < board.claimants(); ++c) {
      homes_.push_back(assigned(c, movables[at(c)].containers));
      costs_[at(c)] = costOf(c, homes_.back());
    }
    cacheCosts_.assign(layout_.branches.size(), 0);
    changedAt_.assign(layout_.branches.size(), clock_);
    triedAt_.assign(movables.size(), 0);
    for (std::size_t branch = 0; branch < layout_.branches.size(); ++branch) {
      if (layout_.branches[branch].level == DomainLevel::Cache) cacheCosts_[branch] = cacheCost(board, static_cast<int>(branch));
    }
  }

  MoveOutcome run() {
    bool again = true;
    while (again) {
      again = false;
      for (int c = 0; c < board_.claimants(); ++c) {
        if (stays(c) || board_.owned(c).empty()) continue;
        while (tryGather(c) || tryUnshare(c)) again = true;
      }
      if (again) continue;
      for (int c = 0; c < board_.claimants(); ++c) {
        while (tryExchange(c) || tryContainers(c)) again = true;
      }
    }
    outcome_.homes = std::move(homes_);
    return std::move(outcome_);
  }

 private:
  // A change under trial: who had what before.
  using Before = std::vector<std::pair<int, std::vector<int>>>;

  // The pool, and isolated groups.
  [[nodiscard]] bool stays(int claimant) const { return !board_.tenantOf(claimant).valid() || movables_[at(claimant)].fixed; }

  // The containers' CPUs if they start from `held`. Trials start from what the plan has so far, so that the plan, once applied, judges the same
  // trials alike.
  [[nodiscard]] std::vector<Positions> assigned(int claimant, std::vector<Positions> held) const {
    const std::vector<int>& cpus = board_.owned(claimant);
    if (held.empty() || cpus.empty()) return {cpus};
    for (Positions& one : held) std::erase_if(one, [&](int position) { return board_.owner(position) != claimant; });
    std::vector<Positions> homes = assignContainers(layout_, cpus, held, movables_[at(claimant)].sizes);
    if (held_[at(claimant)] || held.size() == 1) return homes;
    std::vector<Positions> afresh =
        assignContainers(layout_, cpus, std::vector<Positions>(held.size()), movables_[at(claimant)].sizes);  // nobody stands anywhere yet
    return groupCost(layout_, cpus, afresh) < groupCost(layout_, cpus, homes) ? afresh : homes;
  }

  [[nodiscard]] std::int64_t costOf(int claimant, const std::vector<Positions>& homes) const {
    return groupCost(layout_, board_.owned(claimant), homes) + deviceCost(movables_[at(claimant)].away, board_.owned(claimant));
  }

  [[nodiscard]] std::int64_t keptBy(int claimant, const std::vector<int>& cpus) const {
    return std::count_if(cpus.begin(), cpus.end(), [&](int position) { return holders_[at(position)] == claimant; });
  }

  void restore(const Before& before) {
    for (const auto& [claimant, cpus] : before) {
      const std::vector<int> now = board_.owned(claimant);
      for (const int position : now) board_.release(position);
    }
    for (const auto& [claimant, cpus] : before) {
      for (const int position : cpus) board_.give(position, claimant);
    }
  }

  // Judges the board as it stands now against `before`; undoes what is not worth it or must wait.
  bool judge(const Before& before) {
    const std::vector<std::pair<int, std::int64_t>> caches = touchedCaches(before);
    std::int64_t gain = 0;
    for (const auto& [branch, cost] : caches) gain += cacheCosts_[at(branch)] - cost;
    std::int64_t moved = 0;
    std::int64_t othersMoved = 0;
    std::vector<std::int64_t> costs;
    std::vector<std::vector<Positions>> homes;
    for (const auto& [claimant, cpus] : before) {
      homes.push_back(assigned(claimant, homes_[at(claimant)]));
      costs.push_back(costOf(claimant, homes.back()));
      gain += costs_[at(claimant)] - costs.back();
      const std::int64_t lost = std::max<std::int64_t>(0, keptBy(claimant, cpus) - keptBy(claimant, board_.owned(claimant)));
      (claimant == before.front().first ? moved : othersMoved) += lost;
    }
    moved = std::max(moved, othersMoved);
    const bool worthwhile = gain > 0 && gain >= config_.optionalMoveGain * kQuarters * moved;
    waits_ = worthwhile && !affordable(before, moved);
    if (!worthwhile || waits_) return restore(before), false;
    for (std::size_t i = 0; i < before.size(); ++i) {
      costs_[at(before[i].first)] = costs[i];
      homes_[at(before[i].first)] = std::move(homes[i]);
      outcome_.moved[at(before[i].first)] +=
          std::max<std::int64_t>(0, keptBy(before[i].first, before[i].second) - keptBy(before[i].first, board_.owned(before[i].first)));
    }
    ++clock_;
    for (const auto& [claimant, cpus] : before) markChanged(cpus), markChanged(board_.owned(claimant));
    outcome_.gain[at(before.front().first)] += gain;
    outcome_.bucketLeft -= moved * kMilliPerCpu;
    for (const auto& [branch, cost] : caches) cacheCosts_[at(branch)] = cost;
    return true;
  }

  // The caches whose owners changed, with their cost now.
  [[nodiscard]] std::vector<std::pair<int, std::int64_t>> touchedCaches(const Before& before) const {
    std::vector<std::pair<int, std::int64_t>> caches;
    const auto touch = [&](int position) {
      const int branch = layout_.paths[at(position)][static_cast<std::size_t>(DomainLevel::Cache)];
      if (caches.empty() || caches.back().first != branch) caches.emplace_back(branch, 0);
    };
    for (const auto& [claimant, cpus] : before) {
      for (const int position : cpus) touch(position);
      for (const int position : board_.owned(claimant)) touch(position);
    }
    std::sort(caches.begin(), caches.end());
    caches.erase(std::unique(caches.begin(), caches.end()), caches.end());
    for (auto& [branch, cost] : caches) cost = cacheCost(board_, branch);
    return caches;
  }

  bool affordable(const Before& before, std::int64_t moved) {
    if (moved <= 0) return true;
    outcome_.limited = true;
    bool may = true;
    for (const auto& [claimant, cpus] : before) {
      const bool loses = keptBy(claimant, cpus) > keptBy(claimant, board_.owned(claimant));
      if (loses && !movables_[at(claimant)].mayMove) outcome_.deferredByTime[at(claimant)] = true, may = false;
    }
    return may && bucketAllows(before.front().first, moved);
  }

  // And which other buckets would have answered the same.
  bool bucketAllows(int claimant, std::int64_t moved) {
    const std::int64_t needed = moved * kMilliPerCpu;
    const std::int64_t inAll = needed + bucket_ - outcome_.bucketLeft;
    if (needed <= outcome_.bucketLeft) {
      outcome_.bucketFrom = std::max(outcome_.bucketFrom, inAll);
      return true;
    }
    outcome_.deferredByBucket[at(claimant)] = dry_ = true;
    outcome_.bucketBelow = std::min(outcome_.bucketBelow, inAll);
    return false;
  }

  // It runs on all its CPUs, moved lately, and is known to wait for that: whatever takes one of them waits as well.
  [[nodiscard]] bool waitsAnyway(int claimant) const { return outcome_.deferredByTime[at(claimant)] && isSettled(claimant); }
  [[nodiscard]] bool isSettled(int claimant) const {
    const auto& cpus = board_.owned(claimant);
    return std::all_of(cpus.begin(), cpus.end(), [&](int position) { return holders_[at(position)] == claimant; });
  }

  // Once somebody waits for the bucket, others who would are not looked for: how many CPUs may still be moved; negative: no end.
  std::int64_t stillAffordable() {
    if (!dry_) return -1;
    const std::int64_t affordable = outcome_.bucketLeft / kMilliPerCpu;
    const std::int64_t spent = bucket_ - outcome_.bucketLeft;  // another number of affordable CPUs may lead elsewhere
    outcome_.bucketFrom = std::max(outcome_.bucketFrom, affordable * kMilliPerCpu + spent);
    outcome_.bucketBelow = std::min(outcome_.bucketBelow, (affordable + 1) * kMilliPerCpu + spent);
    return affordable;
  }

  bool tryGather(int claimant) {
    if (costs_[at(claimant)] == 0 || waitsAnyway(claimant)) return false;
    const auto size = static_cast<int>(board_.owned(claimant).size());
    const int lowest = board_.owned(claimant).front(), highest = board_.owned(claimant).back();
    for (std::size_t b = 0; b < layout_.branches.size(); ++b) {
      const Layout::Branch& branch = layout_.branches[b];
      if (branch.level == DomainLevel::Machine) continue;
      if (branch.level == DomainLevel::Core) break;
      if (branch.size() < size) continue;
      const bool elsewhere = branch.end <= lowest || highest < branch.begin;
      if (elsewhere && freeIn(static_cast<int>(b)) < size) continue;  // no room, and nothing of it to gather by exchanges
      if (gatherIn(static_cast<int>(b), claimant)) return true;
    }
    return false;
  }

  [[nodiscard]] int freeIn(int branch) const {
    int free = 0;
    for (int kind = 0; kind < layout_.kindCount; ++kind) free += board_.freeIn(branch, kind);
    return free;
  }

  bool gatherIn(int b, int claimant) {
    const Layout::Branch& branch = layout_.branches[at(b)];
    const std::vector<int>& now = board_.owned(claimant);
    const auto first = std::lower_bound(now.begin(), now.end(), branch.begin);
    const auto last = std::lower_bound(first, now.end(), branch.end);
    if (last - first == static_cast<std::ptrdiff_t>(now.size())) return false;
    std::array<int, kMaxKinds> wanted{};
    for (auto one = now.begin(); one != now.end(); ++one) wanted[at(layout_.kinds[at(*one)])] += one >= first && one < last ? 0 : 1;
    bool room = true;
    for (int kind = 0; kind < kMaxKinds; ++kind) room = room && board_.freeIn(b, kind) >= wanted[at(kind)];
    if (!room && (first == last || !mayPayOff(claimant, now.size() - static_cast<std::size_t>(last - first)))) return false;
    const std::vector<int> own = now;
    std::vector<int> outside(now.begin(), first);
    outside.insert(outside.end(), last, now.end());
    if (!room) return exchange(branch, claimant, own, outside);
    for (const int position : outside) board_.release(position);
    for (int kind = 0; kind < kMaxKinds; ++kind) board_.growWithin(b, claimant, kind, wanted[at(kind)], chunkOf(claimant, own.size()));
    return judge({{claimant, own}});
  }

  // Is gathering it in a domain without room worth a trial? Who runs somewhere must pay for himself.
  bool mayPayOff(int claimant, std::size_t outside) {
    if (!isSettled(claimant)) return true;
    const auto moved = static_cast<std::int64_t>(outside);
    if (costs_[at(claimant)] < config_.optionalMoveGain * kQuarters * moved) return false;
    const std::int64_t affordable = stillAffordable();
    return affordable < 0 || moved <= affordable;
  }

  [[nodiscard]] int chunkOf(int claimant, std::size_t cpus) const {
    return std::max(1, static_cast<int>(cpus / std::max<std::size_t>(1, movables_[at(claimant)].containers.size())));
  }

  // Swaps the outside CPUs for ones of strangers in the domain: groups that hold no more than half of theirs there.
  bool exchange(const Layout::Branch& branch, int claimant, const std::vector<int>& own, const std::vector<int>& outside) {
    std::vector<bool> used(at(branch.size()), false);
    std::vector<int> strangers(movables_.size(), kUnknown);
    const auto isStrange = [&](int owner) {
      if (strangers[at(owner)] == kUnknown) strangers[at(owner)] = owner != claimant && isStranger(branch, owner) ? 1 : 0;
      return strangers[at(owner)] == 1;
    };
    std::vector<std::pair<int, int>> swaps;
    Before before{{claimant, own}};
    for (const int leaving : outside) {
      int chosen = -1;
      for (int position = branch.begin; position < branch.end && chosen < 0; ++position) {
        const int owner = board_.owner(position);
        if (used[at(position - branch.begin)] || layout_.kinds[at(position)] != layout_.kinds[at(leaving)]) continue;
        if (owner == kFree || isStrange(owner)) chosen = position;
      }
      if (chosen < 0) return false;
      used[at(chosen - branch.begin)] = true;
      swaps.emplace_back(leaving, chosen);
      const int owner = board_.owner(chosen);
      if (owner != kFree && std::none_of(before.begin(), before.end(), [&](const auto& one) { return one.first == owner; }))
        before.emplace_back(owner, board_.owned(owner));
    }
    for (const auto& [leaving, entering] : swaps) {
      const int owner = board_.owner(entering);
      board_.give(entering, claimant);
      if (owner == kFree) {
        board_.release(leaving);
      } else {
        board_.give(leaving, owner);
      }
    }
    // Nobody may be moved altogether: it would have nowhere to stand in between.
    if (std::any_of(before.begin(), before.end(), [&](const auto& one) { return movedAltogether(one.first, one.second); }))
      return restore(before), false;
    return judge(before);
  }

  [[nodiscard]] bool movedAltogether(int claimant, const std::vector<int>& cpus) const {
    const std::vector<int>& now = board_.owned(claimant);
    return std::none_of(now.begin(), now.end(), [&](int position) { return std::binary_search(cpus.begin(), cpus.end(), position); });
  }

  [[nodiscard]] bool isStranger(const Layout::Branch& branch, int owner) const {
    if (stays(owner)) return false;
    const auto& cpus = board_.owned(owner);
    const auto inside = std::count_if(cpus.begin(), cpus.end(), [&](int position) { return position >= branch.begin && position < branch.end; });
    return cpus.size() > 1 && inside * 2 <= static_cast<std::ptrdiff_t>(cpus.size());
  }

  bool tryUnshare(int claimant) {
    const std::vector<int> own = board_.owned(claimant);
    for (const int position : own) {
      const auto& path = layout_.paths[at(position)];
      const Layout::Branch& core = layout_.branches[at(path[kLevels - 1])];
      bool shared = false;
      for (int other = core.begin; other < core.end; ++other) {
        const int owner = board_.owner(other);
        shared = shared || (owner != kFree && owner != claimant && board_.tenantOf(owner) != board_.tenantOf(claimant));
      }
      if (!shared) continue;
      for (const DomainLevel level : {DomainLevel::Cache, DomainLevel::Node}) {
        const int kind = layout_.kinds[at(position)];
        const int branch = path[at(static_cast<int>(level))];
        if (board_.freeIn(branch, kind) == 0) continue;
        board_.release(position);
        board_.growWithin(branch, claimant, kind, 1, 1);
        if (board_.owner(position) == claimant) continue;
        if (judge({{claimant, own}})) return true;
      }
    }
    return false;
  }

  // Not again while nothing changed for anybody near.
  bool tryExchange(int claimant) {
    if (waitsAnyway(claimant) || triedAt_[at(claimant)] > lastChangeNear(claimant)) return false;
    const ExchangeView view{board_, holders_, costs_, cacheCosts_, homes_, config_.optionalMoveGain * kQuarters, stillAffordable()};
    const bool made = tryExchanges(view, claimant, [&](const std::vector<int>& leaving, int entering) {
      waits_ = false;
      const bool worked = exchange(claimant, leaving, entering);
      return worked ? Tried::Made : waits_ ? Tried::Waits : Tried::Not;
    });
    if (!made) triedAt_[at(claimant)] = ++clock_;
    return made;
  }

  [[nodiscard]] std::int64_t lastChangeNear(int claimant) const {
    std::int64_t last = 0;
    int before = -1;
    for (const int position : board_.owned(claimant)) {
      const int around = reachOf(layout_, position);
      if (around == before) continue;
      before = around;
      const Layout::Branch& domain = layout_.branches[at(around)];
      for (int cache = cacheOf(domain.begin); cache <= cacheOf(domain.end - 1); ++cache) last = std::max(last, changedAt_[at(cache)]);
    }
    return last;
  }

  [[nodiscard]] int cacheOf(int position) const { return layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Cache))]; }

  void markChanged(const std::vector<int>& cpus) {
    for (const int position : cpus) changedAt_[at(cacheOf(position))] = clock_;
  }

  bool exchange(int claimant, const std::vector<int>& leaving, int entering) {
    Before before{{claimant, board_.owned(claimant)}};
    for (std::size_t i = 0; i < leaving.size(); ++i) {
      const int owner = board_.owner(entering + static_cast<int>(i));
      if (owner != kFree && std::none_of(before.begin(), before.end(), [&](const auto& one) { return one.first == owner; }))
        before.emplace_back(owner, board_.owned(owner));
    }
    for (std::size_t i = 0; i < leaving.size(); ++i) {
      const int position = entering + static_cast<int>(i);
      const int owner = board_.owner(position);
      board_.give(position, claimant);
      if (owner == kFree) {
        board_.release(leaving[i]);
      } else {
        board_.give(leaving[i], owner);
      }
    }
    if (std::any_of(before.begin(), before.end(), [&](const auto& one) { return mustNot(one.first, one.second); })) return restore(before), false;
    return judge(before);
  }

  // Exchanges single CPUs between containers of a group that reach farther than they must. As between groups: nobody is moved altogether.
  bool tryContainers(int claimant) {
    const std::vector<Positions>& homes = homes_[at(claimant)];
    const std::size_t cpus = board_.owned(claimant).size();
    if (stays(claimant) || homes.size() < 2 || cpus > at(kReach) || cpus < homes.size() || costs_[at(claimant)] == 0) return false;
    for (std::size_t a = 0; a < homes.size(); ++a) {
      if (homes[a].size() < 2 || spanBetween(layout_, homes[a].front(), homes[a].back()) == 0) continue;
      for (std::size_t b = 0; b < homes.size(); ++b) {
        if (a == b || homes[b].size() < 2) continue;
        for (const int one : homes[a]) {
          for (const int other : homes[b]) {
            if (layout_.kinds[at(one)] == layout_.kinds[at(other)] && exchangeBetween(claimant, {a, one}, {b, other})) return true;
          }
        }
      }
    }
    return false;
  }

  struct Spot {
    std::size_t container;
    int position;
  };
  bool exchangeBetween(int claimant, Spot one, Spot other) {
    std::vector<Positions>& homes = homes_[at(claimant)];
    const std::int64_t gain =
        gainOf(homes[one.container], one.position, other.position) + gainOf(homes[other.container], other.position, one.position);
    const std::int64_t moved = holds(claimant, one) || holds(claimant, other) ? 1 : 0;
    if (gain <= 0 || gain < config_.optionalMoveGain * kQuarters * moved || !mayPay(claimant, moved)) return false;
    ++clock_;
    markChanged(board_.owned(claimant));
    moveOver(homes[one.container], homes[other.container], one.position);
    moveOver(homes[other.container], homes[one.container], other.position);
    costs_[at(claimant)] -= gain;
    outcome_.moved[at(claimant)] += moved;
    outcome_.gain[at(claimant)] += gain;
    outcome_.bucketLeft -= moved * kMilliPerCpu;
    return true;
  }

  // What a container of two CPUs or more costs less with `come` for `gone`.
  [[nodiscard]] std::int64_t gainOf(const Positions& home, int gone, int come) const {
    const int low = std::min(come, home.front() == gone ? home[1] : home.front());
    const int high = std::max(come, home.back() == gone ? home[home.size() - 2] : home.back());
    return kQuarters * static_cast<std::int64_t>(home.size()) * (spanBetween(layout_, home.front(), home.back()) - spanBetween(layout_, low, high));
  }

  static void moveOver(Positions& from, Positions& to, int position) {
    from.erase(std::lower_bound(from.begin(), from.end(), position));
    to.insert(std::lower_bound(to.begin(), to.end(), position), position);
  }

  [[nodiscard]] bool holds(int claimant, Spot spot) const {
    const Positions& held = movables_[at(claimant)].containers[spot.container];
    return std::binary_search(held.begin(), held.end(), spot.position);
  }

  bool mayPay(int claimant, std::int64_t moved) {
    if (moved <= 0) return true;
    outcome_.limited = true;
    if (!movables_[at(claimant)].mayMove) return outcome_.deferredByTime[at(claimant)] = true, false;
    return bucketAllows(claimant, moved);
  }

  // What an exchange may not do to one of those in it, who had `cpus` before: move somebody altogether (he would have nowhere to stand in between) or
  // the pool, place an isolated group beside anybody or where somebody else still is. Newcomers stand nowhere yet.
  [[nodiscard]] bool mustNot(int claimant, const std::vector<int>& cpus) const {
    const std::vector<int>& now = board_.owned(claimant);
    if (movables_[at(claimant)].fixed) return held_[at(claimant)] || movables_[at(claimant)].rooted || !inFreeUnits(claimant);
    if (stays(claimant)) return keptBy(claimant, now) < keptBy(claimant, cpus);
    return held_[at(claimant)] && movedAltogether(claimant, cpus);
  }

  [[nodiscard]] bool inFreeUnits(int claimant) const {
    const DomainLevel level = unitLevel(movables_[at(claimant)].isolation);
    const auto& cpus = board_.owned(claimant);
    return std::all_of(cpus.begin(), cpus.end(), [&](int position) {
      const Layout::Branch& unit = layout_.branches[at(layout_.paths[at(position)][at(static_cast<int>(level))])];
      for (int other = unit.begin; other < unit.end; ++other) {
        if (board_.owner(other) != claimant || holders_[at(other)] != kFree) return false;
      }
      return true;
    });
  }

  Board& board_;
  const Layout& layout_;
  const std::vector<int>& holders_;
  const std::vector<Movable>& movables_;
  const Config& config_;
  std::int64_t bucket_;              // at first
  std::vector<std::int64_t> costs_;  // quarters, per claimant
  std::vector<bool> held_;           // per claimant: it holds a CPU now
  std::vector<std::vector<Positions>> homes_;
  std::vector<std::int64_t> cacheCosts_;  // quarters, per branch of cache level
  std::int64_t clock_{1};
  std::vector<std::int64_t> changedAt_;  // per branch of cache level: when somebody with CPUs there had others last
  std::vector<std::int64_t> triedAt_;    // per claimant: when no exchange was found
  bool dry_{false};                      // somebody waits for the bucket
  bool waits_{false};                    // the last change judged was worth it, and has to wait
  MoveOutcome outcome_;
};
}  // namespace

MoveOutcome improve(Board& board, const std::vector<int>& holders, const std::vector<Movable>& movables, std::int64_t bucket, const Config& config) {
  return Improver(board, holders, movables, bucket, config).run();
}

}  // namespace coterie::allocation
