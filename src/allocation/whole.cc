// Whole CPUs from entitlements: see sizing.h.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "allocation/roles.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The claimants of one tenant, or the pool alone: leftovers are shared between blocs first.
struct Bloc {
  std::vector<int> members;   // claimant indices
  std::int64_t room{kNoCap};  // milli-CPUs that it may still own
};

std::vector<Bloc> blocsOf(const std::vector<Claimant>& claimants) {
  std::map<TenantId, Bloc> tenants;
  std::vector<Bloc> blocs;
  for (std::size_t i = 0; i < claimants.size(); ++i) {
    if (claimants[i].group >= 0) tenants[claimants[i].tenant].members.push_back(static_cast<int>(i));
  }
  for (auto& [tenant, bloc] : tenants) blocs.push_back(std::move(bloc));
  for (std::size_t i = 0; i < claimants.size(); ++i) {
    if (claimants[i].group < 0) blocs.push_back({{static_cast<int>(i)}, kNoCap});
  }
  return blocs;
}

class Counter {
 public:
  Counter(std::vector<Claimant>& claimants, const Layout& layout, const Supply& supply, std::int64_t keep)
      : claimants_(claimants), layout_(layout), supply_(supply), keep_(keep), remainders_(claimants.size()) {}

  void run() {
    shareEachKind();
    meetNeedsFromLeftovers();
    meetNeedsFromOthers();
    formBlocs();
    for (int kind = 0; kind < layout_.kindCount; ++kind) distribute(kind);
    if (layout_.kindCount < 2) return;
    for (std::size_t one = 0; one < claimants_.size(); ++one) {
      for (std::size_t other = 0; other < claimants_.size(); ++other) keepKinds(one, other);
    }
  }

 private:
  void shareEachKind() {
    for (int kind = 0; kind < layout_.kindCount; ++kind) left_[at(kind)] = supply_.cpusOfKind[at(kind)];
    std::int64_t claimed = 0;  // floors on slow cores may come to more than there is
    for (const Claimant& claimant : claimants_) claimed += claimant.entitlement;
    const std::int64_t whole = std::max<std::int64_t>({1, supply_.capacity, claimed});
    for (std::size_t i = 0; i < claimants_.size(); ++i) {
      for (int kind = 0; kind < layout_.kindCount; ++kind) {
        const std::int64_t share = kCpu * supply_.cpusOfKind[at(kind)] * claimants_[i].entitlement / whole;
        claimants_[i].cpus[at(kind)] = static_cast<int>(share / kCpu);
        remainders_[i][at(kind)] = share % kCpu;
        left_[at(kind)] -= claimants_[i].cpus[at(kind)];
      }
    }
  }

  void meetNeedsFromLeftovers() {
    for (std::size_t i = 0; i < claimants_.size(); ++i) {
      while (claimants_[i].total() < claimants_[i].need) {
        int best = -1;
        for (int kind = 0; kind < layout_.kindCount; ++kind) {
          if (left_[at(kind)] > 0 && (best < 0 || remainders_[i][at(kind)] > remainders_[i][at(best)])) best = kind;
        }
        if (best < 0) break;
        give(static_cast<int>(i), best);
      }
    }
  }

  // Nothing is left over: take from whoever has most beyond its entitlement and can do without.
  void meetNeedsFromOthers() {
    for (Claimant& taker : claimants_) {
      while (taker.total() < taker.need) {
        Claimant* donor = nullptr;
        for (Claimant& other : claimants_) {
          if (&other == &taker || other.total() <= other.need) continue;
          if (donor == nullptr || surplus(other) > surplus(*donor)) donor = &other;
        }
        if (donor == nullptr) break;
        int kind = layout_.kindCount - 1;
        while (kind > 0 && donor->cpus[at(kind)] == 0) --kind;
        --donor->cpus[at(kind)];
        ++taker.cpus[at(kind)];
        remainders_[at(static_cast<int>(donor - claimants_.data()))][at(kind)] += kCpu;
        remainders_[at(static_cast<int>(&taker - claimants_.data()))][at(kind)] -= kCpu;
      }
    }
  }

  [[nodiscard]] std::int64_t owned(const Claimant& claimant) const {
    std::int64_t capacity = 0;
    for (int kind = 0; kind < layout_.kindCount; ++kind) capacity += layout_.capacityOfKind[at(kind)] * claimant.cpus[at(kind)];
    return capacity;
  }
  [[nodiscard]] std::int64_t surplus(const Claimant& claimant) const { return owned(claimant) - claimant.entitlement; }

