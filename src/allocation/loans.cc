#include "allocation/loans.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "allocation/isolation.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Borrower {
  std::size_t party{0};
  int wanted{0};
  int given{0};
  std::int64_t weight{1};
  CpuSet open;            // what it may still be lent
  CpuSet held;            // of that, what it has on loan now
  std::vector<int> cpus;  // in the order they were given
};

int lanesNow(const GroupState& group) {
  int lanes = 0;
  for (const ContainerState& container : group.containers) lanes += container.awakeLoanLanes;
  return lanes;
}

// The CPUs around a group's home, by how far in their common domain lies.
class Surroundings {
 public:
  Surroundings(const Layout& layout, const GroupTarget& target) {
    std::array<int, kLevels> last{};
    for (const ContainerTarget& container : target.containers) {
      for (const int id : container.home) {
        const auto& path = layout.paths[at(layout.positionOf(id))];
        for (int level = 1; level < kLevels; ++level) {
          const int branch = path[at(level)];
          if (branch == last[at(level)]) continue;
          last[at(level)] = branch;
          add(layout, level, branch);
        }
      }
    }
  }

  // The nearest of these, the lowest id among equals; there is at least one.
  [[nodiscard]] int nearestOf(const CpuSet& cpus) const {
    for (int level = kLevels - 1; level > 0; --level) {
      if (const int id = (cpus & near_[at(level)]).first(); id >= 0) return id;
    }
    return cpus.first();
  }

 private:
  void add(const Layout& layout, int level, int branch) {
    if (at(branch) < layout.cpusOf.size()) {
      near_[at(level)] |= layout.cpusOf[at(branch)];
      return;
    }
    const Layout::Branch& core = layout.branches[at(branch)];
    for (int position = core.begin; position < core.end; ++position) near_[at(level)].add(layout.ids[at(position)]);
  }

  std::array<CpuSet, kLevels> near_;  // per level: the domains that the home touches; of the machine's nothing is asked
};

// All CPUs that are lent, in lots: by the loans given on them, then by their owner's use.
class Lender {
 public:
  Lender(const Layout& layout, const std::vector<LoanParty>& parties, const CpuSet& pool) : layout_(layout), parties_(parties) {
    CpuSet nobodys = layout.usable - pool;
    std::int64_t poolDemand = 0;
    std::int64_t poolEntitled = 0;
    bool poolLends = true;
    std::vector<std::pair<std::int64_t, const CpuSet*>> lots{{0, &nobodys}};
    for (const LoanParty& party : parties) {
      anyIsolated_ = anyIsolated_ || isolated(*party.group);
      const bool lends = party.group->lend != Lend::Never;
      if (party.target->inPool) {
        poolDemand += party.group->demand.value;
        poolEntitled += party.target->entitlement.value;
        poolLends = poolLends && lends;
        continue;
      }
      const std::int64_t busy = use(party.group->demand.value, party.target->entitlement.value);
      for (const ContainerTarget& container : party.target->containers) {
        nobodys -= container.home;
        if (lends) lots.emplace_back(busy, &container.home);
      }
    }
    if (poolLends) lots.emplace_back(use(poolDemand, poolEntitled), &pool);
    std::sort(lots.begin(), lots.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    makeLots(lots);
  }

  [[nodiscard]] const CpuSet& lent() const { return lent_; }

  // Across tenants nobody who is isolated lends or borrows; within one, an isolated borrower keeps to units that are its tenant's as a whole, for
  // which the owner's isolation must be as wide as its own.
  [[nodiscard]] CpuSet closedFor(const GroupState& group) const {
    CpuSet closed;
    if (!anyIsolated_) return closed;
    if (isolated(group)) closed = lent_;  // the pool's and nobody's too
    for (const LoanParty& owner : parties_) {
      if (owner.target->inPool) continue;
      const bool open = mayTouch(group, *owner.group) && owner.group->isolation >= group.isolation;
      for (const ContainerTarget& container : owner.target->containers) {
        if (open) {
          closed -= container.home;
        } else if (isolated(*owner.group)) {
          closed |= container.home;
        }
      }
    }
    return closed;
  }

  // The owner of the last of these CPUs in domain order, invalid if it is the pool or nobody.
  [[nodiscard]] GroupId ownerOfLast(const CpuSet& cpus) const {
    int last = -1;
    for (const int id : cpus) last = std::max(last, layout_.positionOf(id));
    for (const LoanParty& owner : parties_) {
      if (owner.target->inPool) continue;
      for (const ContainerTarget& container : owner.target->containers) {
        if (last >= 0 && container.home.contains(layout_.ids[at(last)])) return owner.group->id;
      }
    }
    return {};
  }

  // One more lane for the borrower; false if no CPU is left for it.
  bool lendOne(Borrower& borrower, const Surroundings& surroundings) {
    const CpuSet& wanted = borrower.held.empty() ? borrower.open : borrower.held;
    for (std::size_t round = 0; round < rounds_.size(); ++round) {
      Round& here = rounds_[round];
      while (here.first < here.lots.size() && here.lots[here.first].empty()) ++here.first;
      for (std::size_t lot = here.first; lot < here.lots.size(); ++lot) {
        if (!here.lots[lot].intersects(wanted)) continue;
        give(borrower, surroundings.nearestOf(here.lots[lot] & wanted), round, lot);
        return true;
      }
    }
    return false;
  }

 private:
  // The CPUs with so many loans on them as the round's number, by use.
  struct Round {
    std::vector<CpuSet> lots;
    std::size_t first{0};  // those before it are empty
  };

  [[nodiscard]] static std::int64_t use(std::int64_t demand, std::int64_t entitled) {
    return std::clamp<std::int64_t>(demand * kCpu / std::max<std::int64_t>(1, entitled), 0, kCpu);
  }

  void makeLots(const std::vector<std::pair<std::int64_t, const CpuSet*>>& sorted) {
    Round& round = rounds_.emplace_back();
    round.lots.reserve(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i == 0 || sorted[i].first != sorted[i - 1].first) round.lots.emplace_back();
      round.lots.back() |= *sorted[i].second;
      lent_ |= *sorted[i].second;
    }
  }

