#include "node_agent/node_agent.h"

#include <algorithm>
#include <utility>

#include "allocation/isolation_room.h"
#include "allocation/layout.h"
#include "allocation/reason_text.h"
#include "base/log.h"
#include "plan_node/node_plan.h"

namespace coterie::node_agent {

namespace {

GroupId idOf(std::size_t number) { return GroupId(static_cast<std::int32_t>(number)); }
std::size_t numberOf(GroupId group) { return static_cast<std::size_t>(group.value); }

}  // namespace

std::string containerName(const foreign::FoundContainer& container) {
  return (container.name.id.empty() ? "process" : std::string(foreign::runtimeName(container.name.runtime))) + " " + shortName(container);
}

NodeAgent::NodeAgent(Ports ports, NodeAgentConfig config)
    : ports_(std::move(ports)),
      config_(std::move(config)),
      book_(std::move(config_.file)),
      machineMeter_(Nanos{config_.window}),
      usedMeter_(Nanos{config_.window}) {}

NodeAgent::~NodeAgent() = default;

Status NodeAgent::start() {
  auto machine = ports_.machine.read();
  if (!machine) return machine.error();
  const auto sets = ports_.machine.poll();
  if (!sets) return sets.error();
  machine_ = std::move(machine).value();
  sets_ = *sets;
  if (const std::string fault = notOfThisMachine(book_.file()); !fault.empty()) return Error{Code::InvalidArgument, "NoSuchCpu", fault};
  reserved_ = book_.file().reserved.value_or(agent::defaultReserved(machine_)) & machine_.allowed;
  if (ports_.meter != nullptr) watch_.emplace(*ports_.meter, ContainerWatch::Sets::Read);
  if (book_.file().mode == Mode::Enforce && ports_.openActuators) {
    const auto actuators = ports_.openActuators(book_.file());  // what a dead run had set is given back in any case
    if (!actuators) return actuators.error();
    if (kubeletOwns(book_.file())) {
      endEnforcing(kKubeletOwns);
    } else if (const Status begun = beginEnforcing(*actuators); !begun) {
      return begun;
    }
  }
  tick();
  return {};
}

// Those who are members already are told, too.
Status NodeAgent::beginEnforcing(const Actuators& actuators) {
  mode_ = Mode::Enforce;
  claims_ = false;  // the machine is the enforcer's
  actuators_ = actuators;
  if (watch_) watch_->readSets(ContainerWatch::Sets::KnownOtherwise);
  agent::DrcConfig config;
  config.reserved = reserved_;
  config.cacheClasses = book_.file().cacheClasses;
  config.allocation.lending = false;  // containers of others have no lanes in the kernel's idle class
  drc_ = std::make_unique<agent::Drc>(agent::Drc::Ports{ports_.loop, *actuators_.controller, ports_.machine, *actuators_.applier, homes_, *this,
                                                        [](GroupId) { return agent::DemandSample{}; }, ports_.rivals, actuators_.cacheClasses,
                                                        [this](InstanceId id) { return processesOf(id); }},
                                      config);
  for (const std::size_t number : book_.numbers()) drc_->setGroup(book_.specOf(number));
  if (Status started = drc_->start(); !started) return started;
  for (const auto& [id, container] : roster_.members()) tellReady(id);
  why_.clear();
  return {};
}

// The machine stays claimed.
void NodeAgent::giveBackAll() {
  mode_ = Mode::Observe;
  yieldBy_.reset();
  if (watch_) watch_->readSets(ContainerWatch::Sets::Read);
  if (drc_ == nullptr) return;
  lendTimer_.reset();
  lending_.clear();
  drc_->shutDown();
  withdrawHints();
  drc_.reset();
  quotas_.clear();
  lanes_.clear();
}

void NodeAgent::endEnforcing(const std::string& why) {
  giveBackAll();
  if (ports_.closeActuators) ports_.closeActuators();
  tryAt_ = ports_.loop.clock().now() + kTriesAgain;
  ++changes_;
  observeBecause(why);
  planObserved();
}

// Empty: it was told to.
void NodeAgent::observeBecause(const std::string& why) {
  if (why_ == why) return;
  why_ = why;
  ++changes_;
  if (!why.empty()) log::warning("agent", why);
}

// What is being written would land after what is given back.
void NodeAgent::watchKubelet() {
  if (mode_ != Mode::Enforce) return;
  if (!kubeletOwns(book_.file())) return yieldBy_.reset();
  const Instant now = ports_.loop.clock().now();
  if (!yieldBy_) yieldBy_ = now + kWaitsForWrites;
  if (quiet() || now >= *yieldBy_) endEnforcing(kKubeletOwns);
}

void NodeAgent::tick() {
  timer_ = ports_.loop.after(config_.scanInterval, [this] { tick(); });
  watchKubelet();
  tryAgain();
  const bool machineChanged = pollMachine();
  const bool membersChanged = scan();
  watchNow();
  measure();
  lend();
  if (!machineChanged && !membersChanged) return;
  ++changes_;
  if (mode_ == Mode::Observe) planObserved();
}

bool NodeAgent::scan() {
  auto processes = ports_.processes.scan();
  if (!processes) {
    if (!std::exchange(scanFailed_, true)) log::error("agent", processes.error().message);
    return false;  // who is there is not known: all stay as they are
  }
  scanFailed_ = false;
  if (*processes == lastScan_) return false;
  const SeenProcesses before = std::exchange(lastScan_, std::move(*processes));
  if (before != nullptr && !foreign::mayFindOthers(book_.rules(), *before, *lastScan_, owned_, config_.self)) return false;
  return updateMembers(book_);
}

// Who is whose by the configuration in force; before: the one by which those who leave belonged.
bool NodeAgent::updateMembers(const GroupBook& before) {
  if (lastScan_ == nullptr) return false;  // no scan has come out yet
  foreign::Discovery found = book_.discover(*lastScan_, config_.self);
  for (const std::string& remark : found.remarks) {
    if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) log::warning("agent", remark);
  }
  remarks_ = std::move(found.remarks);
  const foreign::Roster::Change change = roster_.update(std::move(found.containers));
  owned_.clear();
  for (const auto& [id, container] : roster_.members()) {
    for (const SeenProcess& process : container.processes) owned_.insert(process.pid);
  }
  for (const auto& [id, container] : change.left) {
    meters_.erase(id);
    log::info("agent", containerName(container) + " of " + before.group(container.group).name + " has gone");
  }
  for (const InstanceId id : change.joined) {
    const foreign::FoundContainer& container = roster_.members().at(id);
    log::info("agent", containerName(container) + " belongs to " + book_.group(container.group).name + ": " + container.processes.front().command);
  }
  watchMembers(change);
  if (mode_ == Mode::Enforce) tellDrc(change);
  return change.any();
}