  // After the needs, which a tenant's limit does not hold back.
  void formBlocs() {
    blocs_ = blocsOf(claimants_);
    blocOf_.assign(claimants_.size(), 0);
    for (std::size_t b = 0; b < blocs_.size(); ++b) {
      std::int64_t& room = blocs_[b].room;
      for (const int member : blocs_[b].members) {
        blocOf_[at(member)] = static_cast<int>(b);
        room = std::min(room, claimants_[at(member)].tenantLimit);
      }
      if (room == kNoCap) continue;
      for (const int member : blocs_[b].members) room -= owned(claimants_[at(member)]);
    }
  }
  [[nodiscard]] Bloc& blocOf(std::size_t claimant) { return blocs_[at(blocOf_[claimant])]; }
  [[nodiscard]] bool hasRoom(const Bloc& bloc, int kind) const { return bloc.room >= layout_.capacityOfKind[at(kind)]; }

  void distribute(int kind) {
    while (left_[at(kind)] > 0) {
      const int best = bestBloc(kind);
      const int winner = best < 0 ? -1 : bestMember(blocs_[at(best)], kind);
      for (std::size_t i = 0; i < claimants_.size(); ++i) {
        if (static_cast<int>(i) == winner || remainders_[i][at(kind)] <= 0) continue;
        if (!hasRoom(blocOf(i), kind)) {
          claimants_[i].stoppedByCap = true;
        } else if (winner >= 0) {
          claimants_[i].refusedRemainder = remainders_[i][at(kind)];
          claimants_[i].winnersRemainder = remainders_[at(winner)][at(kind)];
        }
      }
      if (winner < 0) break;
      give(winner, kind);
      ++claimants_[at(winner)].granted[at(kind)];
      if (std::int64_t& room = blocs_[at(best)].room; room != kNoCap) room -= layout_.capacityOfKind[at(kind)];
    }
    carry(kind);
  }

  void give(int claimant, int kind) {
    ++claimants_[at(claimant)].cpus[at(kind)];
    --left_[at(kind)];
    remainders_[at(claimant)][at(kind)] -= kCpu;
  }

  [[nodiscard]] int bestBloc(int kind) const {
    int best = -1;
    std::int64_t bestKey = std::numeric_limits<std::int64_t>::min();
    bool bestHolds = false;
    for (std::size_t b = 0; b < blocs_.size(); ++b) {
      if (!hasRoom(blocs_[b], kind)) continue;
      std::int64_t remainder = 0;
      int held = 0;
      int counted = 0;
      for (const int member : blocs_[b].members) {
        remainder += remainders_[at(member)][at(kind)];
        held += claimants_[at(member)].held[at(kind)];
        counted += claimants_[at(member)].cpus[at(kind)];
      }
      if (remainder <= 0) continue;
      const bool holds = held > counted;
      const std::int64_t key = remainder + (holds ? keep_ : 0);
      if (key > bestKey || (key == bestKey && holds && !bestHolds)) best = static_cast<int>(b), bestKey = key, bestHolds = holds;
    }
    return best;
  }

  [[nodiscard]] int bestMember(const Bloc& bloc, int kind) const {
    int best = -1;
    std::int64_t bestKey = std::numeric_limits<std::int64_t>::min();
    bool bestHolds = false;
    for (const int member : bloc.members) {
      if (remainders_[at(member)][at(kind)] <= 0) continue;
      const bool holds = claimants_[at(member)].held[at(kind)] > claimants_[at(member)].cpus[at(kind)];
      const std::int64_t key = remainders_[at(member)][at(kind)] + (holds ? keep_ : 0);
      if (key > bestKey || (key == bestKey && holds && !bestHolds)) best = member, bestKey = key, bestHolds = holds;
    }
    return best;
  }

  // Two claimants of one CPU each that would exchange all they hold, one kind for another, stay where they are if their tenants' limits allow it: on
  // a full machine two tenants have no room for it.
  void keepKinds(std::size_t a, std::size_t b) {
    Claimant& one = claimants_[a];
    Claimant& other = claimants_[b];
    if (a == b || !uprooted(one) || !uprooted(other) || !holdsKindOf(one, other) || !holdsKindOf(other, one)) return;
    const std::int64_t gain = owned(other) - owned(one);
    Bloc& grows = blocOf(gain >= 0 ? a : b);
    Bloc& shrinks = blocOf(gain >= 0 ? b : a);
    const std::int64_t change = std::abs(gain);
    if (&grows != &shrinks && change > 0 && grows.room < change) return;
    std::swap(one.cpus, other.cpus);
    if (&grows == &shrinks) return;
    if (grows.room != kNoCap) grows.room -= change;
    if (shrinks.room != kNoCap) shrinks.room += change;
  }
  [[nodiscard]] bool uprooted(const Claimant& claimant) const { return claimant.total() == 1 && !holdsKindOf(claimant, claimant); }
  [[nodiscard]] bool holdsKindOf(const Claimant& holder, const Claimant& wanting) const {
    for (int kind = 0; kind < layout_.kindCount; ++kind) {
      if (wanting.cpus[at(kind)] > 0 && holder.held[at(kind)] > 0) return true;
    }
    return false;
  }

