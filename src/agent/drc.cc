#include "agent/drc.h"

#include <algorithm>
#include <utility>

#include "agent/drc_impl.h"
#include "base/log.h"

namespace coterie::agent {

std::string_view triggerName(Trigger trigger) {
  switch (trigger) {
    case Trigger::Start: return "Start";
    case Trigger::GroupAdded: return "GroupAdded";
    case Trigger::GroupRemoved: return "GroupRemoved";
    case Trigger::GroupResized: return "GroupResized";
    case Trigger::InstanceStarting: return "InstanceStarting";
    case Trigger::InstanceReady: return "InstanceReady";
    case Trigger::InstanceEnded: return "InstanceEnded";
    case Trigger::MachineChanged: return "MachineChanged";
    case Trigger::Demand: return "Demand";
    case Trigger::Memory: return "Memory";
    case Trigger::Drift: return "Drift";
    case Trigger::Retry: return "Retry";
    case Trigger::Unfrozen: return "Unfrozen";
    case Trigger::Time: return "Time";
  }
  return "Unknown";
}

CpuSet defaultReserved(const Machine& machine) {
  constexpr int kFloatsBelow = 8;
  constexpr int kCpusPerReserved = 32;
  const int cpus = machine.allowed.count();
  CpuSet reserved;
  if (cpus < kFloatsBelow) return reserved;
  const int wanted = (cpus + kCpusPerReserved - 1) / kCpusPerReserved;
  for (const Cpu& cpu : machine.cpus) {
    if (reserved.count() >= wanted) break;
    if (machine.allowed.contains(cpu.id)) reserved |= machine.domains[static_cast<std::size_t>(cpu.core)].cpus & machine.allowed;
  }
  return reserved;
}

Drc::Impl::Impl(Ports ports, DrcConfig config) : ports_(std::move(ports)), config_(std::move(config)) {
  config_.allocation.memoryNodes = ports_.controller.traits().memoryNodes;
}

Status Drc::Impl::start() {
  Result<Machine> machine = ports_.machine.read();
  if (!machine) return machine.error();
  const Result<MachineSets> sets = ports_.machine.poll();
  if (!sets) return sets.error();
  sets_ = *sets;
  ancestors_ = machine->allowed;
  adoptMachine(std::move(*machine));
  for (const HomeHint& hint : ports_.journal.load()) {
    hints_[{hint.service, hint.ordinal}] = hint;
    if (hint.inPool) pool_ |= hint.home & usable();
    savedHints_.push_back(hint);
  }
  bucket_ = {MilliCpu(std::max(2, usable().count() / 8) * 1000), ports_.loop.clock().now()};
  migration_ = {config_.allocation.migrationPerMinute, ports_.loop.clock().now()};
  ports_.applier.setProgress([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) onProgress();
  });
  started_ = true;
  placeSystem();
  beginClasses();
  pollTimer_ = ports_.loop.after(config_.pollInterval, [this] { poll(); });
  schedule(Trigger::Start);
  return {};
}

void Drc::Impl::adoptMachine(Machine machine) {
  machine_ = std::move(machine);
  memoryMap_.emplace(machine_);
  reserved_ = (config_.reserved ? *config_.reserved : defaultReserved(machine_)) & machine_.allowed;
  ancestors_ &= machine_.online;  // cgroup v1 cuts CPUs that went offline by itself
  memoryFree_ = ports_.machine.memoryFree();
  memoryLooked_ = ports_.loop.clock().now();
  units_ = allocation::isolationUnits(allocation::makeLayout(machine_, reserved_));
}

void Drc::Impl::placeSystem() {
  const Status placed = ports_.controller.placeSystem(reserved_);
  if (!placed && !std::exchange(systemWarned_, true)) log::warning("agent", placed.error().message);
}

void Drc::Impl::schedule(Trigger trigger) {
  due_ = true;
  trigger_ = trigger;
  planDue(joinsBurst(trigger) ? Urgency::Waits : Urgency::AtOnce);
  followHurry();
}

// Does the event come so soon after another one that it waits for those that follow?
bool Drc::Impl::joinsBurst(Trigger trigger) {
  const bool joins = trigger == Trigger::GroupAdded || trigger == Trigger::GroupRemoved || trigger == Trigger::GroupResized ||
                     trigger == Trigger::InstanceStarting || trigger == Trigger::InstanceReady || trigger == Trigger::InstanceEnded ||
                     trigger == Trigger::MachineChanged;
  if (!joins) return false;
  const Instant now = ports_.loop.clock().now();
  const bool close = lastEvent_ && now - *lastEvent_ < config_.burstQuiet;
  lastEvent_ = now;
  if (close && !burstSince_) burstSince_ = now;
  return close;
}

