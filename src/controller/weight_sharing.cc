// Which instances run over one copy of their model's weights: the prepared form of the model, who makes it and when, and its memory.
//
// Where run times are measured, because a width may change, the worker that measures first makes the form; if runs over it are worth it (the worker
// judges), it times the widths over it, so that the rule of the width sees what will run. The form then is part of the version: what serves is
// replaced by an instance over the form, as by any other version, and from then on every instance of whatever width shares it. Its pages are counted
// once, as long as the service or one of its instances holds it; an instance's own need is what its memory group was charged, which does not hold
// them (the first over the form is taken to need what one with a copy does). After a restart of the program it is made again when the service is
// idle. Nobody waits for it: without room, or if it cannot be made or an instance over it does not come up, instances load the file as ever.
#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "controller/instance_reconciler.h"

namespace coterie::controller {

namespace {
// What ONNX Runtime holds while it writes the form: what it built, twice while that grows, and the form itself.
constexpr std::int64_t kCopiesWhilePreparing = 4;
}  // namespace

// Beside what an instance needs: the files' bytes several times over, for some seconds.
Bytes InstanceReconciler::preparingLimit(const ServiceRecord& record) {
  const ModelFile& file = record.inspection.answer->value();
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::int64_t files = std::clamp<std::int64_t>(file.size.value, 0, kMost) + std::clamp<std::int64_t>(file.externalSize.value, 0, kMost);
  return record.memory.limit + Bytes(kCopiesWhilePreparing * files);
}

// Its run times are known and were those over a form, which went with the last run of the program.
bool InstanceReconciler::wantsPrepared(const ServiceRecord& record, const GroupLoad& load) const {
  const WidthRecord& width = record.width;
  if (!config_.shareWeights || width.prepared || width.unpreparable || !width.measured || !width.inPlace) return false;
  if (record.service.spec.instances || !barrierPassed_ || ports_.loop.clock().now() < width.measureAgain || load.cpus <= 1) return false;
  return width.inForce > 1 || (width.choice && width.choice->chosen.width > 1);
}

void InstanceReconciler::takePrepared(ServiceRecord& record, std::shared_ptr<const PreparedModel> prepared) {
  if (record.version != measuring_->version) return;  // it was made of another file
  const Room room = roomFor(record, directory_().ownerOf(record.service.metadata.nameSpace));
  const Bytes free = std::min(room.machine, room.quota) + measuring_->limit;  // that worker ends now
  if (free < record.memory.limit + prepared->size()) {
    record.width.unpreparable = true;
    return note(record, "WeightsNotShared",
                fmt::format("there is no memory for a copy of its weights that its instances would share, {}, beside those "
                            "that serve",
                            memoryText(prepared->size())));
  }
  note(record, "WeightsShared", fmt::format("its instances run over one copy of its weights, {}, from now on", memoryText(prepared->size())));
  record.width.prepared = std::move(prepared);
  pass_.trigger();
}

// The worker that made it ran over it, yet this one did not come up: whatever the reason, the file is what is known to load.
void InstanceReconciler::distrustPrepared(ServiceRecord& record, const InstanceRecord& failed) {
  if (record.width.prepared != failed.prepared) return;
  record.width.prepared.reset();
  record.width.unpreparable = true;
  note(record, "WeightsNotShared",
       fmt::format("instance {} did not come up over the copy of its weights that instances share: each has one of its own "
                   "again",
                   failed.id.value));
}

// What is measured of an instance over a form is not what one with a copy of its own needs.
std::string InstanceReconciler::measuredAs(const ServiceRecord& record, const std::string& sha256) {
  return record.width.prepared ? sha256 + ".shared" : sha256;
}

std::optional<Measurement> InstanceReconciler::measurementOf(const ServiceRecord& record, const std::string& sha256) const {
  const std::optional<Measurement> shared = measurements_.of(measuredAs(record, sha256));
  return shared ? shared : measurements_.of(sha256);
}

Bytes InstanceReconciler::preparedMemory(const ServiceRecord& record, const std::optional<TenantName>& tenant) {
  std::set<const PreparedModel*> counted;
  Bytes sum;
  const auto count = [&](const std::shared_ptr<const PreparedModel>& prepared) {
    if (prepared && counted.insert(prepared.get()).second) sum += prepared->size();
  };
  if (!tenant || record.tenant == tenant) count(record.width.prepared);
  for (const InstanceRecord& instance : record.instances) {
    if (!tenant || instance.tenant == *tenant) count(instance.prepared);
  }
  return sum;
}

}  // namespace coterie::controller