void NodeAgent::tellDrc(const foreign::Roster::Change& change) {
  if (change.any()) parkLoans();
  for (const auto& [id, container] : change.left) takeBack(id, container);
  for (const InstanceId id : change.joined) tellReady(id);
  for (const InstanceId id : change.recast) {
    const foreign::FoundContainer& container = roster_.members().at(id);
    drc_->instanceStarting(idOf(container.group), id, {}, {container.role, container.floor});
    if (container.role != ContainerRole::App) withdrawHint(id, true);
  }
}

void NodeAgent::tellReady(InstanceId id) {
  const foreign::FoundContainer& container = roster_.members().at(id);
  InstanceReady ready;
  ready.pid = container.pid();
  ready.ownLaneThreads.assign(static_cast<std::size_t>(std::max(1, machine_.online.count())),
                              0);  // it may run that many; which they are is its business
  if (container.role != ContainerRole::App) drc_->instanceStarting(idOf(container.group), id, {}, {container.role, container.floor});
  drc_->instanceReady(idOf(container.group), id, ready);
}

// It has ended, or it lives on and is no member any more: then it is given back by who its processes are now.
void NodeAgent::takeBack(InstanceId id, const foreign::FoundContainer& container) {
  foreign::FoundContainer living = container;
  std::erase_if(living.processes, [&](const SeenProcess& one) {
    const auto same = [&](const SeenProcess& seen) { return seen.pid == one.pid && seen.started == one.started; };
    return lastScan_ == nullptr || std::none_of(lastScan_->begin(), lastScan_->end(), same);
  });
  const bool lives = !living.processes.empty();
  if (lives) leaving_.emplace(id, std::move(living));
  drc_->instanceEnded(id);
  withdrawHint(id, lives && leaving_->second.pid() == container.pid());
  leaving_.reset();
  lanes_.erase(id);
}

bool NodeAgent::pollMachine() {
  const auto sets = ports_.machine.poll();
  if (!sets || *sets == sets_) return false;
  auto machine = ports_.machine.read();
  if (!machine) return false;
  sets_ = *sets;
  machine_ = std::move(machine).value();
  reserved_ = book_.file().reserved.value_or(agent::defaultReserved(machine_)) & machine_.allowed;
  if (drc_ != nullptr && book_.file().reserved) drc_->setReserved(reserved_);  // one that was offline may have come
  return true;
}

