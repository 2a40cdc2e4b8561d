// Snapshot, decision, and what is wanted of every container afterwards.
#include <algorithm>
#include <limits>
#include <utility>

#include "agent/drc_impl.h"
#include "allocation/isolation.h"

namespace coterie::agent {

namespace {
constexpr MilliCpu kNoCeiling{std::int64_t{1000} * CpuSet::kMaxId};
}

void Drc::Impl::planNow() {
  if (!due_ || frozen_ || !started_ || current_.batch) return;
  const Observed observed = observeAll(ports_.loop.clock().now() - lookedAt_ < config_.pollInterval ? Look::Places : Look::Everything);
  if (repairDrift(observed, Unplaced::LeaveOut)) return;  // the plan follows when what was asked before is in force again
  due_ = false;
  burstSince_.reset();
  burstTimer_.reset();
  for (auto& [id, group] : groups_) sample(group);
  const allocation::Snapshot snapshot = snapshotOf(observed);
  const allocation::Plan& plan = planner_.decide(snapshot, config_.allocation);
  ++plans_;
  adopt(plan, homesAfter(plan, snapshot));
  publishLosses();
  std::vector<allocation::Step> steps = plan.steps;
  addPlacings(steps, observed);
  doWithoutStuck(steps, observed);
  apply(steps);
  followClasses();
  armTick();
}

Drc::Impl::Observed Drc::Impl::observeAll(Look look) {
  if (look == Look::Everything) lookedAt_ = ports_.loop.clock().now();
  std::vector<InstanceId> registered;
  for (const auto& [id, container] : containers_) {
    if (container.registered) registered.push_back(id);
  }
  Observed observed = look == Look::Places ? ports_.controller.observePlaces(registered) : ports_.controller.observeAll(registered);
  std::erase_if(observed, [](const auto& entry) { return entry.second.vanished; });
  for (auto& [id, seen] : observed) seen.home |= containers_.at(id).stuckMayTake;  // as good as held
  return observed;
}

void Drc::Impl::observeInto(Observed& observed, const ContainerRecord& container) const {
  if (!container.registered) return;
  const auto seen = ports_.controller.observe(container.id);
  if (!seen || seen->vanished) return;
  observed[container.id] = *seen;
  observed[container.id].home |= container.stuckMayTake;  // as good as held
}

allocation::ContainerState Drc::Impl::containerState(const ContainerRecord& container, const Observed& observed) const {
  allocation::ContainerState state;
  state.id = container.id;
  state.role = container.role.role;
  state.floor = container.role.floor;
  state.home = container.wanted.home;
  state.memoryNodes = container.wanted.memoryNodes;
  state.resident = container.resident;
  state.expected = container.expected;
  state.memoryPressure = container.waitsForMemory ? config_.allocation.memoryPressure : 0;
  state.awakeLoanLanes = container.wanted.awakeLoanLanes;
  if (state.awakeLoanLanes > 0) state.loans = container.wanted.loans;
  const auto seen = observed.find(container.id);
  const bool placed = seen != observed.end() && !seen->second.home.empty();
  if (!placed) {  // its place in the plan is a claim: what another holds against the plan, or bars as isolated, it does not have
    for (const auto& [id, other] : observed) {
      if (id == container.id) continue;
      const ContainerRecord& holder = containers_.at(id);
      const GroupRecord& owner = groups_.at(holder.group);
      const GroupRecord& group = groups_.at(container.group);
      state.home -= closedBy(owner, other.home - holder.wanted.home, group);
      state.home -= barredBy(owner, other.home, group);  // one of the two may be isolated since that plan
    }
  }
  if (seen == observed.end()) return state;   // loading, or beyond control
  const bool held = seen->second.memoryHeld;  // else there is nothing to write, and nothing to pay for
  state.memoryNodes = held ? seen->second.memoryNodes : container.wanted.memoryNodes;
  if (!held && state.memoryNodes.empty()) state.memoryNodes = memoryMap_->nearest(placed ? seen->second.home : state.home);
  // Nothing was written yet: what it loaded lies wherever it pleased, and moving that has its price.
  if (held && state.memoryNodes.empty() && ports_.controller.traits().memoryNodes && container.resident.value > 0) {
    for (const MemoryNode& node : machine_.memoryNodes) state.memoryNodes.add(node.id);
  }
  if (placed) {
    state.home = seen->second.home;
    if (state.awakeLoanLanes > 0) state.loans = seen->second.loans - seen->second.home;  // parked on the home they borrow nothing
    if (state.loans.empty()) state.awakeLoanLanes = 0;
  }
  if (ports_.controller.traits().weights) state.cpuWeight = seen->second.weight;
  return state;
}

allocation::GroupState Drc::Impl::stateOf(const GroupSpec& spec, const GroupRecord* group) const {
  allocation::GroupState state;
  state.id = spec.id;
  state.tenant = spec.tenant;
  state.band = spec.band;
  state.tenantWeight = spec.tenantWeight;
  state.weight = spec.weight;
  state.tenantCap = spec.tenantCap;
  state.floor = spec.floor;
  state.ceiling = spec.ceiling.value > 0 ? spec.ceiling : kNoCeiling;
  state.latencyCritical = spec.latencyCritical;
  state.lend = spec.lend;
  state.isolation = spec.isolation;
  state.joined = ports_.loop.clock().now();
  if (group == nullptr) return state;
  state.joined = group->joined;
  state.demand = group->demand;
  state.queuedBeyondOwnLanes = group->sample.queuedBeyondOwnLanes;
  state.demandBelowEntitlementSince = group->belowSince;
  state.lastOptionalMove = group->lastOptionalMove;
  return state;
}

allocation::Snapshot Drc::Impl::snapshotOf(const Observed& observed) const {
  allocation::Snapshot snapshot;
  snapshot.machine = &machine_;
  snapshot.reserved = reserved_;
  snapshot.bucket = bucket_;
  snapshot.migration = migration_;
  snapshot.memoryFree = memoryFree_;
  snapshot.now = ports_.loop.clock().now();
  for (const auto& [id, group] : groups_) {
    allocation::GroupState state = stateOf(group.spec, &group);
    std::optional<int> lanes;  // the least that every app has; those that still load have none yet
    for (const auto& [instance, container] : containers_) {
      if (container.group != id) continue;
      state.containers.push_back(containerState(container, observed));
      const int here = static_cast<int>(container.loanLanes.size());
      if (container.role.role == ContainerRole::App) lanes = lanes ? std::min(*lanes, here) : here;
      if (group.inPool) snapshot.pool |= state.containers.back().home;
    }
    state.loanLanes = lanes.value_or(0);
    if (!state.containers.empty()) snapshot.groups.push_back(std::move(state));
  }
  return snapshot;
}

// All that are promised a floor, without an older form of the newcomer; and the newcomer.
std::pair<allocation::Snapshot, allocation::GroupState> Drc::Impl::besideNewcomer(const GroupSpec& newcomer) const {
  allocation::Snapshot snapshot = snapshotOf({});
  std::erase_if(snapshot.groups, [&](const allocation::GroupState& group) { return group.id == newcomer.id; });
  allocation::ContainerState promised;
  promised.id = InstanceId(std::numeric_limits<std::int32_t>::max());
  for (const auto& [id, group] : groups_) {  // admitted, not started yet: their floors are promised
    const bool present =
        std::any_of(snapshot.groups.begin(), snapshot.groups.end(), [&](const allocation::GroupState& state) { return state.id == id; });
    if (present || id == newcomer.id || group.removing) continue;
    promised.id.value -= 1;
    snapshot.groups.push_back(stateOf(group.spec, &group));
    snapshot.groups.back().containers.push_back(promised);
  }
  std::sort(snapshot.groups.begin(), snapshot.groups.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  allocation::GroupState state = stateOf(newcomer, nullptr);
  promised.id = InstanceId(std::numeric_limits<std::int32_t>::max());
  state.containers.push_back(promised);
  return {std::move(snapshot), std::move(state)};
}

MilliCpu Drc::Impl::missingForFloor(const GroupSpec& newcomer) const {
  const auto [snapshot, state] = besideNewcomer(newcomer);
  return allocation::missingForFloor(snapshot, state);
}

std::optional<allocation::UnitShortage> Drc::Impl::unitShortage(const GroupSpec& newcomer) const {
  const auto [snapshot, state] = besideNewcomer(newcomer);
  return allocation::unitShortage(snapshot, state);
}

// The homes that the plan's steps lead to. Not always its targets: what a Pending group still holds is left to it until its containers have ended.
std::map<InstanceId, CpuSet> Drc::Impl::homesAfter(const allocation::Plan& plan, const allocation::Snapshot& snapshot) {
  std::map<InstanceId, CpuSet> homes;
  for (const allocation::GroupState& group : snapshot.groups) {
    for (const allocation::ContainerState& container : group.containers) homes[container.id] = container.home;
  }
  for (const allocation::Step& step : plan.steps) {
    if (isHomeStep(step.kind)) homes[step.container] = step.cpus;
  }
  return homes;
}

void Drc::Impl::adopt(const allocation::Plan& plan, const std::map<InstanceId, CpuSet>& homes) {
  pool_ = plan.pool;
  bucket_ = plan.bucket;
  migration_ = plan.migration;
  const Instant now = ports_.loop.clock().now();
  for (auto& [id, group] : groups_) group.reasons.clear();
  for (const allocation::Reason& reason : plan.reasons) {
    if (const auto found = groups_.find(reason.group); found != groups_.end()) found->second.reasons.push_back(reason);
  }
  const auto lent = [](const auto& entry) { return entry.second.wanted.awakeLoanLanes > 0; };
  if (std::any_of(containers_.begin(), containers_.end(), lent)) accountUse();  // before loans change owners
  for (const allocation::GroupTarget& target : plan.groups) {
    const auto found = groups_.find(target.id);
    if (found == groups_.end()) continue;
    GroupRecord& group = found->second;
    group.entitlement = target.entitlement;
    group.inPool = target.inPool;
    if (target.moved) group.lastOptionalMove = now;
    for (allocation::ContainerTarget container : target.containers) {
      if (homes.at(container.id) != container.home) container.memoryNodes = {};  // it does not get there yet: they stay as they are
      if (!target.pending) container.home = homes.at(container.id) & usable();
      if (const auto record = containers_.find(container.id); record != containers_.end()) adoptTarget(record->second, group, container);
    }
    group.loansPlannedFor = loansWanted(group);  // with the new entitlement and what is awake now
    if (std::exchange(group.pending, target.pending) != target.pending) ports_.listener.pendingChanged(target.id, target.pending);
  }
  againTimer_.reset();
  if (plan.decideAgainAt) {
    againTimer_ = ports_.loop.after(std::max(Nanos{config_.tickInterval} / 10, *plan.decideAgainAt - now), [this] { schedule(Trigger::Time); });
  }
}

void Drc::Impl::adoptTarget(ContainerRecord& container, GroupRecord& group, const allocation::ContainerTarget& target) {
  Wanted& wanted = container.wanted;
  if (wanted.home != target.home) {
    if (!wanted.home.empty()) ++group.counters.moves;
    group.changes.push_back({ports_.loop.clock().wall(), container.id, wanted.home, target.home, trigger_.value_or(Trigger::Start)});
    if (group.changes.size() > config_.changesKept) group.changes.pop_front();
  }
  wanted = {target.home, target.loans, target.memoryNodes, target.ownLanes, target.awakeLoanLanes};
  if (!target.home.empty()) {
    hints_[{group.spec.service, container.ordinal}] = {group.spec.service, container.ordinal, target.home, group.inPool};
  } else {
    wanted.ownLanes = 0;  // Pending: it keeps no CPU
  }
}

// What the taker must leave alone while the holder is on `held`: that, and what isolation bars.
CpuSet Drc::Impl::closedBy(const GroupRecord& holder, const CpuSet& held, const GroupRecord& taker) const {
  return held | barredBy(holder, held, taker);
}

// Between tenants the whole units of whichever of the two is isolated.
CpuSet Drc::Impl::barredBy(const GroupRecord& holder, const CpuSet& held, const GroupRecord& taker) const {
  CpuSet units;
  if (holder.spec.tenant == taker.spec.tenant) return units;
  for (const Isolation isolation : {holder.spec.isolation, taker.spec.isolation}) {
    if (isolation != Isolation::None) units |= allocation::unitsOf(machine_, held, isolation);
  }
  return units;
}

// A container whose place in the plan did not change, but whose threads are not there yet (it has just become ready, or was thrown out of a set that
// went offline). CPUs that somebody still holds without wanting them are waited for, or done without where nobody is about to free them (a Pending
// group's).
void Drc::Impl::addPlacings(std::vector<allocation::Step>& steps, const Observed& observed) const {
  const auto homeStepsOf = [&](InstanceId id) {
    std::vector<int> indices;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (isHomeStep(steps[i].kind) && steps[i].container == id) indices.push_back(static_cast<int>(i));
    }
    return indices;
  };
  std::vector<allocation::Step> placings;
  for (const auto& [id, seen] : observed) {
    const ContainerRecord& container = containers_.at(id);
    if (!seen.home.empty() || container.wanted.home.empty() || !homeStepsOf(id).empty()) continue;
    allocation::Step step;
    step.kind = allocation::StepKind::WidenHome;
    step.container = id;
    step.group = container.group;
    step.cpus = container.wanted.home;
    for (const auto& [otherId, other] : observed) {
      const ContainerRecord& holder = containers_.at(otherId);
      const CpuSet leaving = closedBy(groups_.at(holder.group), other.home - holder.wanted.home, groups_.at(container.group));
      if (otherId == id || !leaving.intersects(step.cpus)) continue;
      const std::vector<int> frees = homeStepsOf(otherId);
      step.waitsFor.insert(step.waitsFor.end(), frees.begin(), frees.end());
      if (frees.empty()) step.cpus -= leaving;
    }
    if (!step.cpus.empty()) placings.push_back(std::move(step));
  }
  steps.insert(steps.end(), placings.begin(), placings.end());
  awaitMemory(steps, observed);
}

// Whoever is placed by a step, by a narrowing one of what was only planned too, has its memory nodes before: what it touches from its first moment on
// is near.
void Drc::Impl::awaitMemory(std::vector<allocation::Step>& steps, const Observed& observed) {
  std::map<InstanceId, int> memory;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    allocation::Step& step = steps[i];
    if (step.kind == allocation::StepKind::SetMemoryNodes) memory[step.container] = static_cast<int>(i);
    const auto seen = observed.find(step.container);
    const auto before = memory.find(step.container);
    if (isHomeStep(step.kind) && before != memory.end() && seen != observed.end() && seen->second.home.empty())
      step.waitsFor.push_back(before->second);
  }
}