  // What this kind owes (or overpaid) counts in the next one, by capacity.
  void carry(int kind) {
    if (kind + 1 >= layout_.kindCount || layout_.capacityOfKind[at(kind + 1)] == 0) return;
    for (auto& remainder : remainders_) {
      remainder[at(kind + 1)] += remainder[at(kind)] * layout_.capacityOfKind[at(kind)] / layout_.capacityOfKind[at(kind + 1)];
    }
    for (std::size_t i = 0; i < claimants_.size(); ++i) giveBack(i, kind + 1);
  }

  // Who got more than a whole CPU of this kind too much in a faster one gives it back: else it would own more than it is entitled to by a CPU.
  void giveBack(std::size_t i, int kind) {
    while (remainders_[i][at(kind)] <= -kCpu && claimants_[i].cpus[at(kind)] > 0 && claimants_[i].total() > claimants_[i].need) {
      --claimants_[i].cpus[at(kind)];
      ++left_[at(kind)];
      remainders_[i][at(kind)] += kCpu;
    }
  }

  std::vector<Claimant>& claimants_;
  const Layout& layout_;
  const Supply& supply_;
  std::int64_t keep_;
  std::vector<std::array<std::int64_t, kMaxKinds>> remainders_;  // milli-CPUs of the kind; negative: overpaid
  std::array<int, kMaxKinds> left_{};
  std::vector<Bloc> blocs_;
  std::vector<int> blocOf_;  // per claimant
};
}  // namespace

int Claimant::total() const {
  int sum = 0;
  for (const int count : cpus) sum += count;
  return sum;
}

std::int64_t needOf(const GroupState& group, const UnitCounts& units) { return std::max(leastCpus(group), cpusForFloor(group, units)); }

namespace {
std::int64_t openNeedOf(const GroupState& group) { return std::max(leastCpus(group), cpusForFloor(group.floor)); }
}  // namespace

std::vector<bool> choosePool(const std::vector<const GroupState*>& groups, const std::vector<bool>& pending,
                             const std::vector<std::int64_t>& entitled, std::int64_t cpus) {
  std::vector<bool> pool(groups.size(), false);
  std::int64_t needs = 0;  // of the exclusive groups
  std::int64_t poolFloor = 0;
  bool anyPool = false;
  const auto join = [&](std::size_t i) {
    pool[i] = anyPool = true;
    poolFloor += std::max<std::int64_t>(groups[i]->floor.value, 0);
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (pending[i] || isolated(*groups[i])) continue;
    // A floor of whole CPUs is owned even where slow cores push the entitlement below a CPU.
    if (entitled[i] < kCpu * leastCpus(*groups[i]) && groups[i]->floor.value < kCpu) {
      join(i);
    } else {
      needs += openNeedOf(*groups[i]);
    }
  }
  const auto wanted = [&] { return needs + (anyPool ? std::max<std::int64_t>(1, cpusForFloor(MilliCpu(poolFloor))) : 0); };
  while (wanted() > cpus) {
    int least = -1;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (pending[i] || pool[i] || isolated(*groups[i]) || groups[i]->floor.value >= kCpu) continue;
      if (least < 0 || entitled[i] < entitled[at(least)]) least = static_cast<int>(i);
    }
    if (least < 0) break;
    needs -= openNeedOf(*groups[at(least)]);
    join(at(least));
  }
  return pool;
}

void countWhole(std::vector<Claimant>& claimants, const Layout& layout, const Supply& supply, std::int64_t keepLeftover) {
  for (Claimant& claimant : claimants) claimant.cpus = {}, claimant.granted = {}, claimant.stoppedByCap = false;
  const bool poolAlone = claimants.size() == 1 && claimants.front().group < 0;
  if (poolAlone) {
    claimants.front().cpus = supply.cpusOfKind;
    return;
  }
  Counter(claimants, layout, supply, keepLeftover).run();
}

}  // namespace coterie::allocation