  void give(Borrower& borrower, int id, std::size_t round, std::size_t lot) {
    if (round + 1 == rounds_.size()) rounds_.push_back({std::vector<CpuSet>(rounds_.front().lots.size()), 0});
    rounds_[round].lots[lot].remove(id);
    rounds_[round + 1].lots[lot].add(id);
    rounds_[round + 1].first = std::min(rounds_[round + 1].first, lot);
    borrower.open.remove(id);
    borrower.held.remove(id);
    borrower.cpus.push_back(id);
    ++borrower.given;
  }

  const Layout& layout_;
  const std::vector<LoanParty>& parties_;
  std::vector<Round> rounds_;
  CpuSet lent_;
  bool anyIsolated_{false};
};

// How many loan lanes the group shall have awake, from its demand and what it has now.
int wantedLanes(const LoanParty& party, const Snapshot& snapshot, const Config& config, std::optional<Instant>& again) {
  const GroupState& group = *party.group;
  const int now = lanesNow(group);
  const int existing = group.loanLanes * static_cast<int>(group.containers.size());
  const std::int64_t excess = std::min(group.demand, group.ceiling).value - party.target->entitlement.value;
  if (!config.lending || existing == 0) return 0;
  if (excess > 0) {
    const int limit = static_cast<int>(std::min<std::int64_t>((excess + kCpu - 1) / kCpu, existing));
    return group.queuedBeyondOwnLanes ? limit : std::min(now, limit);
  }
  if (now == 0) return 0;
  const Instant since = group.demandBelowEntitlementSince.value_or(snapshot.now);
  const Instant parkAt = since + config.loanParkDelay;
  if (snapshot.now >= parkAt) return 0;
  if (!again || parkAt < *again) again = parkAt;
  return std::min(now, existing);
}

// Lanes to containers: who has the CPU on loan keeps it; the others go to whoever has fewest.
void handOut(const Borrower& borrower, const LoanParty& party) {
  const GroupState& group = *party.group;
  std::vector<ContainerTarget>& targets = party.target->containers;
  std::vector<int> left;
  const auto assign = [&](std::size_t container, int cpu) {
    targets[container].loans.add(cpu);
    ++targets[container].awakeLoanLanes;
  };
  for (const int cpu : borrower.cpus) {
    std::size_t keeper = group.containers.size();
    for (std::size_t c = 0; c < group.containers.size() && keeper == group.containers.size(); ++c) {
      if (group.containers[c].loans.contains(cpu) && targets[c].awakeLoanLanes < group.loanLanes) keeper = c;
    }
    if (keeper < group.containers.size()) {
      assign(keeper, cpu);
    } else {
      left.push_back(cpu);
    }
  }
  for (const int cpu : left) {
    std::size_t least = 0;
    for (std::size_t c = 1; c < targets.size(); ++c) {
      if (targets[c].awakeLoanLanes < targets[least].awakeLoanLanes) least = c;
    }
    assign(least, cpu);
  }
}