void Drc::Impl::planDue(Urgency urgency) {
  if (!started_ || frozen_ || posted_ || current_.batch) return;
  if (urgency == Urgency::Waits && burstSince_) {
    const Instant until = std::min(*lastEvent_ + config_.burstQuiet, *burstSince_ + config_.burstMost);
    const Nanos pause = until - ports_.loop.clock().now();
    if (pause > Nanos{0}) {
      burstTimer_ = ports_.loop.after(pause, [this] { planDue(Urgency::AtOnce); });
      return;
    }
  }
  posted_ = true;
  ports_.loop.post([this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    posted_ = false;
    planNow();
    followHurry();
  });
}

void Drc::Impl::setGroup(const GroupSpec& spec) {
  const auto [found, fresh] = groups_.try_emplace(spec.id);
  GroupRecord& group = found->second;
  const bool same = !fresh && group.spec == spec && !group.removing;
  if (fresh) group.joined = ports_.loop.clock().now();
  group.spec = spec;
  group.removing = false;
  if (!same) schedule(fresh ? Trigger::GroupAdded : Trigger::GroupResized);
}

void Drc::Impl::removeGroup(GroupId id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return;
  std::erase_if(hints_, [&](const auto& entry) { return entry.first.first == found->second.spec.service; });
  const bool empty = std::none_of(containers_.begin(), containers_.end(), [&](const auto& entry) { return entry.second.group == id; });
  found->second.removing = true;  // its containers keep their CPUs until they have ended
  if (empty) groups_.erase(found);
  schedule(Trigger::GroupRemoved);
}

int Drc::Impl::freeOrdinal(GroupId group) const {
  std::set<int> taken;
  for (const auto& [id, container] : containers_) {
    if (container.group == group) taken.insert(container.ordinal);
  }
  int ordinal = 0;
  while (taken.count(ordinal) > 0) ++ordinal;
  return ordinal;
}

ContainerRecord& Drc::Impl::containerFor(GroupId group, InstanceId instance) {
  const auto found = containers_.find(instance);
  if (found != containers_.end()) return found->second;
  ContainerRecord container;
  container.id = instance;
  container.group = group;
  container.ordinal = freeOrdinal(group);
  container.published.instance = instance;
  ContainerRecord& placed = containers_.emplace(instance, std::move(container)).first->second;
  takeHint(placed);
  return placed;
}

void Drc::Impl::instanceStarting(GroupId group, InstanceId instance, Bytes expected, const InstanceRole& role) {
  if (groups_.count(group) == 0) return;
  ContainerRecord& container = containerFor(group, instance);
  container.expected = expected;
  container.role = role;
  schedule(Trigger::InstanceStarting);
}

void Drc::Impl::instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) {
  if (groups_.count(group) == 0) return;
  ContainerRecord& container = containerFor(group, instance);
  container.ready = true;
  container.width = std::max(1, ready.width);
  container.resident = ready.steadyMemory;
  container.expected = ready.peakMemory;  // measured: what was expected counts no more
  container.threads = {instance, ready.pid, ready.ownLaneThreads, ready.loanLaneThreads, ready.serviceThreads};
  for (const int tid : ready.ownLaneThreads) container.ownLanes.push_back({tid, {}, {}, {}, false});
  for (const int tid : ready.loanLaneThreads) container.loanLanes.push_back({tid, {}, {}, {}, false});
  registerContainer(container);
  if (frozen_) {  // no plan will come: it takes the place it had, or floats with one lane
    container.wanted.ownLanes = std::max(1, container.wanted.home.count());
    if (!container.wanted.home.empty() && !current_.batch) {
      allocation::Step step;
      step.kind = allocation::StepKind::WidenHome;
      step.container = instance;
      step.group = group;
      step.cpus = container.wanted.home;
      apply({step});
    } else {
      publish(container, {instance, 1, 0});
      announce();
    }
  }
  schedule(Trigger::InstanceReady);
}

void Drc::Impl::registerContainer(ContainerRecord& container) {
  const Status added = ports_.controller.add(container.threads);
  container.registered = added.ok();
  if (container.resident.value == 0) container.resident = ports_.controller.memoryOf(container.id).resident;
  for (std::vector<LaneTrack>* lanes : {&container.ownLanes, &container.loanLanes}) {
    for (LaneTrack& lane : *lanes) lane.cpu = ports_.controller.cpuTime(container.id, lane.tid);  // what it used while loading counts for nothing
  }
  if (added.ok()) return takeAsFound(container);
  ++groups_[container.group].counters.applyErrors;
  log::warning("agent", "cannot control instance " + std::to_string(container.id.value) + ": " + added.error().message);
}

