// By how many threads a request is run: what is seen of the load, what is measured of the model, and a change of the width as a roll-out.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "allocation/width_text.h"
#include "controller/instance_reconciler.h"

namespace coterie::controller {

namespace {
constexpr Seconds kIdleLook{1};  // where nobody's width can change now

std::vector<allocation::RunTime> runsOf(const std::vector<WidthSpeed>& speeds) {
  std::vector<allocation::RunTime> runs;
  for (const WidthSpeed& speed : speeds) runs.push_back({speed.width, speed.mean, std::max(speed.mean, speed.p99)});
  std::sort(runs.begin(), runs.end(), [](const allocation::RunTime& a, const allocation::RunTime& b) { return a.width < b.width; });
  return runs;
}

const InstanceRecord* servingOf(const ServiceRecord& record) {
  const auto found = std::find_if(record.instances.begin(), record.instances.end(),
                                  [](const InstanceRecord& instance) { return instance.state == InstanceState::Serving; });
  return found == record.instances.end() ? nullptr : &*found;
}

// A roll-out is under way: what is seen now is neither the one width nor the other.
bool changing(const ServiceRecord& record) {
  return std::any_of(record.instances.begin(), record.instances.end(),
                     [&](const InstanceRecord& instance) { return instance.state != InstanceState::Serving || instance.version != record.version; });
}
}  // namespace

// Run times depend on the machine and on the inputs that were timed.
std::string InstanceReconciler::circumstancesOf(const ServiceRecord& record) const {
  std::string text = config_.machineShape;
  for (const auto& [input, shape] : record.service.spec.probeShapes) text += "|" + input + shapeText(shape);
  return text;
}

// Another model starts narrow, unless it is the one of the last run of the program and its run times are known.
void InstanceReconciler::followModel(ServiceRecord& record) {
  WidthRecord& width = record.width;
  const std::vector<allocation::RunTime>* curve = measurements_.curveOf(record.model.sha256, circumstancesOf(record));
  if (width.sha256 != record.model.sha256) {
    const int recalled = width.sha256.empty() ? width.recalled : 1;
    width = {};
    width.sha256 = record.model.sha256;
    const bool known = curve != nullptr && std::any_of(curve->begin(), curve->end(), [&](const auto& run) { return run.width == recalled; });
    if (known && mayWiden(record)) width.inForce = recalled;
    width.watch = allocation::WidthWatch(width.inForce);
  }
  width.measured = curve != nullptr;
  if (curve != nullptr) width.curve = *curve;
  width.inPlace = measurements_.inPlace(record.model.sha256, circumstancesOf(record));
}

// It has an objective, and may own several CPUs. Sequences would be lost with the instance that a change of the width replaces.
bool InstanceReconciler::mayWiden(const ServiceRecord& record) const {
  const bool wanted =
      config_.widths && record.service.spec.objective && !record.deleted && !record.invalid && record.tenant && !record.service.spec.stateful;
  return wanted && mostCpusOf(record) > 1;
}

void InstanceReconciler::armWidthLook() {
  const bool any = !shuttingDown_ && std::any_of(records_.begin(), records_.end(),
                                                 [this](const auto& entry) { return mayWiden(entry.second) || entry.second.width.inForce > 1; });
  if (any && !std::exchange(widthLookArmed_, true)) widthTimer_ = ports_.loop.after(kIdleLook, [this] { lookAtWidths(); });
}

void InstanceReconciler::lookAtWidths() {
  widthLookArmed_ = false;
  if (shuttingDown_) return;
  bool waiting = false;  // anywhere: a worker that measures runs on everybody's CPUs
  bool soon = false;
  std::vector<std::pair<ServiceRecord*, GroupLoad>> candidates;
  for (auto& [name, record] : records_) {
    if (!record.toldGroup) continue;
    const std::optional<GroupLoad> load = ports_.allocation.loadOf(record.group);
    if (!load) continue;
    waiting = waiting || load->waiting > 0;
    if (!mayWiden(record)) {
      if (record.width.inForce > 1) setWidth(record, 1, "it has no objective any more");
      continue;
    }
    if (servingOf(record) == nullptr || changing(record)) continue;
    soon = soon || load->cpus > 1;
    lookAtWidth(record, *load);
    candidates.emplace_back(&record, *load);
    if (measuring_ && measuring_->service == name && (load->waiting > 0 || load->running > 0)) endMeasuring();
  }
  if (measuring_ && (waiting || !records_.contains(measuring_->service))) endMeasuring();
  for (auto& [record, load] : candidates) {
    const bool quiet = record->width.quietLooks * Nanos(config_.widthLook) >= Nanos(config_.quietBefore);
    if (measuring_ || waiting || !quiet) continue;
    if (wantsCurve(*record, load)) {
      startMeasuring(*record, true);
    } else if (wantsPrepared(*record, load)) {
      startMeasuring(*record, false);
    }
  }
  if (!std::exchange(widthLookArmed_, true))
    widthTimer_ = ports_.loop.after(soon || measuring_ ? Nanos(config_.widthLook) : Nanos(kIdleLook), [this] { lookAtWidths(); });
}

void InstanceReconciler::lookAtWidth(ServiceRecord& record, const GroupLoad& load) {
  WidthRecord& width = record.width;
  if (width.curve.empty()) {
    const InstanceRecord* serving = servingOf(record);
    if (serving->width == 1) width.curve = runsOf(serving->ready.speeds);
  }
  const Instant now = ports_.loop.clock().now();
  width.quietLooks = load.waiting == 0 && load.running == 0 ? width.quietLooks + 1 : 0;
  if (!width.windowEnd) {
    width.windowEnd = now + config_.widthWindow;
    width.looks = width.arrivals = width.mostAtOnce = 0;
  }
  ++width.looks;
  width.arrivals += load.arrivals.value;
  width.mostAtOnce = std::max(width.mostAtOnce, load.waiting + load.running);
  if (now >= *width.windowEnd) closeWindow(record, load);
}

allocation::WidthQuestion InstanceReconciler::questionOf(const ServiceRecord& record, const GroupLoad& load) const {
  const ModelServiceSpec& spec = record.service.spec;
  allocation::WidthQuestion question;
  for (const allocation::RunTime& run : record.width.curve) question.curve.push_back(allocation::atQuantile(run, spec.objective->percentile / 100));
  question.cpus = load.cpus;
  question.poolShare = load.poolShare;
  question.nodesSpanned = load.nodes;
  question.arrivals = MilliRps(record.width.looks > 0 ? record.width.arrivals / record.width.looks : 0);
  question.mostAtOnce = record.width.mostAtOnce;
  question.objective = spec.objective->latency;
  question.quantile = spec.objective->percentile / 100;
  question.minContainers = std::max(1, spec.instances.value_or(spec.minInstances));
  question.maxContainers = std::max(1, spec.instances.value_or(spec.maxInstances));
  question.mostWideServers = question.maxContainers;
  return question;
}

// What was seen in the last window, on the CPUs that it has now: they may be others since, its own instead of the pool's, and the answer with them.
std::optional<allocation::WidthQuestion> InstanceReconciler::widthQuestionNow(const ServiceRecord& record) const {
  std::optional<allocation::WidthQuestion> question = mayWiden(record) ? record.width.question : std::nullopt;
  if (!question) return question;
  if (const std::optional<GroupLoad> load = ports_.allocation.loadOf(record.group)) {
    question->cpus = load->cpus;
    question->poolShare = load->poolShare;
    question->nodesSpanned = load->nodes;
  }
  return question;
}

void InstanceReconciler::closeWindow(ServiceRecord& record, const GroupLoad& load) {
  WidthRecord& width = record.width;
  width.question = questionOf(record, load);
  width.choice = allocation::chooseWidth(*width.question);
  width.windowEnd.reset();
  width.held.clear();
  const int wanted = width.choice->chosen.width;
  const auto hold = [&](std::string why) {
    width.held = std::move(why);
    width.watch = allocation::WidthWatch(width.inForce);
  };
  if (record.service.spec.instances) return wanted == width.inForce ? void() : hold("spec.instances is set, which suspends automation");
  if (wanted == width.failed)
    return hold("an instance of " + std::to_string(wanted) + " threads did not come up; a change of the spec lets it be tried again");
  if (!width.watch.window(*width.choice)) {
    if (wanted != width.inForce) width.held = "a width changes after several windows of " + std::to_string(config_.widthWindow.count()) + " s agree";
    return;
  }
  const Room room = roomFor(record, directory_().ownerOf(record.service.metadata.nameSpace));
  const Bytes free = std::min(room.machine, room.quota);
  if (free < record.memory.limit)
    return hold(fmt::format("an instance of the other width is loaded beside the one that serves, and of its {}, {} are missing {}",
                            memoryText(record.memory.limit), memoryText(record.memory.limit - free),
                            room.quota < room.machine ? "of quota.memory" : "on this machine"));
  setWidth(record, width.watch.width(), allocation::widthReasonText(*width.choice, width.question->objective, width.question->quantile));
}

void InstanceReconciler::setWidth(ServiceRecord& record, int width, const std::string& why) {
  record.width.watch = allocation::WidthWatch(width);
  const int before = std::exchange(record.width.inForce, width);
  if (before == width) return;
  record.width.windowEnd.reset();
  Value fields = Value::emptyMap();
  fields.set("from", before);
  fields.set("to", width);
  note(record, "WidthChanged", fmt::format("a request is run by {}, before by {}: {}", allocation::threadsText(width), before, why),
       std::move(fields));
  pass_.trigger();
}

// Would more be known, another width could do; and there is a way to know it.
bool InstanceReconciler::wantsCurve(const ServiceRecord& record, const GroupLoad& load) const {
  const WidthRecord& width = record.width;
  if (width.measured || record.service.spec.instances || !barrierPassed_ || ports_.loop.clock().now() < width.measureAgain) return false;
  if (!record.inspection.answer || !record.inspection.answer->ok() || record.memory.limit.value == 0) return false;
  if (width.question && allocation::wantsMeasuring(*width.question)) return true;
  return load.cpus > 1 && (width.curve.empty() ? width.inForce > 1 : allocation::wantsMeasuring(questionOf(record, load)));
}

void InstanceReconciler::startMeasuring(ServiceRecord& record, bool curveWanted) {
  record.width.measureAgain = ports_.loop.clock().now() + config_.measureAgain;
  const Room room = roomFor(record, directory_().ownerOf(record.service.metadata.nameSpace));
  const Bytes free = std::min(room.machine, room.quota);
  const Bytes preparing = preparingLimit(record);
  const bool prepare = config_.shareWeights && !record.width.prepared && !record.width.unpreparable && free >= preparing;
  if (!curveWanted && !prepare) return;
  if (free < record.memory.limit) {
    record.width.unmeasured = "its run times by several threads are not known: there is no memory for a worker that measures them";
    return;
  }
  InstanceSpec spec = specOf(record);
  spec.id = InstanceId(++lastInstance_);
  spec.prepare = prepare;
  spec.judge = curveWanted;  // else the times that are known are of runs over such a form
  if (prepare) spec.memoryLimit = preparing;
  if (curveWanted) {
    spec.measureWidths = allocation::widthsToMeasure(mostCpusOf(record));
    spec.measureWidths.insert(spec.measureWidths.begin(), 1);
    spec.measureTime = config_.measureTime;
  }
  measuring_ = Measuring{.id = spec.id,
                         .service = record.service.serviceName(),
                         .tenant = *record.tenant,
                         .sha256 = spec.sha256,
                         .circumstances = circumstancesOf(record),
                         .version = record.version,
                         .limit = spec.memoryLimit,
                         .curveWanted = curveWanted};
  if (ports_.runtime.start(spec).ok()) return;
  measuring_.reset();
}

// Requests came, or nobody wants to know any more. Its end is told.
void InstanceReconciler::endMeasuring() {
  if (std::exchange(measuring_->givenUp, true)) return;
  ports_.runtime.stop(measuring_->id, Millis(0));
}

bool InstanceReconciler::measuringReady(InstanceId id, const InstanceReady& ready) {
  if (!measuring_ || measuring_->id != id) return false;
  // The first is of the worker itself, which was not told to look out for disturbances.
  std::vector<allocation::RunTime> runs;
  if (!ready.speeds.empty()) runs = runsOf({ready.speeds.begin() + 1, ready.speeds.end()});
  const auto found = records_.find(measuring_->service);
  if (!measuring_->givenUp && found != records_.end()) {
    takeRunTimes(found->second, std::move(runs), ready.prepared != nullptr);
    if (ready.prepared) {
      takePrepared(found->second, ready.prepared);
    } else if (!measuring_->curveWanted) {
      found->second.width.unpreparable = true;
    }
  }
  measuring_->givenUp = true;
  measuring_->ended = true;
  ports_.runtime.stop(id, config_.stopGrace);
  return true;
}

void InstanceReconciler::takeRunTimes(ServiceRecord& record, std::vector<allocation::RunTime> runs, bool inPlace) {
  if (!measuring_->curveWanted) return;
  if (runs.size() < 2 || runs.front().width != 1) {
    record.width.unmeasured = "its run times by several threads could not be measured: other programs used the CPUs meanwhile; it is tried again";
    return;
  }
  const std::string text = allocation::curveText(runs);
  measurements_.learnCurve(measuring_->sha256, measuring_->circumstances, std::move(runs), inPlace || record.width.prepared);
  if (record.width.sha256 == measuring_->sha256) {
    followModel(record);
    record.width.unmeasured.clear();
  }
  note(record, "RunTimesMeasured", text + ", measured while it was idle");
}

bool InstanceReconciler::measuringEnded(InstanceId id, const InstanceEnd& end) {
  if (!measuring_ || measuring_->id != id) return false;
  const auto found = records_.find(measuring_->service);
  if (!measuring_->givenUp && found != records_.end()) {
    WidthRecord& width = found->second.width;
    width.unpreparable = true;  // if that was the fault: without it next time
    if (measuring_->curveWanted) width.unmeasured = "its run times by several threads could not be measured: " + end.message;
    note(found->second, "MeasuringFailed",
         measuring_->curveWanted ? width.unmeasured : "a copy of its weights that its instances would share could not be made: " + end.message);
  } else if (found != records_.end() && !measuring_->ended) {
    found->second.width.measureAgain = {};  // it was interrupted: as soon as it is quiet again
  }
  measuring_.reset();
  pass_.trigger();
  return true;
}

}  // namespace coterie::controller
