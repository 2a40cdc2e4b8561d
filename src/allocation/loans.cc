#include "allocation/loans.h"

#include <algorithm>
#include <span>
#include <utility>

#include "allocation/isolation.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Borrower {
  std::size_t party{0};
  std::size_t owner{0};  // of what it calls its home: itself, or the pool
  int before{0};         // lanes awake now
  int wanted{0};
  int given{0};
  std::span<int> room;              // for the CPUs that it is given, in that order
  std::span<int> held;              // on loan now, and not given yet
  std::size_t heldEnd{0};           // in the list of all, which begins where the one before ends
  const CpuSet* isolated{nullptr};  // what isolation keeps from it; null: nothing
  [[nodiscard]] std::span<const int> cpus() const { return room.first(at(given)); }
};

int lanesNow(const GroupState& group) {
  int lanes = 0;
  for (const ContainerState& container : group.containers) lanes += container.awakeLoanLanes;
  return lanes;
}

// All CPUs that are lent: in rounds, by the loans given on them so far, and within a round in lots, by their owner's use.
class Lender {
 public:
  Lender(const Layout& layout, HomeMap& homes, const std::vector<LoanParty>& parties)
      : layout_(layout), homes_(homes), parties_(parties), lent_(layout.usable), loans_(layout.positions.size(), 0), lotOf_(parties.size() + 2) {
    // Above the owner's index, which has so many bits, the permille of its entitlement that is in demand.
    constexpr int kOwnerBits = 40;
    std::vector<std::uint64_t> uses{homes.nobody()};
    uses.reserve(parties.size() + 2);
    const auto add = [&](std::size_t owner, std::int64_t demand, std::int64_t entitled, bool lends) {
      if (lends) {
        const std::int64_t busy = demand <= 0 ? 0 : demand >= entitled ? kCpu : demand * kCpu / entitled;
        uses.push_back((static_cast<std::uint64_t>(busy) << kOwnerBits) + owner);
      } else {
        lent_ -= homes.homeOf(owner);
      }
    };
    std::int64_t poolDemand = 0;
    std::int64_t poolEntitled = 0;
    bool poolLends = true;
    for (std::size_t i = 0; i < parties.size(); ++i) {
      const GroupTarget& target = *parties[i].target;
      if (target.pending) continue;
      const GroupState& group = *parties[i].group;
      anyIsolated_ = anyIsolated_ || isolated(group);
      if (!target.inPool) {
        add(i, group.demand.value, target.entitlement.value, group.lend != Lend::Never);
        continue;
      }
      poolDemand += group.demand.value;
      poolEntitled += target.entitlement.value;
      poolLends = poolLends && group.lend != Lend::Never;
    }
    add(homes.pool(), poolDemand, poolEntitled, poolLends);
    std::sort(uses.begin(), uses.end());
    lots_.reserve(uses.size());
    owners_.reserve(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      if (i == 0 || uses[i] >> kOwnerBits != uses[i - 1] >> kOwnerBits) lots_.push_back({i, i, -1});
      ++lots_.back().end;
      const std::size_t owner = uses[i] & ((std::uint64_t{1} << kOwnerBits) - 1);
      lotOf_[owner] = static_cast<int>(lots_.size()) - 1;
      owners_.push_back(owner);
    }
    rounds_.push_back({lent_, lent_ & cpusOf(lots_.front()), 0});
    advance(rounds_.front());
  }

  [[nodiscard]] const CpuSet& lent() const { return lent_; }
  [[nodiscard]] bool anyIsolated() const { return anyIsolated_; }

  // Across tenants nobody who is isolated lends or borrows; within one, an isolated borrower keeps to units that are its tenant's as a whole, for
  // which the owner's isolation must be as wide as its own.
  [[nodiscard]] CpuSet closedFor(const GroupState& group) const {
    CpuSet closed;
    if (isolated(group)) closed = lent_;  // the pool's and nobody's too
    for (std::size_t owner = 0; owner < parties_.size(); ++owner) {
      const GroupState& other = *parties_[owner].group;
      if (mayTouch(group, other) && other.isolation >= group.isolation) {
        closed -= homes_.homeOf(owner);
      } else if (isolated(other)) {
        closed |= homes_.homeOf(owner);
      }
    }
    return closed;
  }

