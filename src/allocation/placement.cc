#include "allocation/placement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "allocation/assignment.h"
#include "allocation/improve.h"
#include "allocation/isolation.h"
#include "allocation/newcomers.h"
#include "allocation/objective.h"
#include "allocation/pieces.h"
#include "allocation/selection.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Placer {
 public:
  Placer(const Problem& problem, const std::vector<bool>& pinned)
      : problem_(problem), layout_(problem.layout), groups_(problem.groups), pinned_(pinned), newcomers_(problem) {}

  Placement run() {
    placement_.groups = emptyTargets(problem_);
    units_ = unitSizes(layout_);
    pending_ = choosePending(groups_, layout_.size(), units_);
    while (!claim()) pendOneIsolated();
    countOpen();
    sayEntitlements();
    select();
    assign();
    closeLanes(placement_.groups);
    placement_.memory = fitMemory(problem_, placement_.groups);
    placement_.homes = HomeMap(layout_, placement_.groups, placement_.pool);
    sortReasons();
    return std::move(placement_);
  }

 private:
  void say(std::size_t group, ReasonCode code, std::int64_t a, std::int64_t b = 0) {
    placement_.reasons.push_back({groups_[group]->id, code, a, b, {}});
  }

  // By group; those of one group stay in the order in which the stages gave them.
  void sortReasons() {
    std::vector<std::pair<GroupId, std::size_t>> order;
    for (std::size_t i = 0; i < placement_.reasons.size(); ++i) order.emplace_back(placement_.reasons[i].group, i);
    std::sort(order.begin(), order.end());
    std::vector<Reason> sorted;
    std::vector<std::size_t> placeOf(order.size());
    sorted.reserve(order.size());
    for (const auto& [group, index] : order) placeOf[index] = sorted.size(), sorted.push_back(placement_.reasons[index]);
    placement_.reasons = std::move(sorted);
    for (Deferral& deferral : placement_.deferrals) deferral.reason = placeOf[deferral.reason];
  }

  // Who claims what; false if the units that there are do not suffice.
  bool claim() {
    size({});
    std::vector<UnitClaim> claims = unitClaims();
    chooseUnits(claims, layout_, holders_);
    while (keepWithinCap(claims)) chooseUnits(claims, layout_, holders_);
    std::vector<std::int64_t> inUnits = sizing_.milli;
    for (const UnitClaim& claim : claims) {
      if (claim.cpus.empty() || (!claim.pinned && static_cast<int>(claim.cpus.size()) < claim.need)) return false;
      std::int64_t& amount = inUnits[at(claimants_[at(claim.claimant)].group)];
      amount = 0;
      for (const int position : claim.cpus) amount += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
    }
    // Units may come to more or less than was asked for: the others share what is really left.
    if (inUnits != sizing_.milli) {
      for (UnitClaim& claim : claims) claim.claimant = claimants_[at(claim.claimant)].group;
      size(inUnits);
      for (UnitClaim& claim : claims) claim.claimant = claimantOf_[at(claim.claimant)];
    }
    return takeUnits(claims);
  }

  // Units of different sizes may come to more than was asked for: where that passes the tenant's cap, one of its groups with more than its floor
  // takes that and no more. True if there is one; its units, and so everybody's, are to be chosen again.
  bool keepWithinCap(std::vector<UnitClaim>& claims) const {
    std::map<TenantId, std::int64_t> owned;
    for (const UnitClaim& claim : claims) {
      for (const int position : claim.cpus) owned[claimants_[at(claim.claimant)].tenant] += layout_.capacityOfKind[at(layout_.kinds[at(position)])];
    }
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (claimants_[c].group >= 0 && !isIsolated(c)) owned[claimants_[c].tenant] += std::min(claimants_[c].entitlement, claimants_[c].need * kCpu);
    }
    for (auto claim = claims.rbegin(); claim != claims.rend(); ++claim) {
      const Claimant& claimant = claimants_[at(claim->claimant)];
      if (claim->pinned || claim->wanted <= claim->need || static_cast<int>(claim->cpus.size()) <= claim->need) continue;
      if (claimant.tenantLimit == kNoCap || owned[claimant.tenant] <= claimant.tenantLimit) continue;
      claim->wanted = claim->need;
      for (UnitClaim& one : claims) one.cpus.clear();
      return true;
    }
    return false;
  }

  void size(const std::vector<std::int64_t>& inUnits) {
    sizing_ = entitlements(groups_, pending_, layout_.capacity, layout_.grain(), units_, inUnits);
    inPool_ = choosePool(groups_, pending_, sizing_.milli, layout_.size(), units_);
    claimants_.clear();
    poolClaimant_ = kFree;
    makeClaimants();
    findHolders();
  }

  [[nodiscard]] bool isIsolated(std::size_t claimant) const {
    return claimants_[claimant].group >= 0 && isolated(*groups_[at(claimants_[claimant].group)]);
  }

  [[nodiscard]] std::vector<UnitClaim> unitClaims() const {
    std::vector<UnitClaim> claims;
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (!isIsolated(c)) continue;
      const GroupState& group = *groups_[at(claimants_[c].group)];
      UnitClaim claim;
      claim.claimant = static_cast<int>(c);
      claim.isolation = group.isolation;
      claim.pinned = pinned_[at(claimants_[c].group)];
      claim.need = static_cast<int>(std::max<std::int64_t>(1, cpusForFloor(group.floor)));
      claim.wanted = static_cast<int>(claimants_[c].entitlement / kCpu);
      for (int position = 0; position < layout_.size(); ++position) {
        if (holders_[at(position)] == claim.claimant) claim.held.push_back(position);
      }
      claims.push_back(std::move(claim));
    }
    return claims;
  }

  // False if they leave too little for what the others need.
  bool takeUnits(const std::vector<UnitClaim>& claims) {
    unitOwner_.assign(layout_.ids.size(), kFree);
    unitsRooted_ = std::any_of(claims.begin(), claims.end(), [](const UnitClaim& one) { return static_cast<int>(one.cpus.size()) != one.wanted; });
    if (claims.empty()) return true;
    int left = layout_.size();
    for (const UnitClaim& claim : claims) {
      left -= static_cast<int>(claim.cpus.size());
      for (const int position : claim.cpus) {
        const int kind = layout_.kinds[at(position)];
        unitOwner_[at(position)] = claim.claimant;
        ++claimants_[at(claim.claimant)].cpus[at(kind)];
        const int holder = holders_[at(position)];
        if (holder != kFree && holder != claim.claimant) --claimants_[at(holder)].held[at(kind)];
      }
    }
    for (std::size_t c = 0; c < claimants_.size(); ++c) left -= isIsolated(c) ? 0 : static_cast<int>(claimants_[c].need);
    return left >= 0;
  }

  // Units of different sizes may not fit although they would by count: the youngest of the lowest band waits.
  void pendOneIsolated() {
    int last = -1;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (pending_[g] || !isolated(*groups_[g])) continue;
      const auto key = [&](std::size_t i) { return std::tuple(groups_[i]->band, groups_[i]->joined, groups_[i]->id); };
      if (last < 0 || key(g) > key(at(last))) last = static_cast<int>(g);
    }
    pending_[at(last)] = true;
  }

  // The CPUs that are in nobody's units, among all others.
  void countOpen() {
    Supply supply(layout_);
    std::map<TenantId, std::int64_t> inUnits;
    std::vector<Claimant> open;
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (!isIsolated(c)) continue;
      for (int kind = 0; kind < layout_.kindCount; ++kind) {
        const std::int64_t capacity = layout_.capacityOfKind[at(kind)] * claimants_[c].cpus[at(kind)];
        supply.cpusOfKind[at(kind)] -= claimants_[c].cpus[at(kind)];
        supply.capacity -= capacity;
        inUnits[claimants_[c].tenant] += capacity;
      }
    }
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (isIsolated(c)) continue;
      open.push_back(claimants_[c]);
      if (open.back().tenantLimit != kNoCap) open.back().tenantLimit -= inUnits[open.back().tenant];
    }
    countWhole(open, layout_, supply, problem_.config.keepLeftover.value);
    auto next = open.begin();
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (!isIsolated(c)) claimants_[c] = *next++;
    }
  }

  // Per tenant: what its cap leaves beside its shares of the pool.
  [[nodiscard]] std::vector<std::int64_t> exclusiveLimits() const {
    std::vector<std::int64_t> limits;
    for (const Entitlements::Tenant& tenant : sizing_.tenants) limits.push_back(tenant.limit);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (pending_[g] || !inPool_[g]) continue;
      if (std::int64_t& limit = limits[at(sizing_.tenantOf[g])]; limit != kNoCap) limit -= sizing_.milli[g];
    }
    return limits;
  }

  void makeClaimants() {
    Claimant pool;
    std::int64_t poolFloor = 0;
    bool anyPool = false;
    const std::vector<std::int64_t> limits = exclusiveLimits();
    claimantOf_.assign(groups_.size(), kFree);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (pending_[g]) continue;
      if (inPool_[g]) {
        anyPool = true;
        pool.entitlement += sizing_.milli[g];
        poolFloor += std::max<std::int64_t>(0, groups_[g]->floor.value);
        continue;
      }
      Claimant claimant;
      claimant.group = static_cast<int>(g);
      claimant.tenant = groups_[g]->tenant;
      claimant.entitlement = sizing_.milli[g];
      claimant.need = std::max<std::int64_t>(1, cpusForFloor(*groups_[g], units_));
      claimant.tenantLimit = limits[at(sizing_.tenantOf[g])];
      claimantOf_[g] = static_cast<int>(claimants_.size());
      claimants_.push_back(claimant);
    }
    if (!anyPool) return;
    pool.need = std::max<std::int64_t>(1, cpusForFloor(MilliCpu(poolFloor)));
    poolClaimant_ = static_cast<int>(claimants_.size());
    claimants_.push_back(pool);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (inPool_[g]) claimantOf_[g] = poolClaimant_;
    }
  }

  // Who holds each CPU now, as far as it may keep it: the pool what is the pool's, a group what it alone owns, of several the first.
  void findHolders() {
    holders_.assign(layout_.ids.size(), kFree);
    if (poolClaimant_ != kFree) {
      for (const int position : layout_.toPositions(problem_.snapshot.pool)) holders_[at(position)] = poolClaimant_;
    }
    for (const bool pool : {false, true}) {
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (pending_[g] || inPool_[g] != pool) continue;
        for (const ContainerState& container : groups_[g]->containers) {
          for (const int id : container.home) {
            const int position = layout_.positionOf(id);
            if (position >= 0 && holders_[at(position)] == kFree) holders_[at(position)] = claimantOf_[g];
          }
        }
      }
    }
    for (std::size_t position = 0; position < holders_.size(); ++position) {
      if (holders_[position] != kFree) ++claimants_[at(holders_[position])].held[at(layout_.kinds[position])];
    }
  }

  void sayEntitlements() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const GroupState& group = *groups_[g];
      placement_.groups[g].entitlement = MilliCpu(sizing_.milli[g]);
      placement_.groups[g].pending = pending_[g];
      placement_.groups[g].inPool = inPool_[g];
      if (pending_[g]) {
        say(g, ReasonCode::PendingInsufficientCpu, std::max<std::int64_t>(kCpu, cpusForFloor(group, units_) * kCpu), freeFor(g));
        continue;
      }
      say(g, ReasonCode::EntitledByWeight, sizing_.milli[g], sizing_.milli[g] * 1000 / std::max<std::int64_t>(1, layout_.capacity));
      if (group.floor.value > 0 && sizing_.milli[g] <= cpusForFloor(group.floor) * kCpu && sizing_.milli[g] >= group.floor.value)
        say(g, ReasonCode::RaisedToFloor, group.floor.value);
      if (sizing_.milli[g] >= group.ceiling.value) say(g, ReasonCode::CappedAtCeiling, group.ceiling.value);
      if (sizing_.stoppedByCap[g] || (!inPool_[g] && claimants_[at(claimantOf_[g])].stoppedByCap)) {
        const Entitlements::Tenant& tenant = sizing_.tenants[at(sizing_.tenantOf[g])];
        say(g, ReasonCode::CappedByQuota, tenant.cap, tenant.total);
      }
      if (inPool_[g]) say(g, ReasonCode::PoolMember, sizing_.milli[g]);
      if (isolated(group)) say(g, ReasonCode::IsolationCharged, claimants_[at(claimantOf_[g])].total(), sizing_.plain[g]);
      if (isolated(group) && pinned_[g]) say(g, ReasonCode::IsolationBlocked, claimants_[at(claimantOf_[g])].total(), sizing_.milli[g] / kCpu);
    }
  }

  [[nodiscard]] std::int64_t freeFor(std::size_t without) const {
    FloorCount count(units_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (g != without && !pending_[g]) count.add(*groups_[g]);
    }
    return std::max<std::int64_t>(0, layout_.size() - count.cpus()) * kCpu;
  }

  // The pool counts as one.
  [[nodiscard]] int containersOf(const Claimant& claimant) const {
    return claimant.group < 0 ? 1 : static_cast<int>(groups_[at(claimant.group)]->containers.size());
  }
  [[nodiscard]] int chunkOf(const Claimant& claimant) const { return std::max(1, claimant.total() / containersOf(claimant)); }

  void select() {
    std::vector<TenantId> tenants;
    for (const Claimant& claimant : claimants_) tenants.push_back(claimant.group < 0 ? TenantId{} : claimant.tenant);
    board_.emplace(layout_, tenants);
    for (int position = 0; position < layout_.size(); ++position) {
      const int owner = unitOwner_[at(position)] != kFree ? unitOwner_[at(position)] : holders_[at(position)];
      if (owner != kFree && (unitOwner_[at(position)] != kFree || !isIsolated(at(owner)))) board_->give(position, owner);
    }
    for (int kind = 0; kind < layout_.kindCount; ++kind) {
      for (std::size_t c = 0; c < claimants_.size(); ++c) {
        if (!isIsolated(c)) board_->shed(static_cast<int>(c), kind, claimants_[c].held[at(kind)] - claimants_[c].cpus[at(kind)]);
      }
    }
    // Growers before newcomers, the largest first.
    struct Turn {
      bool newcomer;
      int missing;
      int claimant;
    };
    std::vector<Turn> turns;
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      const int owned = static_cast<int>(board_->owned(static_cast<int>(c)).size());
      turns.push_back({owned == 0, claimants_[c].total() - owned, static_cast<int>(c)});
    }
    std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) {
      if (a.newcomer != b.newcomer) return b.newcomer;
      return a.missing != b.missing ? a.missing > b.missing : a.claimant < b.claimant;
    });
    for (const Turn& turn : turns) {
      const Claimant& claimant = claimants_[at(turn.claimant)];
      const GroupState* newcomer = turn.newcomer && claimant.group >= 0 ? groups_[at(claimant.group)] : nullptr;
      placement_.memoryHadASay = placement_.memoryHadASay || newcomer != nullptr;
      board_->prefer(newcomer != nullptr ? newcomers_.ranks(*newcomer) : std::vector<int>{});
      if (turn.newcomer) {
        growNewcomer(*board_, turn.claimant, claimant.cpus, containersOf(claimant));
        if (newcomer != nullptr) newcomers_.placed(*newcomer, layout_.toSet(board_->owned(turn.claimant)));
        continue;
      }
      for (int kind = 0; kind < layout_.kindCount; ++kind) {
        int owned = 0;
        for (const int position : board_->owned(turn.claimant)) owned += layout_.kinds[at(position)] == kind ? 1 : 0;
        board_->grow(turn.claimant, kind, claimant.cpus[at(kind)] - owned, chunkOf(claimant));
      }
    }
    board_->prefer({});
    moveForFit();
  }

  void moveForFit() {
    std::vector<Movable> movables(claimants_.size());
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (claimants_[c].group < 0) continue;
      const GroupState& group = *groups_[at(claimants_[c].group)];
      movables[c].fixed = isolated(group);
      movables[c].rooted = unitsRooted_;
      movables[c].isolation = group.isolation;
      movables[c].mayMove = mayMove(group, problem_);
      movables[c].away = awayFrom(layout_, deviceCpus(*problem_.snapshot.machine, group));
      for (const ContainerState& container : group.containers) movables[c].containers.push_back(layout_.toPositions(container.home));
    }
    const std::int64_t level = bucketNow(problem_).level.value;
    MoveOutcome outcome = improve(*board_, holders_, movables, level, problem_.config);
    homes_ = std::move(outcome.homes);
    placement_.limited = outcome.limited;
    placement_.bucketFrom = MilliCpu(outcome.bucketFrom);
    placement_.bucketBelow = MilliCpu(outcome.bucketBelow);
    placement_.tokensUsed = MilliCpu(level - outcome.bucketLeft);
    for (std::size_t c = 0; c < claimants_.size(); ++c) {
      if (claimants_[c].group < 0) {
        if (outcome.deferredByBucket[c]) deferPool();
        continue;
      }
      const std::size_t g = at(claimants_[c].group);
      if (outcome.moved[c] > 0) {
        placement_.groups[g].moved = true;
        say(g, ReasonCode::MovedForBetterFit, outcome.moved[c], outcome.gain[c] / 4);
      }
      if (outcome.deferredByTime[c] && groups_[g]->lastOptionalMove) defer(g, DeferredBy::Interval);
      if (outcome.deferredByBucket[c]) defer(g, DeferredBy::Bucket);
    }
  }

  // Until when is for each decision to say.
  void defer(std::size_t g, DeferredBy by) {
    placement_.deferrals.push_back({placement_.reasons.size(), g, by});
    say(g, ReasonCode::MoveDeferred, 0);
  }

  // Better CPUs for the pool: the matter of all in it.
  void deferPool() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!pending_[g] && inPool_[g]) defer(g, DeferredBy::Bucket);
    }
  }

  void assign() {
    if (poolClaimant_ != kFree) placement_.pool = layout_.toSet(board_->owned(poolClaimant_));
    const std::int64_t poolEntitlement = poolClaimant_ == kFree ? 1 : std::max<std::int64_t>(1, claimants_[at(poolClaimant_)].entitlement);
    const std::int64_t poolGroups = std::count(inPool_.begin(), inPool_.end(), true);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      GroupTarget& target = placement_.groups[g];
      if (pending_[g]) continue;
      sayLost(g);
      if (inPool_[g]) {
        placeOnAll(target, placement_.pool);
        target.cpuWeight = std::clamp<std::int64_t>(100 * poolGroups * sizing_.milli[g] / poolEntitlement, 1, 10000);
        continue;
      }
      const std::vector<int>& cpus = board_->owned(claimantOf_[g]);
      const std::vector<Positions>& homes = homes_[at(claimantOf_[g])];
      for (std::size_t c = 0; c < homes.size(); ++c) {
        target.containers[c].home = layout_.toSet(homes[c]);
        target.containers[c].ownLanes = static_cast<int>(homes[c].size());
      }
      if (isolated(*groups_[g])) limitLanes(target, groups_[g]->ceiling);
      target.cpuWeight = 100 * static_cast<std::int64_t>(homes.size());
      sayPlace(g, cpus);
    }
  }

  // Whole units may be more than a ceiling: what is above it stays idle.
  static void limitLanes(GroupTarget& target, MilliCpu ceiling) {
    std::int64_t left = std::max<std::int64_t>(1, cpusForFloor(ceiling));
    for (ContainerTarget& container : target.containers) {
      container.ownLanes = static_cast<int>(std::clamp<std::int64_t>(left, 1, container.ownLanes));
      left -= container.ownLanes;
    }
  }

  void sayLost(std::size_t g) {
    for (const ContainerState& container : groups_[g]->containers) {
      for (const int id : container.home) {
        if (!layout_.usable.contains(id)) say(g, ReasonCode::MovedOffline, id);
      }
    }
  }

  void sayPlace(std::size_t g, const std::vector<int>& cpus) {
    const Claimant& claimant = claimants_[at(claimantOf_[g])];
    const auto kept = std::count_if(cpus.begin(), cpus.end(), [&](int position) { return holders_[at(position)] == claimantOf_[g]; });
    for (int kind = 0; kind < layout_.kindCount; ++kind) {
      if (claimant.granted[at(kind)] == 0) continue;
      int last = -1;
      for (const int position : cpus) last = layout_.kinds[at(position)] == kind ? std::max(last, layout_.ids[at(position)]) : last;
      say(g, claimant.held[at(kind)] >= claimant.cpus[at(kind)] ? ReasonCode::LeftoverKept : ReasonCode::LeftoverGranted, last);
    }
    if (claimant.refusedRemainder > 0 && claimant.granted == std::array<int, kMaxKinds>{})
      say(g, ReasonCode::LeftoverRefused, claimant.refusedRemainder, claimant.winnersRemainder);
    if (kept > 0) say(g, ReasonCode::KeptInPlace, kept);
    const DomainLevel level = commonLevel(layout_, cpus);
    const Layout::Branch& home = layout_.branches[at(layout_.paths[at(cpus.front())][at(static_cast<int>(level))])];
    int nodes = 0;
    int lastNode = -1;
    for (const int position : cpus) {
      const int node = layout_.paths[at(position)][at(static_cast<int>(DomainLevel::Node))];
      nodes += node != lastNode ? 1 : 0;
      lastNode = node;
    }
    if (nodes > 1) {
      say(g, ReasonCode::SpansDomains, nodes);
    } else {
      say(g, ReasonCode::PlacedTogether, static_cast<std::int64_t>(level), home.id);
    }
    sayDevice(g, cpus);
  }

  void sayDevice(std::size_t g, const std::vector<int>& cpus) {
    if (groups_[g]->device.empty()) return;
    const CpuSet device = deviceCpus(*problem_.snapshot.machine, *groups_[g]);
    if (device.empty()) return say(g, ReasonCode::DeviceUnknown, 0);
    const DomainLevel level = levelTo(layout_, layout_.toSet(cpus), device);
    if (level < DomainLevel::Node) say(g, ReasonCode::DeviceFar, static_cast<std::int64_t>(level));
  }

  const Problem& problem_;
  const Layout& layout_;
  const std::vector<const GroupState*>& groups_;
  const std::vector<bool>& pinned_;  // per group
  Placement placement_;
  std::vector<bool> pending_;
  std::vector<bool> inPool_;
  Entitlements sizing_;
  std::vector<Claimant> claimants_;
  std::vector<int> claimantOf_;  // per group; kFree for pending ones
  int poolClaimant_{kFree};
  UnitSizes units_;
  std::vector<int> unitOwner_;  // per position: the isolated claimant whose unit it is in
  bool unitsRooted_{false};     // somebody's units differ from what he asked for: another's, moved, would leave what he could take
  std::vector<int> holders_;    // per position: the claimant that holds it now
  std::optional<Board> board_;
  Newcomers newcomers_;
  std::vector<std::vector<Positions>> homes_;  // per claimant: its containers' CPUs
};
}  // namespace

// Only the time that became tokens is used up, so that frequent decisions lose nothing.
MoveBucket bucketNow(const Problem& problem) {
  const MoveBucket& bucket = problem.snapshot.bucket;
  const Instant now = problem.snapshot.now;
  const std::int64_t depth = std::max<std::int64_t>(2, problem.layout.size() / 8) * kCpu;
  const std::int64_t perMinute = Nanos(Seconds(60)).count();
  const std::int64_t elapsed = std::clamp<std::int64_t>((now - bucket.updated).count(), 0, perMinute);
  const std::int64_t tokens = depth * (elapsed / 1000) / (perMinute / 1000);
  if (bucket.level.value + tokens >= depth) return {MilliCpu(depth), now};
  return {bucket.level + MilliCpu(tokens), bucket.updated + Nanos(tokens * perMinute / depth)};
}

bool mayMove(const GroupState& group, const Problem& problem) {
  return !group.lastOptionalMove || *group.lastOptionalMove + problem.config.optionalMoveInterval <= problem.snapshot.now;
}

Placement place(const Problem& problem, const std::vector<bool>& pinned) { return Placer(problem, pinned).run(); }

}  // namespace coterie::allocation
