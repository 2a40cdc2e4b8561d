// What became of a service, in conditions, status, events and summaries, and what the gateway is told of it.
#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "controller/instance_reconciler.h"
#include "model/batching.h"
#include "model/owned_floor.h"
#include "objects/encode.h"
#include "objects/quantity.h"

namespace coterie::controller {

namespace {
std::string_view stateName(const InstanceRecord& instance) {
  if (!instance.silence.empty() && instance.state <= InstanceState::Serving) return "Silent";
  switch (instance.state) {
    case InstanceState::Starting: return "Starting";
    case InstanceState::Ready: return "Loaded";
    case InstanceState::Serving: return "Ready";
    case InstanceState::Draining: return "Draining";
    case InstanceState::Stopping: return "Stopping";
  }
  return "Unknown";
}

int countServing(const ServiceRecord& record) {
  return static_cast<int>(std::count_if(record.instances.begin(), record.instances.end(),
                                        [](const InstanceRecord& i) { return i.state == InstanceState::Serving && i.silence.empty(); }));
}

// What is wrong with those that serve and do not answer; empty: nothing.
std::string silenceOf(const ServiceRecord& record) {
  for (const InstanceRecord& instance : record.instances) {
    if (instance.state == InstanceState::Serving && !instance.silence.empty())
      return "instance " + std::to_string(instance.id.value) + " does not answer: " + instance.silence;
  }
  return {};
}

const Obstacle* obstacleOf(const ServiceRecord& record, std::string_view condition) {
  const auto found = std::find_if(record.obstacles.begin(), record.obstacles.end(), [&](const Obstacle& o) { return o.condition == condition; });
  return found == record.obstacles.end() ? nullptr : &*found;
}

std::string noneRuns(const ServiceRecord& record) {
  return record.restarts > 0 || !record.instances.empty() ? "no instance has come so far that it can be said" : "no instance has been started yet";
}

// Some of those that serve are not what the spec asks for now, or nobody has looked at its file yet.
bool servesFormer(const ServiceRecord& record) {
  return !record.inspection.answer || std::any_of(record.instances.begin(), record.instances.end(), [&](const InstanceRecord& i) {
    return i.state == InstanceState::Serving && i.version != record.version;
  });
}

// Of a condition, as far as it is news: that a change is under way is none, what came of it is.
std::string newsOf(const Condition& condition) {
  const std::string_view reason = condition.reason == "RollingOut" ? "Serving" : std::string_view(condition.reason);
  return std::string(objects::conditionStatusName(condition.status)) + "/" + std::string(reason);
}

Condition modelLoaded(const ServiceRecord& record) {
  Condition condition{"ModelLoaded", ConditionStatus::Unknown, record.generation, 0, "Waiting", noneRuns(record)};
  const bool loaded = std::any_of(record.instances.begin(), record.instances.end(),
                                  [&](const InstanceRecord& i) { return i.loaded() && i.version == record.version; });
  const bool loading =
      std::any_of(record.instances.begin(), record.instances.end(), [](const InstanceRecord& i) { return i.state == InstanceState::Starting; });
  if (const Obstacle* obstacle = obstacleOf(record, "ModelLoaded"); obstacle != nullptr && !(loaded && obstacle->reason == "InsufficientMemory")) {
    condition.status = obstacle->reason == "Inspecting" ? ConditionStatus::Unknown : ConditionStatus::False;
    condition.reason = obstacle->reason;
    condition.message = obstacle->message;
  } else if (loaded) {
    condition.status = ConditionStatus::True;
    condition.reason = "Loaded";
    condition.message = "the model is loaded";
  } else if (loading && !record.changedFile.empty()) {
    condition.status = ConditionStatus::False;
    condition.reason = "Loading";
    condition.message = record.changedFile;
  } else if (record.lastEnd) {
    condition.status = ConditionStatus::False;
    condition.reason = endReasonName(record.lastEnd->reason);
    condition.message = record.lastEnd->message;
  } else if (loading) {
    condition.status = ConditionStatus::False;
    condition.reason = "Loading";
    condition.message = "the model is being loaded";
  }
  return condition;
}

// What an isolated service costs, and what it does not get for it.
std::string isolationText(const CpuClaim& claim, const allocation::IsolationTerms& terms) {
  return "isolation " + std::string(isolationName(claim.isolation)) + ": it owns whole " + terms.named + " of " + std::to_string(terms.unitCpus) +
         " CPU, " + objects::cpusText(ownedFloor(claim.floor, terms.unitCpus)) + " CPU at least for minCpus " + objects::cpusText(claim.floor) +
         "; " + allocation::gapsText(terms);
}

Condition allocated(const ServiceRecord& record, const AllocationPort& allocation) {
  Condition condition{"Allocated", ConditionStatus::Unknown, record.generation, 0, "Waiting", "not decided yet"};
  if (const Obstacle* obstacle = obstacleOf(record, "Allocated")) {
    condition.status = ConditionStatus::False;
    condition.reason = obstacle->reason;
    condition.message = obstacle->message;
  } else if (record.admitted && record.admittedClaim.isolation != Isolation::None) {
    condition.status = ConditionStatus::True;
    condition.reason = "Isolated";
    condition.message = isolationText(record.admittedClaim, allocation.isolationTerms(record.admittedClaim.isolation));
  } else if (record.admitted) {
    condition.status = ConditionStatus::True;
    condition.reason = "Allocated";
    condition.message = record.admittedClaim.floor.value > 0 ? "its floor of " + objects::cpusText(record.admittedClaim.floor) + " CPU is kept free"
                                                             : "has its share of the machine";
  }
  return condition;
}

Condition sandboxed(const ServiceRecord& record) {
  Condition condition{"Sandboxed", ConditionStatus::Unknown, record.generation, 0, "Waiting", noneRuns(record)};
  for (const InstanceRecord& instance : record.instances) {
    if (!instance.loaded()) continue;
    std::string lacks;
    for (const std::string& missing : instance.ready.missingSandbox) lacks += (lacks.empty() ? "" : ", ") + missing;
    condition.status = lacks.empty() ? ConditionStatus::True : ConditionStatus::False;
    condition.reason = lacks.empty() ? "Complete" : "Incomplete";
    condition.message = lacks.empty() ? "the worker is confined" : "this machine lacks " + lacks + ": the worker runs without";
  }
  return condition;
}

// Only of a service that asks for it: what the model's signature allows of it.
Condition batched(const ServiceRecord& record) {
  const int wanted = record.service.spec.maxBatch;
  Condition condition{"Batched", ConditionStatus::Unknown, record.generation, 0, "Waiting", noneRuns(record)};
  const auto loaded = std::find_if(record.instances.begin(), record.instances.end(),
                                   [&](const InstanceRecord& i) { return i.loaded() && i.version == record.version; });
  if (loaded == record.instances.end()) return condition;
  const int most = std::min(wanted, mostInBatch(loaded->ready.signature));
  condition.status = most > 1 ? ConditionStatus::True : ConditionStatus::False;
  condition.reason = most == wanted ? "Batched" : most > 1 ? "SmallerBatches" : "NotBatchable";
  condition.message = "up to " + std::to_string(most) + " requests run as one, where that is measured to cost less than one by one";
  if (const auto why = whyNoBatches(loaded->ready.signature)) {
    condition.message = *why + ": each request runs alone; leave batching out, or export the model with an open first dimension";
  } else if (most < wanted) {
    condition.message += "; the model's " + std::to_string(loaded->ready.signature.inputs.size()) + " inputs leave no room for " +
                         std::to_string(wanted) + " in a message to the worker";
  }
  return condition;
}

// True: as many instances serve as the spec demands, be it by an earlier form of the spec while this one waits or is refused.
Condition readyOf(const ServiceRecord& record) {
  const int serving = countServing(record);
  const int demanded = record.service.spec.instances.value_or(record.service.spec.minInstances);
  Condition condition{"Ready", ConditionStatus::False, record.generation, 0, "Loading", "the model is being loaded"};
  const auto tells = std::find_if(record.obstacles.begin(), record.obstacles.end(), [](const Obstacle& o) { return o.reason != "Inspecting"; });
  const bool refused = tells != record.obstacles.end();
  const bool former = servesFormer(record);
  const std::string silence = silenceOf(record);
  if (serving > 0) {
    condition.status = serving >= demanded ? ConditionStatus::True : ConditionStatus::False;
    condition.reason = serving < record.desired ? "PartlyServing" : refused ? "ServingOldSpec" : former ? "RollingOut" : "Serving";
    condition.message = std::to_string(serving) + " of " + std::to_string(record.desired) + " instances serve";
    if (!silence.empty()) condition.message += "; " + silence;
    if (refused) condition.message += "; " + tells->message;
    if (refused && former) condition.message += "; until that is mended, an instance of the old one that ends is not started again";
    if (condition.reason == "RollingOut") condition.message += " by the former spec; what was changed is being loaded";
  } else if (!silence.empty()) {
    condition.reason = "Unresponsive";
    condition.message = silence;
  } else if (!record.obstacles.empty()) {
    condition.reason = record.obstacles.front().reason;
    condition.message = record.obstacles.front().message;
  } else if (record.desired == 0) {
    condition.reason = "Stopped";
    condition.message = "spec.instances is 0";
  }
  return condition;
}
}  // namespace

void InstanceReconciler::setConditions(ServiceRecord& record) {
  const std::int64_t now = ports_.loop.clock().wall().micros;
  std::set<std::pair<std::string, std::string>> told;
  std::vector<Condition> all{readyOf(record), modelLoaded(record), allocated(record, ports_.allocation), sandboxed(record)};
  if (record.service.spec.maxBatch > 1)
    all.push_back(batched(record));
  else
    std::erase_if(record.conditions, [](const Condition& condition) { return condition.type == "Batched"; });
  for (const Condition& condition : all) {
    const Condition* before = objects::findCondition(record.conditions, condition.type);
    const bool known = before != nullptr;
    const auto [last, fresh] = record.toldConditions.try_emplace(condition.type);
    if (fresh && known && before->status != ConditionStatus::Unknown) last->second = newsOf(*before);
    objects::setCondition(record.conditions, condition, now);
    if (condition.status == ConditionStatus::Unknown) continue;
    // What it was before a look at the file or a pause is no news; nor is a good beginning.
    const bool turned = known ? last->second != newsOf(condition) : condition.status == ConditionStatus::False;
    last->second = newsOf(condition);
    if (!turned) continue;
    if (!told.emplace(condition.reason, condition.message).second) continue;  // Ready and ModelLoaded say one thing: it is one event
    Value fields = Value::emptyMap();
    fields.set("condition", condition.type);
    fields.set("status", objects::conditionStatusName(condition.status));
    note(record, condition.reason, condition.message, std::move(fields));
  }
}

Value InstanceReconciler::statusOf(const ServiceRecord& record) {
  Value status = Value::emptyMap();
  status.set("observedGeneration", record.generation);
  status.set("desiredInstances", record.desired);
  status.set("readyInstances", countServing(record));
  if (record.width.inForce > 1) status.set("threadsPerRun", record.width.inForce);
  if (record.restarts > 0) status.set("restarts", record.restarts);
  if (!record.model.sha256.empty()) {
    Value model = Value::emptyMap();
    model.set("sha256", record.model.sha256);
    status.set("model", std::move(model));
  }
  Value instances = Value::emptyList();
  for (const InstanceRecord& instance : record.instances) {
    Value value = Value::emptyMap();
    value.set("id", static_cast<std::int64_t>(instance.id.value));
    value.set("state", stateName(instance));
    value.set("memoryLimit", objects::bytesText(instance.limit));
    if (!instance.home.empty()) value.set("cpus", instance.home.toString());
    if (!instance.loans.empty()) value.set("loans", instance.loans.toString());
    if (instance.loaded()) value.set("pid", instance.ready.pid);
    if (instance.width > 1) value.set("threadsPerRun", instance.width);
    instances.push(std::move(value));
  }
  status.set("instances", std::move(instances));
  status.set("conditions", objects::encodeConditions(record.conditions));
  return status;
}

void InstanceReconciler::writeStatus(ServiceRecord& record) {
  // Nobody else writes it, so what has not changed need not be compared in the store: a pass looks at every service.
  Value status = statusOf(record);
  if (record.writtenStatus == status) return;
  record.writtenStatus.reset();
  const ObjectKey key{std::string(kModelServiceKind), record.service.metadata.nameSpace, record.service.metadata.name};
  Result<StoredObject> stored = ports_.store.get(key);
  if (!stored.ok()) return;  // deleted meanwhile
  stored->status = status;
  stored->resourceVersion = 0;
  const Result<StoredObject> written = ports_.store.updateStatus(std::move(*stored));
  if (written.ok()) {
    record.writtenStatus = std::move(status);
    writeFaultTold_ = false;
  }
  if (written.ok() || written.error().code == Code::NotFound) return;
  writeFailed_ = true;
  if (std::exchange(writeFaultTold_, true)) return;  // the disk is full for all of them, and for a while
  log::error("services",
             "status of " + record.service.serviceName().path() + " was not written (nor, until it can be, are others'): " + written.error().message);
}

void InstanceReconciler::tellGateway(ServiceRecord& record) {
  const ServiceName name = record.service.serviceName();
  if (record.deleted || !record.tenant) {
    if (!record.toldGateway.empty()) ports_.gateway.removeService(name);
    record.toldGateway.clear();
    return;
  }
  GatewayService told;
  told.service = record.service;
  told.tenant = *record.tenant;
  if (countServing(record) == 0) {
    const Condition ready = readyOf(record);
    told.notReadyReason = ready.reason;
    told.notReadyMessage = ready.message;
    const bool coming = std::any_of(record.instances.begin(), record.instances.end(),
                                    [](const InstanceRecord& i) { return i.state == InstanceState::Starting || i.state == InstanceState::Ready; });
    if (!coming && record.backoff.waits(ports_.loop.clock().now())) told.noInstanceBefore = record.backoff.until();
  }
  std::string fingerprint =
      told.tenant.value + "|" + std::to_string(record.generation) + "|" + record.uid + "|" + told.notReadyReason + "|" + told.notReadyMessage;
  if (fingerprint == record.toldGateway) return;
  record.toldGateway = std::move(fingerprint);
  ports_.gateway.setService(told);
}

void InstanceReconciler::note(const ServiceRecord& record, std::string reason, std::string message, Value fields) {
  Event event;
  event.object = {std::string(kModelServiceKind), record.service.metadata.nameSpace, record.service.metadata.name};
  event.reason = std::move(reason);
  event.message = std::move(message);
  event.fields = std::move(fields);
  (void)ports_.events.append(std::move(event));  // a record: what cannot be written is kept in memory
}

ServiceSummary InstanceReconciler::summaryOf(const ServiceName& name, const ServiceRecord& record) const {
  ServiceSummary summary;
  summary.name = name;
  summary.group = record.group;
  summary.tenant = record.tenant.value_or(TenantName());
  summary.spec = record.service.spec;
  summary.desired = record.desired;
  summary.serving = countServing(record);
  summary.restarts = record.restarts;
  if (record.memory.measured) summary.measuredMemory = record.memory.limit;
  summary.obstacles = record.obstacles;
  summary.conditions = record.conditions;
  const auto question = widthQuestionNow(record);
  summary.width = {record.width.inForce,
                   record.width.curve,
                   question,
                   question ? std::optional(allocation::chooseWidth(*question)) : std::nullopt,
                   record.width.held.empty() ? record.width.unmeasured : record.width.held,
                   record.width.prepared ? record.width.prepared->size() : Bytes(0)};
  for (const InstanceRecord& instance : record.instances) {
    summary.instances.push_back({instance.id, instance.state, instance.progress, instance.ready.pid, instance.limit, instance.started});
  }
  return summary;
}

std::vector<ServiceSummary> InstanceReconciler::summaries() const {
  std::vector<ServiceSummary> all;
  for (const auto& [name, record] : records_) {
    if (!record.deleted) all.push_back(summaryOf(name, record));
  }
  return all;
}

std::optional<ServiceSummary> InstanceReconciler::summary(const ServiceName& name) const {
  const auto found = records_.find(name);
  return found == records_.end() || found->second.deleted ? std::nullopt : std::optional(summaryOf(name, found->second));
}

}  // namespace coterie::controller