  // The owner of the last of these CPUs in domain order, invalid if it is the pool or nobody.
  [[nodiscard]] GroupId ownerOfLast(const CpuSet& cpus) const {
    int last = -1;
    for (const int id : cpus) last = std::max(last, layout_.positionOf(id));
    const std::size_t owner = last < 0 ? homes_.nobody() : homes_.ownerOf(layout_.ids[at(last)]);
    return owner < parties_.size() ? parties_[owner].group->id : GroupId{};
  }

  // May this CPU be lent to it at all?
  [[nodiscard]] bool mayHave(const Borrower& borrower, int cpu) const {
    return lent_.contains(cpu) && homes_.ownerOf(cpu) != borrower.owner && !(borrower.isolated && borrower.isolated->contains(cpu));
  }

  // One more lane for the borrower, if a CPU is left for it.
  void lendOne(Borrower& borrower) {
    const int cpu = borrower.held.empty() ? firstOpen(borrower) : takeHeld(borrower);
    if (cpu < 0) return;
    borrower.room[at(borrower.given++)] = cpu;
    const std::size_t lot = at(lotOf(cpu));
    const std::size_t loans = at(loans_[at(cpu)]++);
    if (loans + 1 == rounds_.size()) rounds_.push_back({{}, {}, lots_.size()});
    Round& round = rounds_[loans];
    round.cpus.remove(cpu);
    if (lot == round.first) {
      round.front.remove(cpu);
      advance(round);
    }
    Round& next = rounds_[loans + 1];
    next.cpus.add(cpu);
    if (lot < next.first) {
      next.front.clear();
      next.first = lot;
    }
    if (lot == next.first) next.front.add(cpu);
  }

 private:
  // Owners of equal use: [begin, end) of owners_.
  struct Lot {
    std::size_t begin;
    std::size_t end;
    int cpus{-1};  // of several owners, once it was asked for: index into lotCpus_
  };
  struct Round {
    CpuSet cpus;        // with as many loans as its number says
    CpuSet front;       // of them, those of the first lot that has any
    std::size_t first;  // that lot; the number of lots: none has
  };

  [[nodiscard]] int lotOf(int cpu) const { return lotOf_[homes_.ownerOf(cpu)]; }

  [[nodiscard]] const CpuSet& cpusOf(Lot& lot) {
    if (lot.end - lot.begin == 1) return homes_.homeOf(owners_[lot.begin]);
    if (lot.cpus < 0) {
      lot.cpus = static_cast<int>(lotCpus_.size());
      CpuSet& cpus = lotCpus_.emplace_back();
      for (std::size_t i = lot.begin; i < lot.end; ++i) cpus |= homes_.homeOf(owners_[i]);
    }
    return lotCpus_[at(lot.cpus)];
  }

  // On to the next lot, if the first one has nothing left in the round.
  void advance(Round& round) {
    while (round.first < lots_.size() && round.front.empty()) {
      if (++round.first < lots_.size()) (round.front = round.cpus) &= cpusOf(lots_[round.first]);
    }
  }

  // Of these, what the borrower may be lent and has not.
  [[nodiscard]] bool findIn(const CpuSet& cpus, const Borrower& borrower) {
    found_ = cpus;
    found_ -= homes_.homeOf(borrower.owner);
    if (borrower.isolated) found_ -= *borrower.isolated;
    for (const int cpu : borrower.cpus()) found_.remove(cpu);
    return !found_.empty();
  }

  [[nodiscard]] int firstOpen(const Borrower& borrower) {
    for (const Round& round : rounds_) {
      if (round.first == lots_.size()) continue;
      if (findIn(round.front, borrower)) return homes_.nearestTo(layout_, borrower.owner, found_);
      if (!findIn(round.cpus, borrower)) continue;
      std::size_t lot = round.first;
      while (!cpusOf(lots_[lot]).intersects(found_)) ++lot;
      found_ &= cpusOf(lots_[lot]);
      return homes_.nearestTo(layout_, borrower.owner, found_);
    }
    return -1;
  }

