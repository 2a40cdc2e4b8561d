#include "allocation/claims.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Claiming {
 public:
  Claiming(const Problem& problem, const std::vector<const GroupState*>& groups, const std::vector<bool>& pinned)
      : problem_(problem), layout_(problem.layout), groups_(groups), pinned_(pinned) {}

  Claims run() {
    claims_.units = unitSizes(layout_);
    claims_.pending = choosePending(groups_, layout_.size(), claims_.units);
    while (!claim()) pendOneIsolated();
    countOpen();
    return std::move(claims_);
  }

 private:
  // Who claims what; false if the units that there are do not suffice.
  bool claim() {
    size({});
    std::vector<UnitClaim> claims = unitClaims();
    chooseUnits(claims, layout_, claims_.holders);
    while (keepWithinCap(claims)) chooseUnits(claims, layout_, claims_.holders);
    std::vector<std::int64_t> inUnits = claims_.sizing.milli;
    for (const UnitClaim& claim : claims) {
      if (claim.cpus.empty() || (!claim.pinned && static_cast<int>(claim.cpus.size()) < claim.need)) return false;
      std::int64_t& amount = inUnits[at(claims_.claimants[at(claim.claimant)].group)];
      amount = 0;
      for (const int position : claim.cpus) amount += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
    }
    // Units may come to more or less than was asked for: the others share what is really left.
    if (inUnits != claims_.sizing.milli) {
      for (UnitClaim& claim : claims) claim.claimant = claims_.claimants[at(claim.claimant)].group;
      size(inUnits);
      for (UnitClaim& claim : claims) claim.claimant = claims_.claimantOf[at(claim.claimant)];
    }
    return takeUnits(claims);
  }

  // Units of different sizes may come to more than was asked for: where that passes the tenant's cap, one of its groups with more than its floor
  // takes that and no more. True if there is one; its units, and so everybody's, are to be chosen again.
  bool keepWithinCap(std::vector<UnitClaim>& claims) const {
    std::map<TenantId, std::int64_t> owned;
    for (const UnitClaim& claim : claims) {
      for (const int position : claim.cpus)
        owned[claims_.claimants[at(claim.claimant)].tenant] += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
    }
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (claims_.claimants[c].group >= 0 && !isIsolated(c))
        owned[claims_.claimants[c].tenant] += std::min(claims_.claimants[c].entitlement, claims_.claimants[c].need * kCpu);
    }
    for (auto claim = claims.rbegin(); claim != claims.rend(); ++claim) {
      const Claimant& claimant = claims_.claimants[at(claim->claimant)];
      if (claim->pinned || claim->wanted <= claim->need || static_cast<int>(claim->cpus.size()) <= claim->need) continue;
      if (claimant.tenantLimit == kNoCap || owned[claimant.tenant] <= claimant.tenantLimit) continue;
      claim->wanted = claim->need;
      for (UnitClaim& one : claims) one.cpus.clear();
      return true;
    }
    return false;
  }

  void size(const std::vector<std::int64_t>& inUnits) {
    claims_.sizing = entitlements(groups_, claims_.pending, layout_.capacity, layout_.grain(), claims_.units, inUnits);
    claims_.inPool = choosePool(groups_, claims_.pending, claims_.sizing.milli, layout_.size(), claims_.units);
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
      for (int position = 0; position < layout_.size(); ++position) {
        if (claims_.holders[at(position)] == claim.claimant) claim.held.push_back(position);
      }
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  // False if they leave too little for what the others need.
  bool takeUnits(const std::vector<UnitClaim>& claims) {
    claims_.unitOwner.assign(layout_.ids.size(), kFree);
    claims_.unitsRooted =
        std::any_of(claims.begin(), claims.end(), [](const UnitClaim& one) { return static_cast<int>(one.cpus.size()) != one.wanted; });
    if (claims.empty()) return true;
    int left = layout_.size();
    for (const UnitClaim& claim : claims) {
      left -= static_cast<int>(claim.cpus.size());
      for (const int position : claim.cpus) {
        const int kind = layout_.kinds[at(position)];
        claims_.unitOwner[at(position)] = claim.claimant;
        ++claims_.claimants[at(claim.claimant)].cpus[at(kind)];
        const int holder = claims_.holders[at(position)];
        if (holder != kFree && holder != claim.claimant) --claims_.claimants[at(holder)].held[at(kind)];
      }
    }
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) left -= isIsolated(c) ? 0 : static_cast<int>(claims_.claimants[c].need);
    return left >= 0;
  }

  // Units of different sizes may not fit although they would by count: the youngest of the lowest band waits.
  void pendOneIsolated() {
    int last = -1;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (claims_.pending[g] || !isolated(*groups_[g])) continue;
      const auto key = [&](std::size_t i) { return std::tuple(groups_[i]->band, groups_[i]->joined, groups_[i]->id); };
      if (last < 0 || key(g) > key(at(last))) last = static_cast<int>(g);
    }
    claims_.pending[at(last)] = true;
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
