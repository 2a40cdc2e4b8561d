#include "serve/bridge.h"

#include <algorithm>
#include <future>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"

namespace coterie::serve {

namespace {
constexpr int kDeadlinesPerObjective = 10;
constexpr Nanos kDefaultDeadline = Seconds(30);
}  // namespace

WorkerSide workerSide(process::ProcessRuntime& runtime) {
  WorkerSide side;
  side.setRequestArena = [&](const ServiceName& service, int fd, std::uint64_t size) { return runtime.setRequestArena(service, fd, size); };
  side.takeEndpoint = [&](InstanceId id) { return runtime.takeEndpoint(id); };
  side.violated = [&](InstanceId id, EndReason reason, const std::string& message) { runtime.violated(id, reason, message); };
  side.heard = [&](InstanceId id, const std::string& silence) { runtime.heard(id, silence); };
  return side;
}

Bridge::Bridge(EventLoop& control, EventLoop& gatewayLoop, gateway::Gateway& gateway, WorkerSide workers, EventLog& events,
               channel::ArenaOptions arena)
    : control_(control), gatewayLoop_(gatewayLoop), gateway_(gateway), workers_(std::move(workers)), events_(events), arena_(arena) {
  side_ =
      std::make_unique<GatewaySide>(gatewayLoop_, gateway_, *this, [this](const ServiceName& name, std::shared_ptr<const gateway::ServiceLoad> load) {
        control_.post([this, name, load = std::move(load)] {
          if (const auto found = services_.find(name); found != services_.end()) found->second.load = load;
        });
      });
}

Bridge::~Bridge() = default;

agent::DemandSample Bridge::sampleDemand(GroupId group) const {
  agent::DemandSample sample;
  const auto name = groups_.find(group);
  const auto service = name == groups_.end() ? services_.end() : services_.find(name->second);
  if (service == services_.end() || service->second.load == nullptr) return sample;
  const gateway::ServiceLoad& load = *service->second.load;
  sample.arrivals = MilliRps(load.arrivalsMilliPerSecond.load(std::memory_order_relaxed));
  sample.cpuPerRequest = Nanos(load.cpuNanosPerRequest.load(std::memory_order_relaxed));
  sample.queued = load.queued.load(std::memory_order_relaxed);
  sample.queuedBeyondOwnLanes = load.queuedBeyondOwnLanes.load(std::memory_order_relaxed);
  return sample;
}

GatewayFigures Bridge::figures() const {
  auto promise = std::make_shared<std::promise<GatewayFigures>>();  // shared with a closure that may run after we gave up
  auto answer = promise->get_future();
  gatewayLoop_.post([this, promise] { promise->set_value({gateway_.snapshot(), server_ != nullptr ? server_->stats() : http::ServerStats{}}); });
  if (answer.wait_for(Seconds(2)) != std::future_status::ready) return {};
  return answer.get();
}

std::optional<GroupId> Bridge::groupOf(const ServiceName& service) const {
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&](const auto& entry) { return entry.second == service; });
  return found == groups_.end() ? std::nullopt : std::optional(found->first);
}

void Bridge::setTenant(const TenantName& tenant, const TenantSpec& spec) {
  gatewayLoop_.post([this, tenant, spec] { gateway_.setTenant(tenant, {spec.namespaces, spec.weight, spec.quota, spec.band, spec.sharesBatches}); });
}

void Bridge::removeTenant(const TenantName& tenant) {
  gatewayLoop_.post([this, tenant] { gateway_.removeTenant(tenant); });
}

void Bridge::setService(const controller::GatewayService& service) {
  const ServiceName name = service.service.serviceName();
  Service& entry = services_[name];
  if (entry.arena == nullptr) {
    auto arena = channel::RequestArena::create(arena_);
    if (!arena) return log::error("serve", name.path() + ": no shared memory for requests: " + arena.error().message);
    entry.arena = std::move(arena).value();
    if (const Status shared = workers_.setRequestArena(name, entry.arena->fd(), entry.arena->size()); !shared)
      log::error("serve", shared.error().message);
  }
  const ModelServiceSpec& spec = service.service.spec;
  entry.settings.tenant = service.tenant;
  entry.settings.everybody = false;
  entry.settings.consumers.clear();
  for (const std::string& consumer : spec.consumers) {
    if (consumer == "*") {
      entry.settings.everybody = true;
    } else {
      entry.settings.consumers.emplace_back(consumer);
    }
  }
  entry.settings.tenantLimits = spec.tenantLimits;
  entry.settings.weight = spec.weight;
  entry.settings.maxBatch = spec.maxBatch;
  entry.settings.sequences.reset();
  if (spec.stateful) {
    const StatefulSpec& stateful = *spec.stateful;
    entry.settings.sequences = {stateful.maxSequences, stateful.stateMemory, stateful.memory, stateful.maxIdle, stateful.maxWaiting};
  }
  entry.settings.objective = spec.objective ? spec.objective->latency : Nanos{};
  entry.settings.deadline = spec.objective ? spec.objective->latency * kDeadlinesPerObjective : kDefaultDeadline;
  entry.settings.notReadyReason = service.notReadyReason;
  entry.settings.notReadyMessage = service.notReadyMessage;
  entry.settings.noInstanceBefore = service.noInstanceBefore;
  // Who is told to have no instance gets none however long a request waits.
  entry.settings.waitForInstance = spec.instances == 0 ? Nanos{} : gateway::ServiceSettings{}.waitForInstance;
  entry.settings.queueFormed = [this, name] {
    control_.post([this, name] {
      if (const auto group = groupOf(name)) drc_->demandChanged(*group);
    });
  };
  publish(name, entry);
}