  // It has few: they are looked up one by one.
  [[nodiscard]] int takeHeld(Borrower& borrower) {
    const auto place = [&](int cpu) { return std::pair(loans_[at(cpu)], lotOf(cpu)); };
    int first = borrower.held.front();
    bool alone = true;
    for (const int cpu : borrower.held.subspan(1)) {
      const auto here = place(cpu), best = place(first);
      alone = here < best || (alone && here != best);
      if (here < best) first = cpu;
    }
    if (!alone) {
      CpuSet equals;
      for (const int cpu : borrower.held) {
        if (place(cpu) == place(first)) equals.add(cpu);
      }
      first = homes_.nearestTo(layout_, borrower.owner, equals);
    }
    *std::find(borrower.held.begin(), borrower.held.end(), first) = borrower.held.back();
    borrower.held = borrower.held.first(borrower.held.size() - 1);
    return first;
  }

  const Layout& layout_;
  HomeMap& homes_;
  const std::vector<LoanParty>& parties_;
  CpuSet lent_;
  bool anyIsolated_{false};
  std::vector<int> loans_;           // per CPU id: given so far
  std::vector<int> lotOf_;           // per owner
  std::vector<std::size_t> owners_;  // those that lend, by use
  std::vector<Lot> lots_;
  std::vector<CpuSet> lotCpus_;
  std::vector<Round> rounds_;
  CpuSet found_;  // scratch
};

// Only apps have lanes.
bool mayBorrow(const ContainerState& container) { return container.role == ContainerRole::App; }

// How many loan lanes the group shall have awake, from its demand and what it has now.
int wantedLanes(const LoanParty& party, int now, const Snapshot& snapshot, const Config& config, std::optional<Instant>& again) {
  const GroupState& group = *party.group;
  const int existing = group.loanLanes * static_cast<int>(std::count_if(group.containers.begin(), group.containers.end(), mayBorrow));
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
  const auto assign = [&](std::size_t container, int cpu) {
    targets[container].loans.add(cpu);
    ++targets[container].awakeLoanLanes;
  };
  for (const int cpu : borrower.cpus()) {
    std::size_t keeper = group.containers.size();
    for (std::size_t c = 0; c < group.containers.size() && keeper == group.containers.size(); ++c) {
      if (mayBorrow(group.containers[c]) && group.containers[c].loans.contains(cpu) && targets[c].awakeLoanLanes < group.loanLanes) keeper = c;
    }
    if (keeper < group.containers.size()) assign(keeper, cpu);
  }
  for (const int cpu : borrower.cpus()) {
    const auto has = [cpu](const ContainerTarget& target) { return target.loans.contains(cpu); };
    if (std::any_of(targets.begin(), targets.end(), has)) continue;
    std::size_t least = targets.size();
    for (std::size_t c = 0; c < targets.size(); ++c) {
      if (!mayBorrow(group.containers[c])) continue;
      if (least == targets.size() || targets[c].awakeLoanLanes < targets[least].awakeLoanLanes) least = c;
    }
    assign(least, cpu);  // there is one: no lane is wanted without
  }
}

// What it has on loan and may keep, added to these.
void addHeld(const Borrower& borrower, const GroupState& group, const Lender& lender, std::vector<int>& held) {
  const auto begin = static_cast<std::ptrdiff_t>(held.size());
  for (const ContainerState& container : group.containers) {
    for (const int cpu : container.loans) {
      if (lender.mayHave(borrower, cpu) && std::find(held.begin() + begin, held.end(), cpu) == held.end()) held.push_back(cpu);
    }
  }
}

// What borrowers refer to, one after the other.
struct Rooms {
  std::vector<int> cpus;
  std::vector<int> held;
  std::vector<CpuSet> isolated;
};

void prepare(std::vector<Borrower>& borrowers, std::size_t lanes, const std::vector<LoanParty>& parties, const Lender& lender, Rooms& rooms) {
  rooms.cpus.resize(lanes);
  rooms.held.reserve(lanes);
  if (lender.anyIsolated()) rooms.isolated.reserve(borrowers.size());
  std::span<int> left(rooms.cpus);
  for (Borrower& borrower : borrowers) {
    const GroupState& group = *parties[borrower.party].group;
    borrower.room = left.first(at(borrower.wanted));
    left = left.subspan(at(borrower.wanted));
    if (lender.anyIsolated()) borrower.isolated = &rooms.isolated.emplace_back(lender.closedFor(group));
    addHeld(borrower, group, lender, rooms.held);
    borrower.heldEnd = rooms.held.size();
  }
  std::size_t begin = 0;
  for (Borrower& borrower : borrowers) {
    borrower.held = std::span(rooms.held).subspan(begin, borrower.heldEnd - begin);
    begin = borrower.heldEnd;
  }
}