// Where an agent before this one left it, perhaps halfway, is where it is, whatever a hint says: the plan goes on from there, and in an order that is
// safe. Who has only a hint for a CPU on which it stands, has no place there.
void Drc::Impl::takeAsFound(ContainerRecord& container) {
  const auto seen = ports_.controller.observe(container.id);
  if (!seen || seen->vanished || seen->home.empty()) return;
  container.wanted.home = seen->home;
  container.wanted.memoryNodes = seen->memoryNodes;
  GroupRecord& group = groups_.at(container.group);
  if (!seen->home.isSubsetOf(pool_)) group.inPool = false;  // it was on its way out when the hint was written
  for (auto& [id, other] : containers_) {
    const GroupRecord& owner = groups_.at(other.group);
    const bool shared = other.group == container.group || (group.inPool && owner.inPool);
    if (shared || id == container.id) continue;
    const CpuSet closed = closedBy(group, seen->home, owner);
    if (!other.wanted.home.intersects(closed)) continue;  // nothing to take from it: not worth reading back
    const auto others = ports_.controller.observe(id);    // not registered: unknown
    if (!others || others->home.empty()) other.wanted.home -= closed;
  }
}

void Drc::Impl::instanceEnded(InstanceId instance) {
  const auto found = containers_.find(instance);
  if (found == containers_.end()) return;
  const GroupId group = found->second.group;
  ports_.controller.remove(instance);
  containers_.erase(found);
  current_.unsettled.erase(instance);
  const auto owner = groups_.find(group);
  const bool last = std::none_of(containers_.begin(), containers_.end(), [&](const auto& entry) { return entry.second.group == group; });
  if (owner != groups_.end() && owner->second.removing && last) groups_.erase(owner);
  schedule(Trigger::InstanceEnded);
}

void Drc::Impl::unfreeze() {
  if (!std::exchange(frozen_, false)) return;
  schedule(Trigger::Unfrozen);
  armTick();
}

void Drc::Impl::setPolicy(allocation::PolicyName policy) {
  config_.allocation.policy = policy;
  schedule(Trigger::GroupResized);
}

void Drc::Impl::setLending(bool lending) {
  config_.allocation.lending = lending;
  schedule(Trigger::GroupResized);
}

void Drc::Impl::setReserved(const CpuSet& reserved) {
  if (config_.reserved == reserved) return;
  config_.reserved = reserved;
  adoptMachine(machine_);
  placeSystem();
  if (classes_) classes_->lookAgain();
  schedule(Trigger::MachineChanged);
}

void Drc::Impl::shutDown() {
  frozen_ = true;
  started_ = false;
  for (TimerHandle* timer : {&pollTimer_, &tickTimer_, &deadlineTimer_, &againTimer_, &burstTimer_}) timer->reset();
  followHurry();
  if (current_.batch) current_.batch->cancelWaiting();
  if (classes_) classes_->shutDown();
  ports_.controller.restore();
}

void Drc::Impl::poll() {
  pollTimer_ = ports_.loop.after(config_.pollInterval, [this] { poll(); });
  ports_.controller.sweep();
  pollMachine();
  pollMemory();
  accountUse();
  if (frozen_ || current_.batch) return;
  checkClasses();
  for (auto& [id, container] : containers_) {
    if (!container.ready || container.registered) continue;
    registerContainer(container);
    retry_ = retry_ || container.registered;
  }
  if (due_) return;
  for (auto& [id, container] : containers_) container.repairTried = std::exchange(container.unmade, false);
  if (std::exchange(retry_, false)) return schedule(Trigger::Retry);
  if (repairDrift(observeAll(Look::Everything), Unplaced::Place)) trigger_ = Trigger::Drift;
}

void Drc::Impl::pollMachine() {
  const Result<MachineSets> sets = ports_.machine.poll();
  if (!sets || *sets == sets_) return;
  Result<Machine> machine = ports_.machine.read();
  if (!machine) return log::error("agent", "the machine changed but cannot be read: " + machine.error().message);
  log::info("agent", "CPUs changed: online " + sets_.online.toString() + " -> " + sets->online.toString() + ", allowed " + sets_.allowed.toString() +
                         " -> " + sets->allowed.toString());
  sets_ = *sets;
  adoptMachine(std::move(*machine));
  placeSystem();
  if (classes_) classes_->lookAgain();
  schedule(Trigger::MachineChanged);
}

CpuSet Drc::Impl::plannedHome(InstanceId instance) const {
  const auto found = containers_.find(instance);
  return found == containers_.end() ? CpuSet{} : found->second.wanted.home;
}

std::optional<GroupShare> Drc::Impl::shareOf(GroupId id) const {
  const auto group = groups_.find(id);
  if (group == groups_.end()) return std::nullopt;
  GroupShare share;
  share.inPool = group->second.inPool;
  share.entitlement = group->second.entitlement;
  for (const auto& [instance, container] : containers_) {
    if (container.group == id) share.home |= container.wanted.home;
  }
  return share;
}