void Bridge::publish(const ServiceName& name, const Service& service) {
  gatewayLoop_.post([this, name, settings = service.settings, arena = service.arena] { side_->setService(name, settings, arena); });
}

void Bridge::removeService(const ServiceName& service) {
  services_.erase(service);
  gatewayLoop_.post([this, service] { side_->removeService(service); });
}

void Bridge::addInstance(const ServiceName& service, const std::string& version, InstanceId instance, const InstanceReady& ready) {
  auto endpoint = workers_.takeEndpoint(instance);
  if (!endpoint) return log::error("serve", service.path() + ": " + endpoint.error().message);
  if (const auto found = services_.find(service); found != services_.end() && !ready.speeds.empty()) {
    found->second.settings.initialRun = std::max(ready.speeds.front().mean, Nanos(1000));
    publish(service, found->second);
  }
  auto shared = std::make_shared<channel::InstanceEndpoint>(std::move(endpoint).value());  // std::function wants copies; used once
  gatewayLoop_.post([this, service, version, shared] { side_->addInstance(service, version, std::move(*shared)); });
}

void Bridge::drainInstance(InstanceId instance, std::function<void()> drained) {
  gatewayLoop_.post([this, instance, drained = std::move(drained)] { side_->drainInstance(instance, [this, drained] { control_.post(drained); }); });
}

void Bridge::suspendInstance(InstanceId instance) {
  suspended_.insert(instance);
  gatewayLoop_.post([this, instance] { side_->suspendInstance(instance); });
}

void Bridge::resumeInstance(InstanceId instance) {
  suspended_.erase(instance);
  const auto told = allowances_.find(instance);
  gatewayLoop_.post([this, instance, again = told == allowances_.end() ? std::nullopt : std::optional(told->second)] {
    if (again) gateway_.setLanes(again->service, instance, again->lanes);
    side_->resumeInstance(instance);
  });
}

void Bridge::instanceGone(InstanceId instance) {
  homes_.erase(instance);
  allowances_.erase(instance);
  suspended_.erase(instance);
  gatewayLoop_.post([this, instance] { side_->instanceGone(instance); });
}

void Bridge::instanceEndedFromOutside(InstanceId instance) {
  gatewayLoop_.post([this, instance] { gateway_.endedFromOutside(instance); });
}

TenantId Bridge::tenantId(const TenantName& tenant) const {
  return tenantIds_.try_emplace(tenant, TenantId(static_cast<std::int32_t>(tenantIds_.size()))).first->second;
}

agent::GroupSpec Bridge::specOf(const controller::ServiceGroup& group) const {
  agent::GroupSpec spec;
  spec.id = group.id;
  spec.service = group.service;
  spec.tenant = tenantId(group.tenant);
  spec.band = group.band;
  spec.tenantWeight = group.tenantWeight;
  spec.weight = group.weight;
  spec.tenantCap = group.tenantCap;
  spec.floor = group.floor;
  spec.ceiling = group.ceiling;
  spec.latencyCritical = group.latencyCritical;
  spec.isolation = group.isolation;
  spec.objective = group.objective;
  return spec;
}

MilliCpu Bridge::missingForFloor(const controller::ServiceGroup& group) const { return drc_->missingForFloor(specOf(group)); }

allocation::IsolationTerms Bridge::isolationTerms(Isolation level) const {
  const agent::DrcView view = drc_->view();
  return allocation::isolationTerms(
      level, {drc_->isolationUnits(), !view.reserved.empty(), drc_->machine().virtualMachine, view.classes.ways, view.classes.othersBandwidth});
}

std::optional<allocation::UnitShortage> Bridge::unitShortage(const controller::ServiceGroup& group) const {
  return drc_->unitShortage(specOf(group));
}

void Bridge::setGroup(const controller::ServiceGroup& group) {
  groups_[group.id] = group.service;
  drc_->setGroup(specOf(group));
}

