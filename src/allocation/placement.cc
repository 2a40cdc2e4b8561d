#include "allocation/placement.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "allocation/assignment.h"
#include "allocation/claims.h"
#include "allocation/improve.h"
#include "allocation/isolation.h"
#include "allocation/isolation_room.h"
#include "allocation/newcomers.h"
#include "allocation/objective.h"
#include "allocation/pieces.h"
#include "allocation/roles.h"
#include "allocation/selection.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

namespace {
constexpr std::int64_t kCpu = 1000;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Placer {
 public:
  Placer(const Problem& problem, const std::vector<bool>& pinned)
      : problem_(problem), layout_(problem.layout), groups_(problem.groups), pinned_(pinned), newcomers_(problem) {
    shapes_.reserve(groups_.size());
    for (const GroupState*& group : groups_) {
      if (hasRoles(*group)) group = &shapes_.emplace_back(shapeOf(*group));
    }
  }

  Placement run() {
    placement_.groups = emptyTargets(groups_);
    claims_ = makeClaims(problem_, groups_, pinned_);
    sayEntitlements();
    select();
    assign();
    placement_.homes = HomeMap(layout_, placement_.groups, placement_.pool);
    cast();
    closeLanes(placement_.groups);
    placement_.memory = fitMemory(problem_, placement_.groups);
    sortReasons();
    return std::move(placement_);
  }

 private:
  void say(std::size_t group, ReasonCode code, std::int64_t a, std::int64_t b = 0) {
    placement_.reasons.push_back({groups_[group]->id, code, a, b, {}});
  }

  void sortReasons() {
    const std::vector<std::size_t> placeOf = sortByGroup(placement_.reasons);
    for (Deferral& deferral : placement_.deferrals) deferral.reason = placeOf[deferral.reason];
  }

  void sayEntitlements() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const GroupState& group = *groups_[g];
      placement_.groups[g].entitlement = MilliCpu(claims_.sizing.milli[g]);
      placement_.groups[g].pending = claims_.pending[g];
      placement_.groups[g].inPool = claims_.inPool[g];
      if (claims_.pending[g]) {
        sayWhyItWaits(g);
        continue;
      }
      say(g, ReasonCode::EntitledByWeight, claims_.sizing.milli[g], claims_.sizing.milli[g] * 1000 / std::max<std::int64_t>(1, layout_.capacity));
      if (group.floor.value > 0 && claims_.sizing.milli[g] <= cpusForFloor(group.floor) * kCpu && claims_.sizing.milli[g] >= group.floor.value)
        say(g, ReasonCode::RaisedToFloor, group.floor.value);
      if (claims_.sizing.milli[g] >= group.ceiling.value) say(g, ReasonCode::CappedAtCeiling, group.ceiling.value);
      if (claims_.sizing.stoppedByCap[g] || (!claims_.inPool[g] && claims_.claimants[at(claims_.claimantOf[g])].stoppedByCap)) {
        const Entitlements::Tenant& tenant = claims_.sizing.tenants[at(claims_.sizing.tenantOf[g])];
        say(g, ReasonCode::CappedByQuota, tenant.cap, tenant.total);
      }
      if (claims_.inPool[g]) say(g, ReasonCode::PoolMember, claims_.sizing.milli[g]);
      if (isolated(group)) say(g, ReasonCode::IsolationCharged, claims_.claimants[at(claims_.claimantOf[g])].total(), claims_.sizing.plain[g]);
      if (!isolated(group) || !pinned_[g]) continue;
      if (const int cpus = claims_.claimants[at(claims_.claimantOf[g])].total(); cpus < claims_.wantedCpus[g])
        say(g, ReasonCode::IsolationBlocked, cpus, claims_.wantedCpus[g]);
    }
  }

  void sayWhyItWaits(std::size_t g) {
    const GroupState& group = *groups_[g];
    if (!room_) {
      room_.emplace(layout_);
      for (std::size_t other = 0; other < groups_.size(); ++other) {
        if (!claims_.pending[other]) room_->keep(*groups_[other]);
      }
    }
    if (isolated(group)) {
      if (const auto shortage = room_->shortageOf(group)) {
        for (const Reason& reason : shortageReasons(group.id, *shortage)) placement_.reasons.push_back(reason);
        return;
      }
    }
    const bool inTheWay = room_->fits(group);
    const std::int64_t wanted = std::max<std::int64_t>(1, inTheWay ? cpusForFloor(group, claims_.units) : cpusForFloor(group.floor)) * kCpu;
    placement_.reasons.push_back({group.id, ReasonCode::PendingInsufficientCpu, wanted, room_->freeCpus() * kCpu, {}, inTheWay ? 1 : 0});
  }

  // The pool counts as one.
  [[nodiscard]] int containersOf(const Claimant& claimant) const {
    return claimant.group < 0 ? 1 : static_cast<int>(groups_[at(claimant.group)]->containers.size());
  }
  [[nodiscard]] int chunkOf(const Claimant& claimant) const { return std::max(1, claimant.total() / containersOf(claimant)); }

  void select() {
    std::vector<TenantId> tenants;
    for (const Claimant& claimant : claims_.claimants) tenants.push_back(claimant.group < 0 ? TenantId{} : claimant.tenant);
    board_.emplace(layout_, tenants);
    for (int position = 0; position < layout_.size(); ++position) {
      const int owner = claims_.unitOwner[at(position)] != kFree ? claims_.unitOwner[at(position)] : claims_.holders[at(position)];
      if (owner != kFree && (claims_.unitOwner[at(position)] != kFree || !ownsUnits(claims_, groups_, at(owner)))) board_->give(position, owner);
    }
    for (int kind = 0; kind < layout_.kindCount; ++kind) {
      for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
        if (!ownsUnits(claims_, groups_, c))
          board_->shed(static_cast<int>(c), kind, claims_.claimants[c].held[at(kind)] - claims_.claimants[c].cpus[at(kind)]);
      }
    }
    // Growers before newcomers, the largest first.
    struct Turn {
      bool newcomer;
      int missing;
      int claimant;
    };
    std::vector<Turn> turns;
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      const int owned = static_cast<int>(board_->owned(static_cast<int>(c)).size());
      turns.push_back({owned == 0, claims_.claimants[c].total() - owned, static_cast<int>(c)});
    }
    std::sort(turns.begin(), turns.end(), [](const Turn& a, const Turn& b) {
      if (a.newcomer != b.newcomer) return b.newcomer;
      return a.missing != b.missing ? a.missing > b.missing : a.claimant < b.claimant;
    });
    for (const Turn& turn : turns) {
      const Claimant& claimant = claims_.claimants[at(turn.claimant)];
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
    std::vector<Movable> movables(claims_.claimants.size());
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (claims_.claimants[c].group < 0) continue;
      const GroupState& group = *groups_[at(claims_.claimants[c].group)];
      movables[c].fixed = isolated(group);
      movables[c].rooted = claims_.unitsRooted;
      movables[c].isolation = group.isolation;
      movables[c].mayMove = mayMove(group, problem_);
      movables[c].away = awayFrom(layout_, deviceCpus(*problem_.snapshot.machine, group));
      for (const ContainerState& container : group.containers) movables[c].containers.push_back(layout_.toPositions(container.home));
      movables[c].sizes = fixedSizes(group);
    }
    const std::int64_t level = bucketNow(problem_).level.value;
    MoveOutcome outcome = improve(*board_, claims_.holders, movables, level, problem_.config);
    homes_ = std::move(outcome.homes);
    placement_.limited = outcome.limited;
    placement_.bucketFrom = MilliCpu(outcome.bucketFrom);
    placement_.bucketBelow = MilliCpu(outcome.bucketBelow);
    placement_.tokensUsed = MilliCpu(level - outcome.bucketLeft);
    for (std::size_t c = 0; c < claims_.claimants.size(); ++c) {
      if (claims_.claimants[c].group < 0) {
        if (outcome.deferredByBucket[c]) deferPool();
        continue;
      }
      const std::size_t g = at(claims_.claimants[c].group);
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
      if (!claims_.pending[g] && claims_.inPool[g]) defer(g, DeferredBy::Bucket);
    }
  }

  void assign() {
    if (claims_.pool != kFree) placement_.pool = layout_.toSet(board_->owned(claims_.pool));
    const std::int64_t poolEntitlement = claims_.pool == kFree ? 1 : std::max<std::int64_t>(1, claims_.claimants[at(claims_.pool)].entitlement);
    const std::int64_t poolGroups = std::count(claims_.inPool.begin(), claims_.inPool.end(), true);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      GroupTarget& target = placement_.groups[g];
      if (claims_.pending[g]) continue;
      sayLost(g);
      if (claims_.inPool[g]) {
        placeOnAll(target, placement_.pool);
        target.cpuWeight = std::clamp<std::int64_t>(100 * poolGroups * claims_.sizing.milli[g] / poolEntitlement, 1, 10000);
        continue;
      }
      const std::vector<int>& cpus = board_->owned(claims_.claimantOf[g]);
      const std::vector<Positions>& homes = homes_[at(claims_.claimantOf[g])];
      for (std::size_t c = 0; c < homes.size(); ++c) {
        target.containers[c].home = layout_.toSet(homes[c]);
        target.containers[c].ownLanes = static_cast<int>(homes[c].size());
      }
      if (isolated(*groups_[g])) limitLanes(target, groups_[g]->ceiling);
      target.cpuWeight = 100 * sharersOf(*problem_.groups[g]);
      sayPlace(g, cpus);
    }
  }

  // From shapes to all containers.
  void cast() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g] == problem_.groups[g]) continue;
      placement_.groups[g].containers = castOf(*problem_.groups[g], placement_.groups[g], placement_.pool);
      sayRoles(g);
    }
  }

  void sayRoles(std::size_t g) {
    const GroupState& group = *problem_.groups[g];
    if (claims_.pending[g]) return;
    if (const MilliCpu added = addedByInits(group); added.value > 0) say(g, ReasonCode::SizedByInit, (group.floor + added).value, group.floor.value);
    if (const std::int64_t apart = leastCpus(*groups_[g]) - 1; apart > 0 && !claims_.inPool[g]) say(g, ReasonCode::SidecarsApart, apart);
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
    CpuSet lost;
    for (const ContainerState& container : groups_[g]->containers) lost |= container.home - layout_.usable;
    if (!lost.empty()) say(g, ReasonCode::MovedOffline, lost.first(), lost.count());
  }

  void sayPlace(std::size_t g, const std::vector<int>& cpus) {
    const Claimant& claimant = claims_.claimants[at(claims_.claimantOf[g])];
    const auto kept = std::count_if(cpus.begin(), cpus.end(), [&](int position) { return claims_.holders[at(position)] == claims_.claimantOf[g]; });
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
  std::vector<GroupState> shapes_;         // of groups with roles
  std::vector<const GroupState*> groups_;  // as the stages see them
  const std::vector<bool>& pinned_;        // per group
  Placement placement_;
  Claims claims_;
  std::optional<IsolationRoom> room_;  // of those who do not wait; once somebody does
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