void NodeAgent::measure() {
  const Instant now = ports_.loop.clock().now();
  const Nanos span = lastLook_ != Instant{} ? now - lastLook_ : Nanos{0};
  machineRunnable_ += span * ports_.processes.runnable();
  lastLook_ = now;
  machineMeter_.look(now, {{0, machineRunnable_, {}}});
  usedMeter_.look(now, {{0, ports_.processes.used(), {}}});
  for (const auto& [id, container] : roster_.members()) measureContainer(id, container, now, span);
}

// ---- Hints ----
void NodeAgent::lanesChanged(GroupId /*group*/, const std::vector<agent::LaneAllowance>& lanes) {
  for (const agent::LaneAllowance& lane : lanes) {
    if (lane.ownLanes <= 0) continue;
    lanes_[lane.instance] = lane.ownLanes;
    matchQuota(lane.instance);
    const auto loans = lending_.loans().find(lane.instance);
    hintFor(lane.instance, loans != lending_.loans().end() ? loans->second : CpuSet{});
  }
}

// As many threads as it owns CPUs, and one for each that is lent to it.
void NodeAgent::hintFor(InstanceId id, const CpuSet& loans) {
  const auto own = lanes_.find(id);
  if (own == lanes_.end()) return;
  const foreign::FoundContainer* container = member(id);
  // What it cannot have is no help to it: told is what is in force.
  const CpuSet inForce = container == nullptr || drc_->limitOf(id).empty() ? CpuSet{} : ports_.processes.cpus(container->pid());
  if (inForce.empty()) return tell(id, {own->second + loans.count(), drc_->plannedHome(id) | loans});
  tell(id, {std::min(own->second + loans.count(), inForce.count()), inForce});
}

void NodeAgent::pendingChanged(GroupId group, bool pending) {
  if (!book_.has(numberOf(group))) return;
  const std::string& name = book_.group(numberOf(group)).name;
  if (pending) {
    log::warning("agent", name + ": its floor or its isolation cannot be had; it keeps the CPUs it has. `coterie top --node` says why");
  } else {
    log::info("agent", name + ": its floor and its isolation fit again");
  }
}

void NodeAgent::tell(InstanceId id, const ThreadHint& hint) {
  const foreign::FoundContainer* container = member(id);
  if (container == nullptr || !ports_.sendHint || container->role != ContainerRole::App) return;
  const HintSpec& spec = book_.group(container->group).hints;
  if (!spec.any() || (hints_.count(id) > 0 && hints_.at(id) == hint)) return;
  hints_[id] = hint;
  toldAt_[id] = ports_.loop.clock().now();
  told_.insert_or_assign(id, Told{*container, spec});
  const Status sent = ports_.sendHint(spec, *container, hint);
  if (!sent && warned_.insert(sent.error().message).second) log::warning("agent", sent.error().message);
}

// Of one that has ended the file is nobody's any more; a signal might meet a process that is another one by now.
void NodeAgent::withdrawHint(InstanceId id, bool lives) {
  hints_.erase(id);
  toldAt_.erase(id);
  const auto told = told_.find(id);
  if (told == told_.end()) return;
  const HintSpec& spec = told->second.spec;
  if (lives) {
    static_cast<void>(ports_.sendHint(spec, told->second.container, {}));
  } else if (!spec.file.empty()) {
    static_cast<void>(ports_.sendHint({spec.file, ""}, told->second.container, {}));
  }
  told_.erase(told);
}

void NodeAgent::withdrawHints() {
  while (!told_.empty()) withdrawHint(told_.begin()->first, true);
}

// ---- The end ----
void NodeAgent::stop(std::function<void()> done) {
  timer_.reset();
  lendTimer_.reset();
  watchTimer_.reset();
  reloadTimer_.reset();
  giveUpClaim();
  if (drc_ == nullptr) return ports_.loop.post(std::move(done));
  awaitSettled(ports_.loop.clock().now() + kWaitsForWrites, std::move(done));
}

// A write that is under way would land after the giving back.
void NodeAgent::awaitSettled(Instant until, std::function<void()> done) {
  constexpr Millis kPause{5};
  if (quiet() || ports_.loop.clock().now() >= until) {
    drc_->shutDown();
    withdrawHints();
    return ports_.loop.post(std::move(done));
  }
  timer_ = ports_.loop.after(kPause, [this, until, done = std::move(done)]() mutable { awaitSettled(until, std::move(done)); });
}

