// The model's file of a service: asked for, judged, and watched for a change under the same spec.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "controller/instance_reconciler.h"

namespace coterie::controller {

namespace {
std::string pathOf(const ModelServiceSpec& spec) { return spec.modelUri.substr(std::string_view("file:").size()); }

// The least of what an instance may have: a larger file cannot be loaded, whatever it holds.
struct Allowance {
  Bytes bytes;
  std::string whose;    // "... are missing <whose>"
  bool written{false};  // spec.memory
};
Allowance allowanceOf(const ModelServiceSpec& spec, const TenantView& tenant, Bytes machine) {
  Allowance least{machine, "on this machine"};
  const Bytes quota = tenant.spec.quota.memory;
  if (quota.value > 0 && quota < least.bytes) least = {quota, "of quota.memory of tenant " + tenant.name.value};
  if (spec.memory.value > 0 && spec.memory < least.bytes) least = {spec.memory, "of spec.memory: raise it, or leave it out", true};
  return least;
}

Obstacle tooLarge(const ModelFile& file, const MemoryNeed& estimated, const Allowance& allowance) {
  const Bytes wanted = allowance.written ? estimated.need : estimated.limit;
  const Bytes missing = wanted - allowance.bytes;
  return {"ModelLoaded", "InsufficientMemory",
          fmt::format("the model's file has {} and was not read: an instance is taken to need {}; {} ({} bytes) are missing {}",
                      memoryText(file.size), memoryText(wanted), memoryText(missing), missing.value, allowance.whose)};
}
}  // namespace

void InstanceReconciler::inspect(ServiceRecord& record, const std::string& root, Bytes largest) {
  Inspection& inspection = record.inspection;
  inspection.root = root;
  inspection.path = pathOf(record.service.spec);
  inspection.largest = largest;
  inspection.again = false;
  inspection.pending = ports_.files.inspect({root, inspection.path, largest}, [this, name = record.service.serviceName()](Result<ModelFile> answer) {
    Inspection& asked = records_.at(name).inspection;  // it holds the inspection, without which no answer comes
    asked.pending.reset();
    asked.answer = std::move(answer);
    asked.answered = ports_.loop.clock().now();
    pass_.trigger();
  });
}

// A question under way for the same file goes on: a change of a weight or a crash does not begin a long reading anew.
void InstanceReconciler::lookAgainAt(ServiceRecord& record) {
  if (record.inspection.pending == nullptr || record.inspection.path != pathOf(record.service.spec)) record.inspection = {};
  record.inspection.answer.reset();
}

bool InstanceReconciler::admitFile(ServiceRecord& record, const TenantView& tenant) {
  const auto refuse = [&](std::string reason, std::string message) {
    record.obstacles.push_back({"ModelLoaded", std::move(reason), std::move(message)});
    return false;
  };
  Inspection& inspection = record.inspection;
  const std::string root = config_.modelRoot(tenant.name);
  const Allowance allowance = allowanceOf(record.service.spec, tenant, config_.machineMemory - config_.systemMemory);
  const Instant now = ports_.loop.clock().now();
  const bool stale = inspection.answer && (record.version.empty() || mayBeRepaired(record)) && now >= inspection.answered + config_.inspectAgain;
  // What is started again after a pause is what lies there now, not what lay there when it failed.
  const bool retry = record.backoff.failures() > 0 && !record.backoff.waits(now) && inspection.answered < record.backoff.until();
  const bool roomCame = inspection.unread() && allowance.bytes > inspection.largest;
  const bool due = !inspection.pending && (!inspection.answer || inspection.again || stale || retry || roomCame);
  if (due || inspection.root != root) inspect(record, root, allowance.bytes);
  if (!inspection.answer) {
    // What runs is judged by what was wanted before: a change of a weight must not end an instance that is loading.
    return refuse("Inspecting", "the model's file is being looked at");
  }
  const Result<ModelFile>& answer = *inspection.answer;
  if (!answer.ok()) {
    record.version.clear();
    return refuse(answer.error().reason, answer.error().message);
  }
  if (inspection.unread()) {
    record.version.clear();
    record.obstacles.push_back(tooLarge(*answer, memoryNeed(*answer, std::nullopt, Bytes(0), lanesOf(record), config_.laneArena), allowance));
    return false;
  }
  const std::string& wanted = record.service.spec.sha256;
  if (!wanted.empty() && wanted != answer->sha256) {
    record.version.clear();
    return refuse("ChecksumMismatch", "spec.model.sha256 is " + wanted + ", but " + inspection.path + " has " + answer->sha256 +
                                          ": the file or the object is not the one that was meant");
  }
  noteChangedFile(record, *answer);
  followModel(record);
  record.version = versionOf(record, *answer);
  record.memory = memoryNeed(*answer, measurementOf(record, answer->sha256), record.service.spec.memory, lanesOf(record), config_.laneArena,
                             record.service.spec.stateful ? record.service.spec.stateful->memory : Bytes(0));
  return true;
}

// The spec is the same and the file is another: its instances are another version, which replaces the old one as a changed spec would (never one
// beside the other for good), and that is said.
void InstanceReconciler::noteChangedFile(ServiceRecord& record, const ModelFile& file) {
  const ServedModel now{record.service.spec.modelUri, file.sha256, file.externalMark};
  const ServedModel before = std::exchange(record.model, now);
  if (before.sha256.empty() || before.uri != now.uri) return;
  const bool otherFile = before.sha256 != now.sha256 && record.service.spec.sha256.empty();
  const bool otherData = before.sha256 == now.sha256 && before.externalMark && before.externalMark != now.externalMark;
  if (!otherFile && !otherData) return;
  record.changedFile = otherFile ? record.inspection.path + " was replaced since it was loaded (sha256 " + before.sha256 + " before, " + now.sha256 +
                                       " now): the new one is rolled out. Set spec.model.sha256, and only the file that is meant is served"
                                 : "external data of " + record.inspection.path + " was replaced since it was loaded: the new one is rolled out";
  note(record, "ModelChanged", record.changedFile);
  record.width.prepared.reset();
  record.backoff.reset();  // it was the other file that failed
  record.lastEnd.reset();
}

// Its model failed and waits to be tried again: perhaps somebody puts another file in its place.
bool InstanceReconciler::mayBeRepaired(const ServiceRecord& record) const {
  return record.lastEnd.has_value() && record.backoff.waits(ports_.loop.clock().now());
}

// All that a worker keeps from its start to its end.
std::string InstanceReconciler::versionOf(const ServiceRecord& record, const ModelFile& file) const {
  std::string version =
      fmt::format("{}|{}|{:x}|lanes={}|memory={}", file.path, file.sha256, file.externalMark, ownLanesOf(record), record.service.spec.memory.value);
  if (record.width.prepared) version += "|shared";
  if (record.width.inForce > 1) version += fmt::format("|threads={}", record.width.inForce);
  for (const auto& [input, shape] : record.service.spec.probeShapes) version += "|" + input + shapeText(shape);
  if (record.service.spec.stateful) {
    for (const auto& [output, input] : record.service.spec.stateful->states) version += "|" + output + ">" + input;
  }
  return version;
}

}  // namespace coterie::controller