void Bridge::removeGroup(GroupId group) {
  groups_.erase(group);
  drc_->removeGroup(group);
}

void Bridge::instanceStarting(GroupId group, InstanceId instance, Bytes expected) { drc_->instanceStarting(group, instance, expected); }
void Bridge::instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) { drc_->instanceReady(group, instance, ready); }
void Bridge::instanceEnded(GroupId, InstanceId instance) { drc_->instanceEnded(instance); }

std::optional<controller::GroupLoad> Bridge::loadOf(GroupId group) const {
  const auto name = groups_.find(group);
  const auto service = name == groups_.end() ? services_.end() : services_.find(name->second);
  const auto share = drc_->shareOf(group);
  if (service == services_.end() || service->second.load == nullptr || !share || share->home.empty()) return std::nullopt;
  const gateway::ServiceLoad& now = *service->second.load;
  controller::GroupLoad load;
  load.cpus = share->inPool ? 0 : share->home.count();
  load.poolShare = share->inPool ? share->entitlement : MilliCpu(0);
  load.nodes = std::max(1, nodesOf(share->home));
  load.arrivals = MilliRps(now.arrivalsMilliPerSecond.load(std::memory_order_relaxed));
  load.waiting = static_cast<int>(now.queued.load(std::memory_order_relaxed));
  load.running = static_cast<int>(now.inFlight.load(std::memory_order_relaxed));
  return load;
}

int Bridge::nodesOf(const CpuSet& cpus) const {
  std::set<int> nodes;
  for (const int id : cpus) {
    if (const Cpu* cpu = drc_->machine().findCpu(id)) nodes.insert(cpu->node);
  }
  return static_cast<int>(nodes.size());
}

void Bridge::lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) {
  const auto name = groups_.find(group);
  if (name == groups_.end()) return;
  std::map<InstanceId, gateway::LaneAllowance> told;
  for (const auto& lane : lanes) {
    allowances_[lane.instance] = {name->second, {lane.ownLanes, lane.loanLanes}};
    if (!suspended_.contains(lane.instance)) told[lane.instance] = allowances_[lane.instance].lanes;  // else when it is resumed
  }
  gatewayLoop_.post([this, service = name->second, told = std::move(told)] {
    for (const auto& [instance, allowance] : told) gateway_.setLanes(service, instance, allowance);
  });
  // The reconciler shows homes in the status; asked on a later turn, since we are inside the DRC here.
  control_.post([this, group, lanes] { notePlaces(group, lanes); });
}

// Homes go to the status and, where they changed, to the event log; a group that spans several memory nodes is proposed as many instances, since one
// process on two nodes reaches across for half its memory (in-node.md, "Width": k = nodes spanned).
void Bridge::notePlaces(GroupId group, const std::vector<agent::LaneAllowance>& lanes) {
  const auto name = groups_.find(group);
  if (name == groups_.end()) return;
  CpuSet all;
  for (const auto& lane : lanes) {
    const CpuSet home = drc_->plannedHome(lane.instance);
    reconciler_->placed(group, lane.instance, home, {});
    if (!home.empty() && homes_[lane.instance] != home) noteMove(name->second, lane.instance, home);
    all |= home;
  }
  if (const int nodes = nodesOf(all); nodes > 0) reconciler_->proposeInstances(name->second, nodes);
}

void Bridge::noteMove(const ServiceName& service, InstanceId instance, const CpuSet& home) {
  const CpuSet before = std::exchange(homes_[instance], home);
  const auto trigger = drc_->view().lastTrigger;
  Event event;
  event.object = {std::string(kModelServiceKind), service.nameSpace, service.name};
  event.reason = "CpusChanged";
  event.message =
      "instance " + std::to_string(instance.value) + " runs on CPUs " + home.toString() + (before.empty() ? "" : ", before on " + before.toString());
  event.fields.set("instance", instance.value);
  event.fields.set("from", before.toString());
  event.fields.set("to", home.toString());
  if (trigger) event.fields.set("trigger", agent::triggerName(*trigger));
  if (const Status noted = events_.append(std::move(event)); !noted) log::warning("serve", noted.error().message);
}

void Bridge::pendingChanged(GroupId group, bool pending) {
  control_.post([this, group, pending] { pending ? reconciler_->floorLost(group) : reconciler_->lookAgain(); });
}

void Bridge::misbehaved(InstanceId id, EndReason reason, const std::string& message) {
  control_.post([this, id, reason, message] { workers_.violated(id, reason, message); });
}

void Bridge::silent(InstanceId id, const std::string& why) {
  control_.post([this, id, why] { workers_.heard(id, why); });
}

void Bridge::answers(InstanceId id) {
  control_.post([this, id] { workers_.heard(id, {}); });
}

}  // namespace coterie::serve
