#include "allocation/loans.h"

#include <algorithm>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Borrower {
  std::size_t party{0};
  int wanted{0};
  int given{0};
  std::int64_t weight{1};
  std::vector<int> cpus;     // positions, in the order they were given
  std::vector<int> closest;  // per position: how deep the nearest home CPU's common domain is
};

int lanesNow(const GroupState& group) {
  int lanes = 0;
  for (const ContainerState& container : group.containers) lanes += container.awakeLoanLanes;
  return lanes;
}

class Lender {
 public:
  Lender(const Layout& layout, const std::vector<LoanParty>& parties, const CpuSet& pool) : layout_(layout), owner_(layout.ids.size(), -1), given_(layout.ids.size(), 0) {
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
        for (const int position : layout.toPositions(container.home)) own(position, static_cast<int>(i), parties[i].group->demand.value, target.entitlement.value, parties[i].group->lend);
      }
    }
    for (const int position : layout.toPositions(pool)) own(position, kPool, poolDemand, poolEntitled, poolLends ? Lend::WhenIdle : Lend::Never);
  }

  // Would this CPU be somebody else's, and is it lent?
  [[nodiscard]] bool lends(int position, int party, bool inPool) const { return open_[at(position)] && owner_[at(position)] != (inPool ? kPool : party); }

  // One more lane for the borrower; false if no CPU is left for it.
  bool lendOne(Borrower& borrower, const LoanParty& party, const std::vector<bool>& hasNow) {
    int best = -1;
    for (int position = 0; position < layout_.size(); ++position) {
      if (!lends(position, static_cast<int>(borrower.party), party.target->inPool)) continue;
      if (std::find(borrower.cpus.begin(), borrower.cpus.end(), position) != borrower.cpus.end()) continue;
      if (best < 0 || better(position, best, borrower, hasNow)) best = position;
    }
    if (best < 0) return false;
    ++given_[at(best)];
    borrower.cpus.push_back(best);
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

  [[nodiscard]] bool better(int a, int b, const Borrower& borrower, const std::vector<bool>& hasNow) const {
    if (hasNow[at(a)] != hasNow[at(b)]) return hasNow[at(a)];
    if (given_[at(a)] != given_[at(b)]) return given_[at(a)] < given_[at(b)];
    if (busy_[at(a)] != busy_[at(b)]) return busy_[at(a)] < busy_[at(b)];
    if (borrower.closest[at(a)] != borrower.closest[at(b)]) return borrower.closest[at(a)] > borrower.closest[at(b)];
    return layout_.ids[at(a)] < layout_.ids[at(b)];
  }

  const Layout& layout_;
  std::vector<int> owner_;           // party index, kPool, or -1: nobody's home
  std::vector<std::int64_t> busy_;   // permille of its owner's entitlement in demand
  std::vector<int> given_;           // loans given on it so far
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
    borrowers.push_back({i, wanted, 0, std::max<std::int64_t>(1, group.tenantWeight) * std::max<std::int64_t>(1, group.weight), {}, closeness(layout, *parties[i].target)});
  }
  if (borrowers.empty()) return;

  Lender lender(layout, parties, pool);
  std::vector<std::vector<bool>> hasNow;
  for (const Borrower& borrower : borrowers) {
    std::vector<bool> has(layout.ids.size(), false);
    for (const ContainerState& container : parties[borrower.party].group->containers) {
      for (const int position : layout.toPositions(container.loans)) has[at(position)] = true;
    }
    hasNow.push_back(std::move(has));
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
    if (!lender.lendOne(borrower, parties[borrower.party], hasNow[next])) borrower.wanted = borrower.given;
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