// CPUs of a container whose write has not returned cannot be had now: their takers do without them, until it returns and is planned again.
void Drc::Impl::doWithoutStuck(std::vector<allocation::Step>& steps, const Observed& observed) {
  for (const auto& [id, seen] : observed) {
    const ContainerRecord& stuck = containers_.at(id);
    if (stuck.stuckWrites == 0) continue;
    for (allocation::Step& step : steps) {
      const auto taker = containers_.find(step.container);
      if (taker == containers_.end() || taker->second.group == stuck.group || step.kind != allocation::StepKind::WidenHome) continue;
      const CpuSet closed = closedBy(groups_.at(stuck.group), seen.home, groups_.at(taker->second.group));
      const CpuSet left = step.cpus - closed;
      if (left.empty() || left == step.cpus) continue;  // nothing else to have: it waits
      step.cpus = left;
      taker->second.wanted.home -= closed;
      std::erase_if(step.waitsFor, [&, holder = id](int other) { return steps[static_cast<std::size_t>(other)].container == holder; });
    }
  }
}

void Drc::Impl::takeHint(ContainerRecord& container) {
  GroupRecord& group = groups_.at(container.group);
  const auto found = hints_.find({group.spec.service, container.ordinal});
  if (found == hints_.end()) return;
  const HomeHint& hint = found->second;
  if (hint.home.empty() || !hint.home.isSubsetOf(usable())) return;
  const bool joins = std::any_of(containers_.begin(), containers_.end(),
                                 [&](const auto& entry) { return entry.second.group == container.group && entry.first != container.id; });
  if (joins && hint.inPool != group.inPool) return;  // of a time when its group was elsewhere
  for (const auto& [id, other] : containers_) {
    const bool shared = hint.inPool && groups_.at(other.group).inPool;
    if (id != container.id && !shared && closedBy(groups_.at(other.group), other.wanted.home, group).intersects(hint.home))
      return;  // somebody has it now
  }
  container.wanted.home = hint.home;
  group.inPool = group.inPool || hint.inPool;
}

void Drc::Impl::saveHints() {
  std::vector<HomeHint> hints;
  for (const auto& [key, hint] : hints_) hints.push_back(hint);
  if (hints == savedHints_) return;
  ports_.journal.save(hints);
  savedHints_ = std::move(hints);
}

}  // namespace coterie::agent
