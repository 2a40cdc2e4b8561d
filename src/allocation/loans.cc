#include "allocation/loans.h"

#include <algorithm>

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
  std::vector<int> cpus;  // positions, in the order they were given
  bool refused{false};    // a CPU was closed to it for isolation, of this owner
  GroupId refusedBy;
  std::vector<std::int64_t> order;  // per position: what prefers it, apart from the loans given on it; kClosed: not for this borrower
};
constexpr std::int64_t kClosed = INT64_MAX;

// One number to compare by: has it now, loans given (added later), owner's use, distance, id; each field is below the next one's unit.
constexpr std::int64_t kDistanceUnit = std::int64_t{1} << 16;
constexpr std::int64_t kUseUnit = kDistanceUnit << 3;
constexpr std::int64_t kGivenUnit = kUseUnit << 10;
constexpr std::int64_t kNewUnit = kGivenUnit << 20;
static_assert(CpuSet::kMaxId <= kDistanceUnit && kLevels < 8);

int lanesNow(const GroupState& group) {
  int lanes = 0;
  for (const ContainerState& container : group.containers) lanes += container.awakeLoanLanes;
  return lanes;
}

class Lender {
 public:
  Lender(const Layout& layout, const std::vector<LoanParty>& parties, const CpuSet& pool)
      : layout_(layout), parties_(parties), owner_(layout.ids.size(), -1), given_(layout.ids.size(), 0) {
    busy_.assign(layout.ids.size(), 0);
    open_.assign(layout.ids.size(), true);
    std::int64_t poolDemand = 0;
    std::int64_t poolEntitled = 0;
    bool poolLends = true;
    for (std::size_t i = 0; i < parties.size(); ++i) {
      const GroupTarget& target = *parties[i].target;
      if (target.inPool) {
        poolDemand += parties[i].group->demand.value;
        poolEntitled += target.entitlement.value;
        poolLends = poolLends && parties[i].group->lend != Lend::Never;
        continue;
      }
      for (const ContainerTarget& container : target.containers) {
        for (const int position : layout.toPositions(container.home))
          own(position, static_cast<int>(i), parties[i].group->demand.value, target.entitlement.value, parties[i].group->lend);
      }
    }
    for (const int position : layout.toPositions(pool)) own(position, kPool, poolDemand, poolEntitled, poolLends ? Lend::WhenIdle : Lend::Never);
  }

  // The borrower's preference over all CPUs; closed are its own home and what is not lent.
  [[nodiscard]] std::vector<std::int64_t> orderFor(std::size_t party, bool inPool, const std::vector<int>& depth,
                                                   const std::vector<char>& hasNow) const {
    std::vector<std::int64_t> order(owner_.size(), kClosed);
    for (std::size_t position = 0; position < order.size(); ++position) {
      if (!open_[position] || owner_[position] == (inPool ? kPool : static_cast<int>(party))) continue;
      order[position] =
          (hasNow[position] != 0 ? 0 : kNewUnit) + busy_[position] * kUseUnit + (kLevels - depth[position]) * kDistanceUnit + layout_.ids[position];
    }
    return order;
  }

  // Across tenants nobody who is isolated lends or borrows; within one, an isolated borrower keeps to units that are its tenant's as a whole, for
  // which the owner's isolation must be as wide as its own.
  void closeForIsolation(Borrower& borrower) const {
    const GroupState& group = *parties_[borrower.party].group;
    for (std::size_t position = 0; position < borrower.order.size(); ++position) {
      const GroupState* owner = owner_[position] >= 0 ? parties_[at(owner_[position])].group : nullptr;
      const bool open = owner == nullptr ? !isolated(group) : mayTouch(group, *owner) && owner->isolation >= group.isolation;
      if (open || borrower.order[position] == kClosed) continue;
      borrower.order[position] = kClosed;
      borrower.refusedBy = owner == nullptr ? GroupId{} : owner->id;
      borrower.refused = true;
    }
  }

  // One more lane for the borrower; false if no CPU is left for it.
  bool lendOne(Borrower& borrower) {
    std::size_t best = 0;
    std::int64_t least = kClosed;
    for (std::size_t position = 0; position < borrower.order.size(); ++position) {
      if (borrower.order[position] == kClosed) continue;
      const std::int64_t key = borrower.order[position] + given_[position] * kGivenUnit;
      if (key < least) best = position, least = key;
    }
    if (least == kClosed) return false;
    ++given_[best];
    borrower.order[best] = kClosed;
    borrower.cpus.push_back(static_cast<int>(best));
    ++borrower.given;
    return true;
  }

 private:
  static constexpr int kPool = -2;

  void own(int position, int owner, std::int64_t demand, std::int64_t entitled, Lend lend) {
    owner_[at(position)] = owner;
    open_[at(position)] = lend != Lend::Never;
    busy_[at(position)] = std::clamp<std::int64_t>(demand * kCpu / std::max<std::int64_t>(1, entitled), 0, kCpu);
  }

