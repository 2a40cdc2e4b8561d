#include "allocation/claims.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "allocation/floor_room.h"
#include "allocation/unit_packing.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Claiming {
 public:
  Claiming(const Problem& problem, const std::vector<const GroupState*>& groups, const std::vector<bool>& pinned)
      : problem_(problem), layout_(problem.layout), groups_(groups), pinned_(pinned) {}

  Claims run() {
    if (std::any_of(groups_.begin(), groups_.end(), [](const GroupState* group) { return isolated(*group); })) claims_.units = UnitCounts(layout_);
    claims_.pending = choosePending(groups_, FloorRoom(layout_, claims_.units));
    if (!claim()) letWait();
    countOpen();
    return std::move(claims_);
  }

 private:
  // Who claims what; false if those who stay where they are leave no units that suffice.
  bool claim() {
    constexpr int kTries = 8;
    given_.clear();
    std::vector<UnitClaim> claims;
    // What did not come about at once is chosen again by whoever holds it: with the next plan, or at once.
    for (int tries = 0; tries < kTries; ++tries) {
      const Found found = findUnits(claims);
      if (found == Found::Nothing) return false;
      if (claims.empty()) break;
      shareWhatIsLeft(claims);
      if ((!grantLeft(claims) && found == Found::AtOnce) || !give(claims)) break;
    }
    claims_.unitOwner.assign(layout_.ids.size(), kFree);
    claims_.unitsRooted = false;
    if (!claims.empty()) takeUnits(claims);
    return true;
  }

  // Units may come to more or less than was asked for: the others share what is really left.
  void shareWhatIsLeft(std::vector<UnitClaim>& claims) {
    claims_.wantedCpus.assign(groups_.size(), 0);
    std::vector<std::int64_t> inUnits = claims_.sizing.milli;
    for (UnitClaim& claim : claims) {
      claim.claimant = claims_.claimants[at(claim.claimant)].group;
      claims_.wantedCpus[at(claim.claimant)] = std::max(claim.wanted, claim.need);
      inUnits[at(claim.claimant)] = capacityOf(claim.cpus);
    }
    size(inUnits, cpusOf(claims));
    for (UnitClaim& claim : claims) claim.claimant = claims_.claimantOf[at(claim.claimant)];
  }

  // Whole units that nobody is entitled to go by largest remainder, as CPUs do among those who are not isolated. Not on machines with several kinds
  // of CPU: what a group is entitled to is then in units of whatever kind it holds, and would not be the same once it held another's more.
  // False: nobody was granted any.
  bool grantLeft(std::vector<UnitClaim>& claims) const {
    if (layout_.kindCount > 1) return false;
    bool any = false;
    std::int64_t idle = layout_.capacity;
    for (const std::int64_t milli : claims_.sizing.milli) idle -= milli;
    int cpus = layout_.size() - cpusOf(claims);
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) cpus -= isIsolated(c) ? 0 : static_cast<int>(claims_.claimants[c].need);
    std::vector<bool> sated(claims.size(), false);
    for (std::size_t best = mostLacking(claims, sated); best < claims.size() && idle > 0; best = mostLacking(claims, sated)) {
      UnitClaim& claim = claims[best];
      const int ceiling = ceilingOf(claim) - static_cast<int>(claim.cpus.size());
      const std::size_t had = claim.cpus.size();
      const std::int64_t before = capacityOf(claim.cpus);
      if (!addUnit(claims, best, layout_, claims_.holders, {std::min(cpus, ceiling), std::min(idle, underCap(claims, claim))})) {
        sated[best] = true;
        continue;
      }
      any = true;
      claim.wanted += static_cast<int>(claim.cpus.size() - had);
      cpus -= static_cast<int>(claim.cpus.size() - had);
      idle -= capacityOf(claim.cpus) - before;
    }
    return any;
  }

  // What the tenant's cap leaves beside its units and what its other groups are entitled to.
  [[nodiscard]] std::int64_t underCap(const std::vector<UnitClaim>& claims, const UnitClaim& claim) const {
    const int tenant = claims_.sizing.tenantOf[at(claims_.claimants[at(claim.claimant)].group)];
    std::int64_t left = claims_.sizing.tenants[at(tenant)].limit;
    if (left == kNoCap) return left;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      left -= claims_.sizing.tenantOf[g] == tenant && !isolated(*groups_[g]) ? claims_.sizing.milli[g] : 0;
    for (const UnitClaim& one : claims) left -= tenantOf(one) == tenantOf(claim) ? capacityOf(one.cpus) : 0;
    return left;
  }

  [[nodiscard]] std::size_t mostLacking(const std::vector<UnitClaim>& claims, const std::vector<bool>& sated) const {
    std::size_t best = claims.size();
    std::int64_t bestRemainder = 0;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (sated[i] || claims[i].pinned) continue;
      const std::int64_t remainder = claims_.sizing.plain[at(claims_.claimants[at(claims[i].claimant)].group)] - capacityOf(claims[i].cpus);
      if (best == claims.size() || remainder > bestRemainder) best = i, bestRemainder = remainder;
    }
    return best;
  }
  // CPUs in the units that its ceiling comes to.
  [[nodiscard]] int ceilingOf(const UnitClaim& claim) const {
    const MilliCpu ceiling = groups_[at(claims_.claimants[at(claim.claimant)].group)]->ceiling;
    return static_cast<int>(claims_.units.least(claim.isolation, std::min<std::int64_t>(layout_.size(), cpusForFloor(ceiling))));
  }
  [[nodiscard]] std::int64_t capacityOf(const std::vector<int>& positions) const {
    std::int64_t capacity = 0;
    for (const int position : positions) capacity += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
    return capacity;
  }
  [[nodiscard]] TenantId tenantOf(const UnitClaim& claim) const { return claims_.claimants[at(claim.claimant)].tenant; }

  enum class Found { Nothing, AtOnce, WithCare };
  Found findUnits(std::vector<UnitClaim>& claims) {
    atLeast_.clear();
    size({});
    claims = unitClaims();
    if (claims.empty() || choose(claims)) return Found::AtOnce;
    while (admitLarger(claims)) {
      size({});
      claims = unitClaims();
      if (choose(claims)) return Found::WithCare;
    }
    return startFromKnown(claims) ? Found::WithCare : Found::Nothing;
  }

  // As if everybody held the units chosen. False: they are what was given already.
  bool give(const std::vector<UnitClaim>& claims) {
    std::vector<std::vector<int>> units(groups_.size());
    for (const UnitClaim& claim : claims) units[at(claims_.claimants[at(claim.claimant)].group)] = claim.cpus;
    if (units == given_) return false;
    given_ = std::move(units);
    return true;
  }

  static int cpusOf(const std::vector<UnitClaim>& claims) {
    std::size_t cpus = 0;
    for (const UnitClaim& claim : claims) cpus += claim.cpus.size();
    return static_cast<int>(cpus);
  }

  // False if somebody's floor is not met by the units, or those of the others not by what they leave.
  bool choose(std::vector<UnitClaim>& claims) const {
    const auto again = [&] {
      for (UnitClaim& claim : claims) claim.cpus.clear();
      chooseUnits(claims, layout_, claims_.holders);
    };
    again();
    while (keepWithinCap(claims)) again();
    const bool met = std::all_of(claims.begin(), claims.end(), [](const UnitClaim& claim) {
      return !claim.cpus.empty() && (claim.pinned || static_cast<int>(claim.cpus.size()) >= claim.need);
    });
    return met && cpusOf(claims) + openFloors().count().cpus() <= layout_.size();
  }

  // Somebody's floor has come to larger units than it was counted in: so it is counted, and the others are entitled to less. False: nobody's has.
  bool admitLarger(const std::vector<UnitClaim>& claims) {
    bool more = false;
    std::int64_t cpus = openFloors().count().cpus();
    for (const UnitClaim& claim : claims) {
      const auto has = static_cast<int>(claim.cpus.size());
      const std::size_t group = at(claims_.claimants[at(claim.claimant)].group);
      const std::int64_t least = cpusForFloor(*groups_[group], claims_.units);
      if (has > claim.wanted && has > least) {
        if (atLeast_.empty()) atLeast_.assign(groups_.size(), 0);
        more = more || atLeast_[group] < has * kCpu;
        atLeast_[group] = std::max(atLeast_[group], has * kCpu);
      }
      cpus += atLeast_.empty() ? least : std::max(least, atLeast_[group] / kCpu);
    }
    return more && cpus <= layout_.size();
  }

  [[nodiscard]] FloorRoom openFloors() const {
    FloorRoom open(layout_, claims_.units);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!claims_.pending[g] && !isolated(*groups_[g])) open.add(*groups_[g]);
    }
    return open;
  }

  // Units differ in size, and what everybody has and is entitled to does not go together. Somebody's floor comes first: there are units for all of
  // them (choosePending), and from these each takes what it is entitled to, if that goes; else they are what it gets.
  bool startFromKnown(std::vector<UnitClaim>& claims) const {
    if (std::any_of(claims.begin(), claims.end(), [](const UnitClaim& claim) { return claim.pinned; })) return false;
    FloorRoom room = openFloors();
    std::vector<std::vector<int>> held;
    for (const UnitClaim& claim : claims) {
      room.add(*groups_[at(claims_.claimants[at(claim.claimant)].group)]);
      held.push_back(claim.held);
    }
    const std::optional<UnitPacking> known = room.units(held);
    if (!known) return false;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      claims[i].held.clear();
      for (const int unit : known->units[i]) {
        for (int position = layout_.branches[at(unit)].begin; position < layout_.branches[at(unit)].end; ++position)
          claims[i].held.push_back(position);
      }
      std::sort(claims[i].held.begin(), claims[i].held.end());
    }
    if (choose(claims)) return true;
    for (UnitClaim& claim : claims) claim.cpus = claim.held;
    return true;
  }

  // Units of different sizes may come to more than was asked for: where that passes the tenant's cap, one of its groups with more than its floor
  // takes that and no more. True if there is one; its units, and so everybody's, are to be chosen again.
  bool keepWithinCap(std::vector<UnitClaim>& claims) const {
    std::map<TenantId, std::int64_t> all = owned(claims);
    for (auto claim = claims.rbegin(); claim != claims.rend(); ++claim) {
      const Claimant& claimant = claims_.claimants[at(claim->claimant)];
      if (claim->pinned || claim->wanted <= claim->need || static_cast<int>(claim->cpus.size()) <= claim->need) continue;
      if (claimant.tenantLimit == kNoCap || all[claimant.tenant] <= claimant.tenantLimit) continue;
      claim->wanted = claim->need;
      return true;
    }
    return false;
  }

  // Per tenant: its units, and what the others of its groups that own CPUs cannot do without.
  [[nodiscard]] std::map<TenantId, std::int64_t> owned(const std::vector<UnitClaim>& claims) const {
    std::map<TenantId, std::int64_t> all;
    for (const UnitClaim& claim : claims) all[tenantOf(claim)] += capacityOf(claim.cpus);
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (claims_.claimants[c].group >= 0 && !isIsolated(c))
        all[claims_.claimants[c].tenant] += std::min(claims_.claimants[c].entitlement, claims_.claimants[c].need * kCpu);
    }
    return all;
  }

  // unitCpus: CPUs in the units of isolated groups, once they are known.
  void size(const std::vector<std::int64_t>& inUnits, std::int64_t unitCpus = 0) {
    if (inUnits.empty()) {
      for (std::size_t g = 0; g < groups_.size(); ++g)
        unitCpus += !claims_.pending[g] && isolated(*groups_[g]) ? cpusForFloor(*groups_[g], claims_.units) : 0;
    }
    claims_.sizing = entitlements(groups_, claims_.pending, layout_.capacity, layout_.grain(), claims_.units, inUnits, atLeast_);
    claims_.inPool = choosePool(groups_, claims_.pending, claims_.sizing.milli, layout_.size() - unitCpus);
    claims_.claimants.clear();
    claims_.pool = kFree;
    makeClaimants();
    findHolders();
  }

  [[nodiscard]] bool isIsolated(std::size_t claimant) const { return ownsUnits(claims_, groups_, claimant); }

  [[nodiscard]] std::vector<UnitClaim> unitClaims() const {
    std::vector<UnitClaim> claims;
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (!isIsolated(c)) continue;
      const GroupState& group = *groups_[at(claims_.claimants[c].group)];
      UnitClaim claim;
      claim.claimant = static_cast<int>(c);
      claim.isolation = group.isolation;
      claim.pinned = pinned_[at(claims_.claimants[c].group)];
      claim.need = static_cast<int>(std::max<std::int64_t>(1, cpusForFloor(group.floor)));
      claim.wanted = static_cast<int>(claims_.claimants[c].entitlement / kCpu);
      if (!given_.empty()) {
        claim.held = given_[at(claims_.claimants[c].group)];
      } else {
        for (int position = 0; position < layout_.size(); ++position) {
          if (claims_.holders[at(position)] == claim.claimant) claim.held.push_back(position);
        }
      }
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  void takeUnits(const std::vector<UnitClaim>& claims) {
    claims_.unitsRooted =
        std::any_of(claims.begin(), claims.end(), [](const UnitClaim& one) { return static_cast<int>(one.cpus.size()) != one.wanted; });
    for (const UnitClaim& claim : claims) {
      for (const int position : claim.cpus) {
        const int kind = layout_.kinds[at(position)];
        claims_.unitOwner[at(position)] = claim.claimant;
        ++claims_.claimants[at(claim.claimant)].cpus[at(kind)];
        const int holder = claims_.holders[at(position)];
        if (holder != kFree && holder != claim.claimant) --claims_.claimants[at(holder)].held[at(kind)];
      }
    }
  }

  // Those who cannot leave their units are in others' way: who holds nothing waits first, who is in the way himself last; the youngest of the lowest
  // band first.
  [[nodiscard]] std::vector<std::size_t> orderOfWaiting() const {
    std::vector<std::size_t> order;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!claims_.pending[g]) order.push_back(g);
    }
    const auto key = [&](std::size_t g) {
      const GroupState& group = *groups_[g];
      const bool holds = std::any_of(group.containers.begin(), group.containers.end(), [](const ContainerState& one) { return !one.home.empty(); });
      return std::tuple(pinned_[g], holds, -static_cast<int>(group.band));
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      if (key(a) != key(b)) return key(a) < key(b);
      return std::tuple(groups_[a]->joined, groups_[a]->id) > std::tuple(groups_[b]->joined, groups_[b]->id);
    });
    return order;
  }

  void letWait() {
    std::vector<std::size_t> waiting;
    for (const std::size_t group : orderOfWaiting()) {
      claims_.pending[group] = true;
      waiting.push_back(group);
      if (claim()) break;
    }
    if (waiting.empty()) return;
    // Whose waiting did not help comes back, the last to wait first.
    bool claimed = true;
    for (std::size_t i = waiting.size() - 1; i-- > 0;) {
      claims_.pending[waiting[i]] = false;
      claimed = claim();
      if (!claimed) claims_.pending[waiting[i]] = true;
    }
    if (!claimed) claim();
  }

  // The CPUs that are in nobody's units, among all others.
  void countOpen() {
    Supply supply(layout_);
    std::map<TenantId, std::int64_t> inUnits;
    std::vector<Claimant> open;
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (!isIsolated(c)) continue;
      for (int kind = 0; kind < layout_.kindCount; ++kind) {
        const std::int64_t capacity = layout_.capacityOfKind[at(kind)] * claims_.claimants[c].cpus[at(kind)];
        supply.cpusOfKind[at(kind)] -= claims_.claimants[c].cpus[at(kind)];
        supply.capacity -= capacity;
        inUnits[claims_.claimants[c].tenant] += capacity;
      }
    }
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (isIsolated(c)) continue;
      open.push_back(claims_.claimants[c]);
      if (open.back().tenantLimit != kNoCap) open.back().tenantLimit -= inUnits[open.back().tenant];
    }
    countWhole(open, layout_, supply, problem_.config.keepLeftover.value);
    auto next = open.begin();
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (!isIsolated(c)) claims_.claimants[c] = *next++;
    }
  }

  // Per tenant: what its cap leaves beside its shares of the pool.
  [[nodiscard]] std::vector<std::int64_t> exclusiveLimits() const {
    std::vector<std::int64_t> limits;
    for (const Entitlements::Tenant& tenant : claims_.sizing.tenants) limits.push_back(tenant.limit);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (claims_.pending[g] || !claims_.inPool[g]) continue;
      if (std::int64_t& limit = limits[at(claims_.sizing.tenantOf[g])]; limit != kNoCap) limit -= claims_.sizing.milli[g];
    }
    return limits;
  }

  void makeClaimants() {
    Claimant pool;
    std::int64_t poolFloor = 0;
    bool anyPool = false;
    const std::vector<std::int64_t> limits = exclusiveLimits();
    claims_.claimantOf.assign(groups_.size(), kFree);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (claims_.pending[g]) continue;
      if (claims_.inPool[g]) {
        anyPool = true;
        pool.entitlement += claims_.sizing.milli[g];
        poolFloor += std::max<std::int64_t>(0, groups_[g]->floor.value);
        continue;
      }
      Claimant claimant;
      claimant.group = static_cast<int>(g);
      claimant.tenant = groups_[g]->tenant;
      claimant.entitlement = claims_.sizing.milli[g];
      claimant.need = needOf(*groups_[g], claims_.units);
      claimant.tenantLimit = limits[at(claims_.sizing.tenantOf[g])];
      claims_.claimantOf[g] = static_cast<int>(claims_.claimants.size());
      claims_.claimants.push_back(claimant);
    }
    if (!anyPool) return;
    pool.need = std::max<std::int64_t>(1, cpusForFloor(MilliCpu(poolFloor)));
    claims_.pool = static_cast<int>(claims_.claimants.size());
    claims_.claimants.push_back(pool);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (claims_.inPool[g]) claims_.claimantOf[g] = claims_.pool;
    }
  }

  // Who holds each CPU now, as far as it may keep it: the pool what is the pool's, a group what it alone owns, of several the first.
  void findHolders() {
    claims_.holders.assign(layout_.ids.size(), kFree);
    if (claims_.pool != kFree) {
      for (const int position : layout_.toPositions(problem_.snapshot.pool)) claims_.holders[at(position)] = claims_.pool;
    }
    for (const bool pool : {false, true}) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (claims_.pending[g] || claims_.inPool[g] != pool) continue;
        for (const ContainerState& container : groups_[g]->containers) {
          for (const int id : container.home) {
            const int position = layout_.positionOf(id);
            if (position >= 0 && claims_.holders[at(position)] == kFree) claims_.holders[at(position)] = claims_.claimantOf[g];
          }
        }
      }
    }
    for (std::size_t position = 0; position < claims_.holders.size(); ++position) {
      if (claims_.holders[position] != kFree) ++claims_.claimants[at(claims_.holders[position])].held[at(layout_.kinds[position])];
    }
  }

  const Problem& problem_;
  const Layout& layout_;
  const std::vector<const GroupState*>& groups_;
  const std::vector<bool>& pinned_;
  std::vector<std::int64_t> atLeast_;  // per group, milli-CPUs: what isolated ones' floors come to in the units that they can have; empty: not known
  std::vector<std::vector<int>> given_;  // per group: the units that it is thought to hold, positions; empty: it holds what it holds
  Claims claims_;
};
}  // namespace

bool ownsUnits(const Claims& claims, const std::vector<const GroupState*>& groups, std::size_t claimant) {
  return claims.claimants[claimant].group >= 0 && isolated(*groups[at(claims.claimants[claimant].group)]);
}

Claims makeClaims(const Problem& problem, const std::vector<const GroupState*>& groups, const std::vector<bool>& pinned) {
  return Claiming(problem, groups, pinned).run();
}

}  // namespace coterie::allocation