// ---- Plans ----
const foreign::FoundContainer* NodeAgent::member(InstanceId id) const {
  if (leaving_ && leaving_->first == id) return &leaving_->second;
  const auto found = roster_.members().find(id);
  return found == roster_.members().end() ? nullptr : &found->second;
}

std::vector<int> NodeAgent::processesOf(InstanceId id) const {
  std::vector<int> pids;
  if (const foreign::FoundContainer* container = member(id)) {
    for (const SeenProcess& process : container->processes) pids.push_back(process.pid);
  }
  return pids;
}

// What would be done: the plan for those who are there, on top of what was planned for them before.
void NodeAgent::planObserved() {
  plan_node::GroupsFile file;
  file.tenants = book_.file().tenants;
  const CpuSet usable = allocation::usableCpus(machine_, reserved_);
  file.pool = pool_ & usable;
  std::map<std::size_t, std::vector<InstanceId>> members;
  for (const auto& [id, container] : roster_.members()) members[container.group].push_back(id);
  for (const auto& [g, ids] : members) {
    const AgentGroup& group = book_.group(g);
    plan_node::GroupEntry entry;
    entry.name = group.name;
    entry.tenant = group.tenant;
    entry.weight = group.weight;
    entry.floor = group.floor;
    entry.ceiling = group.ceiling;
    entry.isolation = group.isolation;
    entry.lend = allocation::Lend::Never;
    entry.loanLanes = 0;
    for (const InstanceId id : ids) {
      plan_node::ContainerEntry container;
      container.role = roster_.members().at(id).role;
      container.floor = roster_.members().at(id).floor;
      const auto before = observed_.find(g);
      if (before != observed_.end() && before->second.homes.count(id) > 0) container.home = before->second.homes.at(id) & usable;
      for (const SeenProcess& process : roster_.members().at(id).processes) container.resident += ports_.processes.resident(process.pid);
      entry.containers.push_back(std::move(container));
    }
    file.groups.push_back(std::move(entry));
  }
  observed_.clear();
  pool_ = {};
  if (file.groups.empty() || usable.empty()) return;
  const plan_node::NodePlan plan = plan_node::planNode(machine_, file, {allocation::PolicyName::Drc, reserved_, false});
  pool_ = plan.plan.pool;
  std::size_t row = 0;
  for (const auto& [g, ids] : members) {
    const allocation::GroupTarget& target = plan.plan.groups[row++];
    GroupPlan& made = observed_[g];
    made.entitlement = target.entitlement;
    made.inPool = target.inPool;
    made.pending = target.pending;
    for (std::size_t c = 0; c < ids.size(); ++c) {
      const CpuSet& home = made.homes[ids[c]] = target.containers[c].home;
      std::string limit = ports_.limitAbove && !home.empty() ? ports_.limitAbove(roster_.members().at(ids[c]), home) : std::string();
      if (!limit.empty()) made.limits.emplace(ids[c], std::move(limit));
    }
    addReasons(made, g, plan.plan.reasons, target.id, [&](GroupId id) { return std::next(members.begin(), id.value)->first; });
  }
}

// id, groupOf: the group and those that its reasons name, as the planner knows them.
void NodeAgent::addReasons(GroupPlan& plan, std::size_t group, const std::vector<allocation::Reason>& reasons, GroupId id,
                           const std::function<std::size_t(GroupId)>& groupOf) const {
  plan.waitsFor = allocation::impossibleIsolation(reasons, id);
  for (const allocation::Reason& reason : reasons) {
    if (reason.group != id || reason.code == allocation::ReasonCode::LendingOff) continue;
    const bool known = reason.other.valid() && book_.has(groupOf(reason.other));  // the plan may be older than the configuration
    const std::string other = known ? book_.group(groupOf(reason.other)).name : std::string();
    plan.reasons.push_back(allocation::reasonText(reason, book_.tenantOf(group), other).sentence);
  }
}

NodeAgent::Plans NodeAgent::plansInForce() const {
  if (mode_ == Mode::Observe) return observed_;
  Plans plans;
  for (const auto& [id, container] : roster_.members()) {
    if (plans.count(container.group) > 0) continue;
    const auto view = drc_->explainGroup(idOf(container.group));
    GroupPlan& made = plans[container.group];
    if (!view) continue;
    made.entitlement = view->entitlement;
    made.inPool = view->inPool;
    made.pending = view->pending;
    for (const agent::ContainerView& one : view->containers) {
      made.homes[one.instance] = one.home;
      if (one.contested) made.contested.insert(one.instance);
      if (!one.limit.empty()) made.limits.emplace(one.instance, one.limit);
      if (one.stuck) made.stuck.insert(one.instance);
      if (one.observed && !one.observed->home.empty()) made.held[one.instance] = one.observed->effective;
    }
    made.failedWrites = view->counters.applyErrors;
    addReasons(made, container.group, view->reasons, idOf(container.group), numberOf);
    if (!view->cacheClass.empty()) made.reasons.push_back(view->cacheClass);
  }
  return plans;
}

