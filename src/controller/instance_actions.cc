// The life of one instance, step by step, and what its end means for the service.
#include <algorithm>
#include <utility>

#include "controller/instance_reconciler.h"

namespace coterie::controller {

InstanceSpec InstanceReconciler::specOf(const ServiceRecord& record) const {
  const ModelFile& file = record.inspection.answer->value();
  InstanceSpec spec;
  spec.service = record.service.serviceName();
  spec.tenant = *record.tenant;
  spec.modelPath = file.path;
  spec.modelRoot = config_.modelRoot(*record.tenant);
  spec.sha256 = file.sha256;
  spec.memoryLimit = record.memory.limit;
  spec.prepared = record.width.prepared;
  for (const auto& [input, shape] : record.service.spec.probeShapes) spec.probe.push_back({input, shape});
  if (record.service.spec.stateful) spec.states = record.service.spec.stateful->states;
  if (config_.tenantUser) spec.uid = config_.tenantUser(*record.tenant);
  return spec;
}

void InstanceReconciler::startInstance(ServiceRecord& record) {
  InstanceSpec spec = specOf(record);
  spec.id = InstanceId(++lastInstance_);
  spec.width = record.width.inForce;
  spec.ownLanes = ownLanesOf(record);
  // A run on a loan lane would drag in threads that are not of the idle class.
  spec.loanLanes = config_.loanLanes && spec.width == 1 ? spec.ownLanes : 0;
  // Where only the width or the form of the weights changes, what serves keeps its CPUs until the other one can take over.
  const bool takesOver = std::any_of(record.instances.begin(), record.instances.end(), [&](const InstanceRecord& other) {
    return other.state == InstanceState::Serving && other.sha256 == spec.sha256 && (other.width != spec.width || other.prepared != spec.prepared);
  });

  InstanceRecord& instance = record.instances.emplace_back();
  instance.id = spec.id;
  instance.version = record.version;
  instance.width = spec.width;
  instance.placed = !takesOver;
  instance.tenant = *record.tenant;
  instance.sha256 = spec.sha256;
  instance.measuredAs = measuredAs(record, spec.sha256);
  instance.prepared = spec.prepared;
  instance.limit = spec.memoryLimit;
  if (!record.reserved.empty()) record.reserved.pop_back();
  instance.started = ports_.loop.clock().wall();
  note(record, "Starting", "instance " + std::to_string(spec.id.value) + " is started with a limit of " + memoryText(spec.memoryLimit));
  if (instance.placed) ports_.allocation.instanceStarting(record.group, spec.id, spec.memoryLimit);
  const Status started = ports_.runtime.start(spec);
  if (started.ok()) return;
  ports_.loop.post([this, alive = alive_, id = spec.id, error = started.error()] {
    if (*alive) instanceEnded(id, {EndReason::SpawnFailed, error.message});
  });
}

void InstanceReconciler::serve(ServiceRecord& record, InstanceRecord& instance) {
  instance.state = InstanceState::Serving;
  instance.servingSince = ports_.loop.clock().now();
  tellGateway(record);  // the service before its instance
  ports_.gateway.addInstance(record.service.serviceName(), instance.version, instance.id, instance.ready);
  if (!instance.silence.empty()) ports_.gateway.suspendInstance(instance.id);
  note(record, "Serving", "instance " + std::to_string(instance.id.value) + " serves");
}

void InstanceReconciler::endInstance(ServiceRecord& record, InstanceRecord& instance) {
  if (instance.state >= InstanceState::Draining) return;
  if (instance.state != InstanceState::Serving) return stopInstance(instance);
  instance.state = InstanceState::Draining;
  note(record, "Draining", "instance " + std::to_string(instance.id.value) + " finishes what it has and takes no more");
  const InstanceId id = instance.id;
  const auto stop = [this, alive = alive_, id] {
    if (!*alive) return;
    if (const auto [owner, found] = find(id); found != nullptr) stopInstance(*found);
  };
  instance.drainTimeout = ports_.loop.after(config_.drainTimeout, stop);
  if ((record.deleted || !record.tenant) && !record.toldGateway.empty()) {
    ports_.gateway.removeService(record.service.serviceName());
    record.toldGateway.clear();
  }
  ports_.gateway.drainInstance(id, [loop = &ports_.loop, stop] { loop->post(stop); });
}

void InstanceReconciler::stopInstance(InstanceRecord& instance) {
  if (instance.state == InstanceState::Stopping) return;
  instance.state = InstanceState::Stopping;
  ports_.runtime.stop(instance.id, config_.stopGrace);
  pass_.trigger();
}

std::pair<ServiceRecord*, InstanceRecord*> InstanceReconciler::find(InstanceId id) {
  for (auto& [name, record] : records_) {
    for (InstanceRecord& instance : record.instances) {
      if (instance.id == id) return {&record, &instance};
    }
  }
  return {nullptr, nullptr};
}

void InstanceReconciler::instanceProgress(InstanceId id, int percent) {
  if (const auto [record, instance] = find(id); instance != nullptr) instance->progress = percent;
}

void InstanceReconciler::instanceReady(InstanceId id, const InstanceReady& ready) {
  if (measuringReady(id, ready)) return;
  const auto [record, instance] = find(id);
  if (instance == nullptr || instance->state != InstanceState::Starting) return;
  instance->state = InstanceState::Ready;
  instance->progress = 100;
  instance->ready = ready;
  if (instance->version == record->version) record->changedFile.clear();
  measurements_.learn(instance->measuredAs,
                      {ready.steadyMemory, ready.peakMemory, record->service.spec.memory.value > 0 ? instance->limit : Bytes(0)});
  if (!std::exchange(instance->placed, true)) ports_.allocation.instanceStarting(record->group, id, instance->limit);
  ports_.allocation.instanceReady(record->group, id, ready);
  note(*record, "Loaded", "instance " + std::to_string(id.value) + " has loaded its model in " + memoryText(ready.steadyMemory));
  pass_.trigger();
}

void InstanceReconciler::instanceEnded(InstanceId id, const InstanceEnd& end) {
  if (measuringEnded(id, end)) return;
  const auto [record, instance] = find(id);
  if (instance == nullptr) return;
  ports_.gateway.instanceGone(id);
  if (end.fromOutside) ports_.gateway.instanceEndedFromOutside(id);
  if (instance->placed) ports_.allocation.instanceEnded(record->group, id);
  const bool asked = instance->state >= InstanceState::Draining;
  if (asked || end.reason == EndReason::Stopped) {
    note(*record, "Stopped", "instance " + std::to_string(id.value) + " has ended");
  } else {
    noteFailure(*record, *instance, end);
  }
  std::erase_if(record->instances, [&](const InstanceRecord& i) { return i.id == id; });
  pass_.trigger();
}

void InstanceReconciler::instanceSilent(InstanceId id, const std::string& why) {
  const auto [record, instance] = find(id);
  if (instance == nullptr || instance->state > InstanceState::Serving || !instance->silence.empty()) return;
  instance->silence = why;
  if (instance->state == InstanceState::Serving) ports_.gateway.suspendInstance(id);
  note(*record, "Silent", "instance " + std::to_string(id.value) + " gets no requests: " + why);
  pass_.trigger();
}

void InstanceReconciler::instanceAnswers(InstanceId id) {
  const auto [record, instance] = find(id);
  if (instance == nullptr || instance->silence.empty()) return;
  instance->silence.clear();
  if (instance->state == InstanceState::Serving) ports_.gateway.resumeInstance(id);
  note(*record, "Answers", "instance " + std::to_string(id.value) + " answers again");
  pass_.trigger();
}

void InstanceReconciler::noteFailure(ServiceRecord& record, const InstanceRecord& instance, const InstanceEnd& end) {
  const Instant now = ports_.loop.clock().now();
  const Nanos served = instance.state == InstanceState::Serving ? now - instance.servingSince : Nanos(0);
  const Nanos delay = record.backoff.failed(now, served);
  if (instance.prepared && instance.state < InstanceState::Serving) distrustPrepared(record, instance);
  // A width that does not come up is not tried again: what serves by the old one stays.
  if (instance.width > 1 && instance.state < InstanceState::Serving) {
    record.width.failed = instance.width;
    setWidth(record, 1, "an instance of " + std::to_string(instance.width) + " threads did not come up");
  }
  record.lastEnd = end;
  record.reserved.push_back(instance.limit);
  ++record.restarts;
  if (end.reason == EndReason::OutOfMemory && record.service.spec.memory.value == 0)
    measurements_.learnOutOfMemory(instance.measuredAs, instance.limit);
  // The file may be the cause, and may have been replaced meanwhile.
  if (record.inspection.pending == nullptr) record.inspection.again = true;
  Value fields = Value::emptyMap();
  fields.set("instance", static_cast<std::int64_t>(instance.id.value));
  fields.set("failures", record.backoff.failures());
  note(record, std::string(endReasonName(end.reason)),
       "instance " + std::to_string(instance.id.value) + ": " + end.message + "; started again in " +
           std::to_string(std::chrono::duration_cast<Seconds>(delay).count()) + " s",
       std::move(fields));
}

}  // namespace coterie::controller
