#include "controller/instance_reconciler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "objects/decode.h"
#include "objects/encode.h"

namespace coterie::controller {

InstanceReconciler::InstanceReconciler(Ports ports, InstanceReconcilerConfig config, std::function<const TenantDirectory&()> directory)
    : ports_(ports),
      config_(std::move(config)),
      directory_(std::move(directory)),
      pass_(ports.loop, [this] { reconcile(); }),
      follower_(ports.store, std::string(kModelServiceKind), [this] { pass_.trigger(); }),
      measurements_(ports.store) {}

InstanceReconciler::~InstanceReconciler() {
  *alive_ = false;
  ports_.runtime.setListener(nullptr);
}

Status InstanceReconciler::start() {
  ports_.runtime.setListener(this);
  measurements_.load();
  barrierUntil_ = ports_.loop.clock().now() + config_.startBarrier;
  if (Status followed = follower_.start(); !followed.ok()) return followed;
  pass_.trigger();
  return {};
}

void InstanceReconciler::shutDown(std::function<void()> allStopped) {
  shuttingDown_ = true;
  allStopped_ = std::move(allStopped);
  pass_.trigger();
}

void InstanceReconciler::reconcile() {
  readFailed_ = !readStore();
  writeFailed_ = false;
  for (ServiceRecord* record : oldestFirst()) reconcileService(*record);
  lowerBarrier();
  forgetGone();
  noteExcess();
  armTimer();
  armWidthLook();
  if (shuttingDown_ && measuring_) endMeasuring();
  if (shuttingDown_ && allStopped_ && !measuring_ &&
      std::all_of(records_.begin(), records_.end(), [](const auto& r) { return r.second.instances.empty(); })) {
    std::exchange(allStopped_, nullptr)();
  }
}

bool InstanceReconciler::readStore() {
  const Result<ObjectList> list = ports_.store.list(std::string(kModelServiceKind), std::nullopt);
  if (!list.ok()) {
    log::error("services", "cannot be read: " + list.error().message);
    return false;
  }
  for (auto& [name, record] : records_) record.deleted = true;
  for (const StoredObject& object : list->objects) take(object);
  return true;
}

namespace {
// What an earlier run of the program served under the same spec.
void recallModel(ServiceRecord& record, const StoredObject& object) {
  const Value* observed = object.status.find("observedGeneration");
  const Value* model = object.status.find("model");
  const Value* sum = model != nullptr ? model->find("sha256") : nullptr;
  if (observed == nullptr || *observed != Value(object.generation) || sum == nullptr || sum->asString() == nullptr) return;
  const Value* spec = object.spec.find("model");
  const Value* uri = spec != nullptr ? spec->find("uri") : nullptr;
  if (uri == nullptr || uri->asString() == nullptr) return;
  record.model = {*uri->asString(), *sum->asString(), std::nullopt};
  const Value* threads = object.status.find("threadsPerRun");
  if (threads != nullptr && threads->asInt() != nullptr)
    record.width.recalled = static_cast<int>(std::clamp<std::int64_t>(*threads->asInt(), 1, 4096));
}
}  // namespace

void InstanceReconciler::take(const StoredObject& object) {
  const ServiceName name{object.key.nameSpace, object.key.name};
  const auto [found, fresh] = records_.try_emplace(name);
  ServiceRecord& record = found->second;
  record.deleted = object.deletionTimeMicros.has_value();
  if (fresh) {
    record.group = GroupId(++lastGroup_);
    record.service.metadata = {object.key.name, object.key.nameSpace, {}};
    record.conditions = objects::decodeConditions(object.status.find("conditions"));
    recallModel(record, object);
  }
  if (!fresh && record.uid == object.uid && record.generation == object.generation) return;
  record.writtenStatus.reset();
  record.uid = object.uid;
  record.generation = object.generation;
  record.created = object.creationTimeMicros;
  Faults faults;
  std::optional<ModelServiceSpec> spec = objects::decodeModelServiceSpec(object.spec, faults);
  if (!spec) {
    record.invalid = Obstacle{"Ready", "InvalidSpec", faultText(faults.front())};
    return;
  }
  record.invalid.reset();
  record.service.spec = std::move(*spec);
  // Somebody changed something: perhaps the cause of the failures.
  record.backoff.reset();
  record.lastEnd.reset();
  record.changedFile.clear();
  record.width.failed = 0;
  record.width.unpreparable = false;
  record.width.windowEnd.reset();
  lookAgainAt(record);
}

std::vector<ServiceRecord*> InstanceReconciler::oldestFirst() {
  std::vector<ServiceRecord*> ordered;
  for (auto& [name, record] : records_) ordered.push_back(&record);
  // Those that hold CPUs and memory come before those that wait for them.
  std::sort(ordered.begin(), ordered.end(), [](const ServiceRecord* a, const ServiceRecord* b) {
    return std::tuple(!a->admitted, a->created, a->group) < std::tuple(!b->admitted, b->created, b->group);
  });
  return ordered;
}

void InstanceReconciler::reconcileService(ServiceRecord& record) {
  const TenantView* tenant = directory_().ownerOf(record.service.metadata.nameSpace);
  record.tenant = tenant != nullptr ? std::optional(tenant->name) : std::nullopt;
  record.obstacles.clear();
  record.overQuota = false;
  const ModelServiceSpec& spec = record.service.spec;
  // A wide instance has one server, so their number follows the width, too.
  const int wide = record.width.inForce > 1 && record.width.choice ? record.width.choice->containers : 1;
  const int automatic = std::clamp(std::max({record.proposed, wide, spec.minInstances}), spec.minInstances, spec.maxInstances);
  record.desired = spec.instances.value_or(automatic);
  const Verdict verdict = admit(record);
  if (verdict == Verdict::None) record.desired = 0;
  if (verdict == Verdict::Run && !record.overQuota) record.granted = record.desired;
  record.granted = std::min(record.granted, record.desired);
  trimReserve(record);

  ServiceSituation situation;
  situation.desired = record.overQuota ? record.granted : record.desired;
  situation.mayStart = verdict == Verdict::Run;
  situation.limit = record.memory.limit;
  const Room room = roomFor(record, tenant);
  situation.freeOnMachine = room.machine;
  situation.freeInQuota = room.quota;
  for (const InstanceRecord& instance : record.instances) {
    const bool sameTenant = tenant != nullptr && instance.tenant == tenant->name;
    situation.instances.push_back({instance.id, instance.state, sameTenant && instance.version == record.version});
  }
  const ServiceSteps steps = planService(situation);
  if (steps.missing.value > 0) noteMissingMemory(record, steps);
  execute(record, steps);
  tellGateway(record);
  setConditions(record);
  writeStatus(record);
}

InstanceReconciler::Verdict InstanceReconciler::admit(ServiceRecord& record) {
  const auto refuse = [&](Verdict verdict, std::string condition, std::string reason, std::string message) {
    record.obstacles.push_back({std::move(condition), std::move(reason), std::move(message)});
    if (verdict == Verdict::None) record.inspection.pending.reset();  // nobody waits for the file any more
    return verdict;
  };
  if (shuttingDown_) return refuse(Verdict::None, "Ready", "ShuttingDown", "coterie is stopping");
  if (record.deleted) return refuse(Verdict::None, "Ready", "Deleted", "is being removed");
  if (record.invalid) {
    record.obstacles.push_back(*record.invalid);
    return Verdict::Hold;
  }
  const TenantView* tenant = directory_().ownerOf(record.service.metadata.nameSpace);
  if (tenant == nullptr) {
    return refuse(Verdict::None, "Ready", "NamespaceNotOwned",
                  "no tenant owns namespace " + record.service.metadata.nameSpace + ": add it to a Tenant's spec.namespaces");
  }
  // Each look is taken, so that all obstacles are told; the first in this order is the one that Ready names.
  bool go = admitQuota(record, *tenant);
  const bool file = admitFile(record, *tenant);
  go = file && go;
  if (record.desired == 0) return Verdict::Hold;
  go = holdGrowth(record, *tenant) && go;
  if (go && !barrierPassed_) return refuse(Verdict::Hold, "ModelLoaded", "Inspecting", "the models' files are being looked at");
  go = go && admitMemory(record, *tenant);
  go = go && admitFloor(record, *tenant);
  const Instant now = ports_.loop.clock().now();
  if (go && record.backoff.waits(now) && record.lastEnd) {
    return refuse(Verdict::Hold, "Ready", "CrashLoopBackOff",
                  "the last instance ended: " + std::string(endReasonName(record.lastEnd->reason)) + ": " + record.lastEnd->message +
                      "; started again after " + std::to_string(std::chrono::duration_cast<Seconds>(record.backoff.delay()).count()) +
                      " s (failure " + std::to_string(record.backoff.failures()) + ")");
  }
  // After a failure the file is looked at again, and what is started is what it is now.
  if (go && record.inspection.pending) return refuse(Verdict::Hold, "ModelLoaded", "Inspecting", "the model's file is being looked at again");
  return go ? Verdict::Run : Verdict::Hold;
}

void InstanceReconciler::execute(ServiceRecord& record, const ServiceSteps& steps) {
  for (int i = 0; i < steps.start; ++i) startInstance(record);
  for (InstanceRecord& instance : record.instances) {
    if (std::find(steps.serve.begin(), steps.serve.end(), instance.id) != steps.serve.end()) serve(record, instance);
  }
  for (InstanceRecord& instance : record.instances) {
    if (std::find(steps.end.begin(), steps.end.end(), instance.id) != steps.end.end()) endInstance(record, instance);
  }
}

// Groups without instances that nobody wants give their floor back; deleted services that are empty are forgotten.
void InstanceReconciler::forgetGone() {
  for (auto it = records_.begin(); it != records_.end();) {
    ServiceRecord& record = it->second;
    const bool idle = record.instances.empty() && record.desired == 0;
    const bool holdsNothing = idle || (record.instances.empty() && !record.admitted);
    if (holdsNothing && record.toldGroup) {
      ports_.allocation.removeGroup(record.group);
      record.toldGroup.reset();
      pass_.trigger();  // room for others
    }
    if (idle) record.admitted = false;
    it = idle && record.deleted ? records_.erase(it) : std::next(it);
  }
}

void InstanceReconciler::armTimer() {
  const Instant now = ports_.loop.clock().now();
  std::optional<Instant> next;
  const auto wake = [&](Instant when) { next = next ? std::min(*next, when) : when; };
  if (readFailed_ || writeFailed_) wake(now + config_.resync);
  if (!barrierPassed_ && !readFailed_) wake(std::max(now, barrierUntil_));
  for (const auto& [name, record] : records_) {
    if (record.backoff.waits(now)) wake(record.backoff.until());
    if (!record.obstacles.empty() && record.desired > 0) wake(now + config_.resync);  // what is refused may fit for reasons nobody tells
    const bool waitsForFile = record.inspection.answer && !record.inspection.pending && (record.version.empty() || mayBeRepaired(record));
    if (waitsForFile && !record.deleted) wake(std::max(now, record.inspection.answered + config_.inspectAgain));
  }
  timer_.reset();
  if (next) timer_ = ports_.loop.after(std::max(Nanos(1), *next - now), [this] { pass_.trigger(); });
}

void InstanceReconciler::proposeInstances(const ServiceName& service, int instances) {
  const auto found = records_.find(service);
  if (found == records_.end() || found->second.proposed == instances) return;
  found->second.proposed = instances;
  pass_.trigger();
}

void InstanceReconciler::placed(GroupId group, InstanceId instance, const CpuSet& home, const CpuSet& loans) {
  const auto [record, found] = find(instance);
  if (record == nullptr || record->group != group || (found->home == home && found->loans == loans)) return;
  found->home = home;
  found->loans = loans;
  pass_.trigger();
}

void InstanceReconciler::floorLost(GroupId group) {
  for (auto& [name, record] : records_) {
    if (record.group != group || !record.admitted) continue;
    record.admitted = false;
    note(record, "InsufficientCpu", "CPUs went away and the floor of " + name.path() + " no longer fits");
    pass_.trigger();
  }
}

}  // namespace coterie::controller