// A lane of a borrower, in the line of all.
struct Turn {
  std::int64_t lanes;  // that the borrower has with this one
  std::int64_t weight;
  std::size_t borrower;
  // Compared crosswise: lanes / weight.
  bool operator<(const Turn& other) const {
    const std::int64_t mine = lanes * other.weight;
    const std::int64_t theirs = other.lanes * weight;
    return mine != theirs ? mine < theirs : borrower < other.borrower;
  }
};

// Lanes one at a time, each to the borrower that has least per weight.
void lendAll(std::vector<Borrower>& borrowers, std::size_t lanes, const std::vector<LoanParty>& parties, Lender& lender) {
  std::vector<Turn> turns;
  turns.reserve(lanes);
  for (std::size_t b = 0; b < borrowers.size(); ++b) {
    const GroupState& group = *parties[borrowers[b].party].group;
    const std::int64_t weight = std::max<std::int64_t>(1, group.tenantWeight) * std::max<std::int64_t>(1, group.weight);
    for (int lane = 1; lane <= borrowers[b].wanted; ++lane) turns.push_back({lane, weight, b});
  }
  std::sort(turns.begin(), turns.end());
  for (const Turn& turn : turns) {
    Borrower& borrower = borrowers[turn.borrower];
    if (borrower.given + 1 == turn.lanes) lender.lendOne(borrower);  // who got none before gets none now
  }
}

void sayOutcome(const Borrower& borrower, const GroupState& group, const Lender& lender, const HomeMap& homes, std::vector<Reason>& reasons) {
  if (borrower.given < borrower.wanted && lender.anyIsolated()) {
    const CpuSet refused = (lender.lent() & lender.closedFor(group)) - homes.homeOf(borrower.owner);
    if (!refused.empty())
      reasons.push_back({group.id, ReasonCode::LoanRefusedIsolation, borrower.wanted - borrower.given, 0, lender.ownerOfLast(refused)});
  }
  if (borrower.given > borrower.before) reasons.push_back({group.id, ReasonCode::LoanWoken, borrower.given - borrower.before, 0, {}});
  if (borrower.given < borrower.before) reasons.push_back({group.id, ReasonCode::LoanParked, borrower.before - borrower.given, 0, {}});
}

void sayIdle(const GroupState& group, int before, const Config& config, std::vector<Reason>& reasons) {
  if (before > 0) reasons.push_back({group.id, ReasonCode::LoanParked, before, 0, {}});
  if (!config.lending && group.queuedBeyondOwnLanes && group.loanLanes > 0) reasons.push_back({group.id, ReasonCode::LendingOff, 0, 0, {}});
}
}  // namespace

void planLoans(const Layout& layout, HomeMap& homes, const std::vector<LoanParty>& parties, const Snapshot& snapshot, const Config& config,
               std::vector<Reason>& reasons, std::optional<Instant>& again) {
  std::vector<int> before(parties.size(), 0);
  std::vector<Borrower> borrowers;
  borrowers.reserve(parties.size());
  std::size_t lanes = 0;  // wanted by all
  for (std::size_t i = 0; i < parties.size(); ++i) {
    if (parties[i].target->pending) continue;
    before[i] = lanesNow(*parties[i].group);
    const int wanted = wantedLanes(parties[i], before[i], snapshot, config, again);
    if (wanted == 0) continue;
    Borrower& borrower = borrowers.emplace_back();
    borrower.party = i;
    borrower.owner = parties[i].target->inPool ? homes.pool() : i;
    borrower.before = before[i];
    borrower.wanted = wanted;
    lanes += at(wanted);
  }
  std::optional<Lender> lender;
  Rooms rooms;
  if (!borrowers.empty()) {
    lender.emplace(layout, homes, parties);
    prepare(borrowers, lanes, parties, *lender, rooms);
    lendAll(borrowers, lanes, parties, *lender);
  }
  auto next = borrowers.begin();
  for (std::size_t i = 0; i < parties.size(); ++i) {
    if (parties[i].target->pending) continue;
    if (next != borrowers.end() && next->party == i) {
      handOut(*next, parties[i]);
      sayOutcome(*next, *parties[i].group, *lender, homes, reasons);
      ++next;
    } else {
      sayIdle(*parties[i].group, before[i], config, reasons);
    }
  }
}

}  // namespace coterie::allocation