std::map<GroupId, GroupHomes> Drc::Impl::homes() const {
  std::map<GroupId, GroupHomes> all;
  for (const auto& [id, group] : groups_) all[id].apart = group.inPool || group.pending;
  for (const auto& [id, container] : containers_) all[container.group].homes.emplace_back(id, container.wanted.home);
  return all;
}

GroupView Drc::Impl::viewOf(const GroupRecord& group) const {
  GroupView view{group.spec, group.entitlement, group.demand, {}, group.inPool, group.pending, group.sample.queued, {}, group.reasons,
                 {},         group.counters};
  for (const auto& [id, container] : containers_) {
    if (container.group != group.spec.id) continue;
    for (const int cpu : container.wanted.home) {
      if (const Cpu* found = machine_.findCpu(cpu)) view.grant += found->capacity;
    }
    view.grant += MilliCpu(1000) * container.published.loanLanes;
    view.containers.push_back({id, container.ready, container.stuckWrites > 0, container.contested || !container.limit.empty(), container.wanted.home,
                               container.wanted.loans, container.wanted.memoryNodes, container.resident, container.waitsForMemory,
                               container.published, std::nullopt, container.limit});
  }
  return view;
}

std::vector<GroupView> Drc::Impl::groups() const {
  std::vector<GroupView> views;
  for (const auto& [id, group] : groups_) views.push_back(viewOf(group));
  return views;
}

std::optional<GroupView> Drc::Impl::explainGroup(GroupId id) const {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return std::nullopt;
  GroupView view = viewOf(found->second);
  for (ContainerView& container : view.containers) {
    if (const auto observed = ports_.controller.observe(container.instance)) container.observed = *observed;
  }
  view.cacheClass = cacheClassOf(found->second);
  view.changes.assign(found->second.changes.begin(), found->second.changes.end());
  return view;
}

DrcView Drc::Impl::view() const {
  const CpuControllerTraits& traits = ports_.controller.traits();
  return {traits.name,
          traits.caveats,
          config_.allocation.policy,
          frozen_,
          machine_.online,
          machine_.allowed,
          reserved_,
          pool_,
          plans_,
          stepsApplied_,
          trigger_,
          rivals_,
          classes_ ? classes_->view() : ClassesView{}};
}

Drc::Drc(Ports ports, DrcConfig config) : impl_(std::make_unique<Impl>(std::move(ports), std::move(config))) {}
Drc::~Drc() = default;
Status Drc::start() { return impl_->start(); }
void Drc::setGroup(const GroupSpec& spec) { impl_->setGroup(spec); }
void Drc::removeGroup(GroupId id) { impl_->removeGroup(id); }
void Drc::instanceStarting(GroupId group, InstanceId instance, Bytes expected, const InstanceRole& role) {
  impl_->instanceStarting(group, instance, expected, role);
}
void Drc::instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) { impl_->instanceReady(group, instance, ready); }
void Drc::instanceEnded(InstanceId instance) { impl_->instanceEnded(instance); }
void Drc::demandChanged(GroupId group) { impl_->demandChanged(group); }
MilliCpu Drc::missingForFloor(const GroupSpec& newcomer) const { return impl_->missingForFloor(newcomer); }
std::optional<allocation::UnitShortage> Drc::unitShortage(const GroupSpec& newcomer) const { return impl_->unitShortage(newcomer); }
CpuSet Drc::plannedHome(InstanceId instance) const { return impl_->plannedHome(instance); }
std::string Drc::limitOf(InstanceId instance) const { return impl_->limitOf(instance); }
std::optional<GroupShare> Drc::shareOf(GroupId id) const { return impl_->shareOf(id); }
std::map<GroupId, GroupHomes> Drc::homes() const { return impl_->homes(); }
void Drc::freeze() { impl_->freeze(); }
void Drc::unfreeze() { impl_->unfreeze(); }
void Drc::setPolicy(allocation::PolicyName policy) { impl_->setPolicy(policy); }
void Drc::setLending(bool lending) { impl_->setLending(lending); }
void Drc::setReserved(const CpuSet& reserved) { impl_->setReserved(reserved); }
void Drc::setCacheClasses(CacheClassMode mode) { impl_->setCacheClasses(mode); }
void Drc::shutDown() { impl_->shutDown(); }
std::optional<GroupView> Drc::explainGroup(GroupId id) const { return impl_->explainGroup(id); }
std::vector<GroupView> Drc::groups() const { return impl_->groups(); }
DrcView Drc::view() const { return impl_->view(); }
const Machine& Drc::machine() const { return impl_->machine(); }
const allocation::IsolationUnits& Drc::isolationUnits() const { return impl_->isolationUnits(); }
bool Drc::settled() const { return impl_->settled(); }

}  // namespace coterie::agent