  const Layout& layout_;
  const std::vector<LoanParty>& parties_;
  std::vector<int> owner_;           // party index, kPool, or -1: nobody's home
  std::vector<std::int64_t> busy_;   // permille of its owner's entitlement in demand
  std::vector<std::int64_t> given_;  // loans given on it so far
  std::vector<bool> open_;
};

std::vector<int> closeness(const Layout& layout, const GroupTarget& target) {
  std::vector<int> depth(layout.ids.size(), 0);
  for (const ContainerTarget& container : target.containers) {
    for (const int home : layout.toPositions(container.home)) {
      for (int level = 1; level < kLevels; ++level) {
        const Layout::Branch& branch = layout.branches[at(layout.paths[at(home)][at(level)])];
        for (int position = branch.begin; position < branch.end; ++position) depth[at(position)] = std::max(depth[at(position)], level);
      }
    }
  }
  return depth;
}

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
void handOut(const Layout& layout, const Borrower& borrower, const LoanParty& party) {
  const GroupState& group = *party.group;
  std::vector<ContainerTarget>& targets = party.target->containers;
  std::vector<int> left;
  const auto assign = [&](std::size_t container, int position) {
    targets[container].loans.add(layout.ids[at(position)]);
    ++targets[container].awakeLoanLanes;
  };
  for (const int position : borrower.cpus) {
    std::size_t keeper = group.containers.size();
    for (std::size_t c = 0; c < group.containers.size() && keeper == group.containers.size(); ++c) {
      if (group.containers[c].loans.contains(layout.ids[at(position)]) && targets[c].awakeLoanLanes < group.loanLanes) keeper = c;
    }
    if (keeper < group.containers.size()) {
      assign(keeper, position);
    } else {
      left.push_back(position);
    }
  }
  for (const int position : left) {
    std::size_t least = 0;
    for (std::size_t c = 1; c < targets.size(); ++c) {
      if (targets[c].awakeLoanLanes < targets[least].awakeLoanLanes) least = c;
    }
    assign(least, position);
  }
}
}  // namespace

void planLoans(const Layout& layout, const std::vector<LoanParty>& parties, const CpuSet& pool, const Snapshot& snapshot, const Config& config,
               std::vector<Reason>& reasons, std::optional<Instant>& again) {
  std::vector<Borrower> borrowers;
  for (std::size_t i = 0; i < parties.size(); ++i) {
    const GroupState& group = *parties[i].group;
    const int wanted = wantedLanes(parties[i], snapshot, config, again);
    if (wanted == 0) {
      if (lanesNow(group) > 0) reasons.push_back({group.id, ReasonCode::LoanParked, lanesNow(group), 0, {}});
      if (!config.lending && group.queuedBeyondOwnLanes && group.loanLanes > 0) reasons.push_back({group.id, ReasonCode::LendingOff, 0, 0, {}});
      continue;
    }
    Borrower borrower;
    borrower.party = i;
    borrower.wanted = wanted;
    borrower.weight = std::max<std::int64_t>(1, group.tenantWeight) * std::max<std::int64_t>(1, group.weight);
    borrowers.push_back(std::move(borrower));
  }
  if (borrowers.empty()) return;

  Lender lender(layout, parties, pool);
  for (Borrower& borrower : borrowers) {
    const LoanParty& party = parties[borrower.party];
    std::vector<char> hasNow(layout.ids.size(), 0);
    for (const ContainerState& container : party.group->containers) {
      for (const int id : container.loans) {
        if (const int position = layout.positionOf(id); position >= 0) hasNow[at(position)] = 1;
      }
    }
    borrower.order = lender.orderFor(borrower.party, party.target->inPool, closeness(layout, *party.target), hasNow);
    lender.closeForIsolation(borrower);
  }
  while (true) {
    std::size_t next = borrowers.size();
    for (std::size_t b = 0; b < borrowers.size(); ++b) {
      if (borrowers[b].given >= borrowers[b].wanted) continue;
      // Least per weight: (given+1)/weight, compared crosswise.
      if (next == borrowers.size() || (borrowers[b].given + 1) * borrowers[next].weight < (borrowers[next].given + 1) * borrowers[b].weight) next = b;
    }
    if (next == borrowers.size()) break;
    Borrower& borrower = borrowers[next];
    if (lender.lendOne(borrower)) continue;
    if (borrower.refused)
      reasons.push_back(
          {parties[borrower.party].group->id, ReasonCode::LoanRefusedIsolation, borrower.wanted - borrower.given, 0, borrower.refusedBy});
    borrower.wanted = borrower.given;
  }
  for (const Borrower& borrower : borrowers) {
    handOut(layout, borrower, parties[borrower.party]);
    const GroupState& group = *parties[borrower.party].group;
    const int before = lanesNow(group);
    if (borrower.given > before) reasons.push_back({group.id, ReasonCode::LoanWoken, borrower.given - before, 0, {}});
    if (borrower.given < before) reasons.push_back({group.id, ReasonCode::LoanParked, before - borrower.given, 0, {}});
  }
}

}  // namespace coterie::allocation