// What a borrower may be lent: what is lent, but not by itself, and not closed to it.
void openFor(Borrower& borrower, const LoanParty& party, const Lender& lender, const CpuSet& pool) {
  borrower.open = lender.lent() - lender.closedFor(*party.group);
  if (party.target->inPool) {
    borrower.open -= pool;
  } else {
    for (const ContainerTarget& container : party.target->containers) borrower.open -= container.home;
  }
  for (const ContainerState& container : party.group->containers) borrower.held |= container.loans;
  borrower.held &= borrower.open;
}

// What isolation keeps from it.
CpuSet refusedTo(const LoanParty& party, const Lender& lender, const CpuSet& pool) {
  CpuSet refused = lender.lent() & lender.closedFor(*party.group);
  if (party.target->inPool) return refused - pool;
  for (const ContainerTarget& container : party.target->containers) refused -= container.home;
  return refused;
}

// Lanes one at a time, each to the borrower that has least per weight.
void lendAll(std::vector<Borrower>& borrowers, const std::vector<LoanParty>& parties, Lender& lender, const Layout& layout, const CpuSet& pool) {
  std::vector<Surroundings> surroundings;
  surroundings.reserve(borrowers.size());
  for (Borrower& borrower : borrowers) {
    openFor(borrower, parties[borrower.party], lender, pool);
    surroundings.emplace_back(layout, *parties[borrower.party].target);
  }
  // Is `a` served after `b`? Compared crosswise: (given + 1) / weight.
  const auto after = [&](std::size_t a, std::size_t b) {
    const std::int64_t left = (borrowers[a].given + 1) * borrowers[b].weight;
    const std::int64_t right = (borrowers[b].given + 1) * borrowers[a].weight;
    return left != right ? left > right : a > b;
  };
  std::vector<std::size_t> queue(borrowers.size());
  std::iota(queue.begin(), queue.end(), std::size_t{0});
  std::make_heap(queue.begin(), queue.end(), after);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), after);
    Borrower& borrower = borrowers[queue.back()];
    if (lender.lendOne(borrower, surroundings[queue.back()]) && borrower.given < borrower.wanted) {
      std::push_heap(queue.begin(), queue.end(), after);
    } else {
      queue.pop_back();
    }
  }
}

void sayOutcome(const Borrower& borrower, const LoanParty& party, const Lender& lender, const CpuSet& pool, std::vector<Reason>& reasons) {
  const GroupId id = party.group->id;
  if (borrower.given < borrower.wanted) {
    const CpuSet refused = refusedTo(party, lender, pool);
    if (!refused.empty()) reasons.push_back({id, ReasonCode::LoanRefusedIsolation, borrower.wanted - borrower.given, 0, lender.ownerOfLast(refused)});
  }
  const int before = lanesNow(*party.group);
  if (borrower.given > before) reasons.push_back({id, ReasonCode::LoanWoken, borrower.given - before, 0, {}});
  if (borrower.given < before) reasons.push_back({id, ReasonCode::LoanParked, before - borrower.given, 0, {}});
}

void sayIdle(const GroupState& group, const Config& config, std::vector<Reason>& reasons) {
  if (lanesNow(group) > 0) reasons.push_back({group.id, ReasonCode::LoanParked, lanesNow(group), 0, {}});
  if (!config.lending && group.queuedBeyondOwnLanes && group.loanLanes > 0) reasons.push_back({group.id, ReasonCode::LendingOff, 0, 0, {}});
}
}  // namespace

void planLoans(const Layout& layout, const std::vector<LoanParty>& parties, const CpuSet& pool, const Snapshot& snapshot, const Config& config,
               std::vector<Reason>& reasons, std::optional<Instant>& again) {
  std::vector<Borrower> borrowers;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const int wanted = wantedLanes(parties[i], snapshot, config, again);
    if (wanted == 0) continue;
    const GroupState& group = *parties[i].group;
    Borrower& borrower = borrowers.emplace_back();
    borrower.party = i;
    borrower.wanted = wanted;
    borrower.weight = std::max<std::int64_t>(1, group.tenantWeight) * std::max<std::int64_t>(1, group.weight);
  }
  std::optional<Lender> lender;
  if (!borrowers.empty()) {
    lender.emplace(layout, parties, pool);
    lendAll(borrowers, parties, *lender, layout, pool);
  }
  auto next = borrowers.begin();
  for (std::size_t i = 0; i < parties.size(); ++i) {
    if (next != borrowers.end() && next->party == i) {
      handOut(*next, parties[i]);
      sayOutcome(*next, parties[i], *lender, pool, reasons);
      ++next;
    } else {
      sayIdle(*parties[i].group, config, reasons);
    }
  }
}

}  // namespace coterie::allocation