MilliCpu NodeAgent::ownedBy(const GroupPlan& plan) const {
  if (plan.inPool) return plan.entitlement;
  CpuSet homes;
  for (const auto& [id, home] : plan.homes) {
    const foreign::FoundContainer* container = member(id);
    if (container == nullptr || container->role != ContainerRole::Pause) homes |= home;
  }
  return capacityOf(homes);
}

int NodeAgent::threadsFor(const GroupPlan& plan, const CpuSet& home) { return plan.pending || home.empty() ? 0 : plan.inPool ? 1 : home.count(); }

ContainerReport NodeAgent::containerReport(InstanceId id, const foreign::FoundContainer& container, const GroupPlan& plan) {
  ContainerReport one;
  one.id = id;
  one.name = containerName(container);
  one.command = container.processes.front().command;
  one.pid = container.pid();
  one.processes = static_cast<int>(container.processes.size());
  const auto meter = meters_.find(id);
  if (meter != meters_.end()) one.use = meter->second.use();
  one.now = ports_.processes.cpus(container.pid());
  if (const auto home = plan.homes.find(id); home != plan.homes.end()) one.planned = home->second;
  if (const auto lent = lending_.loans().find(id); lent != lending_.loans().end()) one.loans = lent->second;
  one.threads = threadsFor(plan, one.planned) + one.loans.count();
  if (mode_ == Mode::Enforce && ports_.heldBy) one.heldBy = ports_.heldBy(id);
  one.contested = plan.contested.count(id) > 0;
  if (const auto limit = plan.limits.find(id); limit != plan.limits.end()) {
    one.limit = limit->second;
    if (!one.now.empty()) one.threads = std::min(one.threads, one.now.count());
  }
  addWatched(one, meter != meters_.end() ? meter->second.last() : foreign::Use{});
  return one;
}

AgentReport NodeAgent::report() {
  AgentReport report;
  report.mode = mode_;
  report.pid = config_.self;
  report.why = why_;
  report.reserved = reserved_;
  report.usable = allocation::usableCpus(machine_, reserved_);
  report.pool = mode_ == Mode::Enforce ? drc_->view().pool : pool_;
  report.remarks = remarks_;
  report.configuration = configured_;
  if (mode_ == Mode::Enforce) {
    for (const std::string& condition : drc_->view().classes.conditions) report.remarks.push_back("cache classes: " + condition);
  }
  const Plans plans = plansInForce();
  for (const std::size_t g : book_.numbers()) {
    const auto found = plans.find(g);
    if (found == plans.end()) {
      report.absent.push_back(book_.group(g).name);
      continue;
    }
    const GroupPlan& plan = found->second;
    GroupReport group;
    group.number = g;
    group.name = book_.group(g).name;
    group.tenant = book_.tenantOf(g);
    group.entitlement = plan.entitlement;
    group.inPool = plan.inPool;
    group.pending = plan.pending;
    group.waitsFor = plan.waitsFor;
    group.isolation = book_.group(g).isolation;
    group.hinted = book_.group(g).hints.any();
    group.reasons = plan.reasons;
    for (const auto& [id, container] : roster_.members()) {
      if (container.group != g || container.role == ContainerRole::Pause) continue;
      ContainerReport one = containerReport(id, container, plan);
      if (std::string said = throttleText(id, container); !said.empty()) group.reasons.push_back(std::move(said));
      if (!one.limit.empty()) group.reasons.push_back(limitText(one));
      if (std::string said = plan.pending ? reservedText(one) : ""; !said.empty()) group.reasons.push_back(std::move(said));
      foreign::addUse(group.use, one.use);
      group.containers.push_back(std::move(one));
    }
    group.demand = foreign::foreignDemand(group.use, ownedBy(plan));
    report.groups.push_back(std::move(group));
  }
  if (std::string said = poolRemark(report); !said.empty()) report.remarks.push_back(std::move(said));
  addIsolation(report, plans);
  addForecasts(report);
  return report;
}

}  // namespace coterie::node_agent
