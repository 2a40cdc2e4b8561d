#include "controller/measurements.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/log.h"

namespace coterie::controller {

namespace {
constexpr std::size_t kMostCurves = 4;
constexpr std::int64_t kWidest = 1 << 16;

bool grewNoticeably(Bytes before, Bytes now) { return now.value > before.value + before.value / 20; }
std::int64_t numberOf(const Value& status, std::string_view name) {
  const Value* member = status.find(name);
  return member != nullptr && member->asInt() != nullptr ? *member->asInt() : 0;
}
}  // namespace

void Measurements::load() {
  const Result<ObjectList> list = store_.list(kMeasurementKind, std::nullopt);
  if (!list.ok()) return log::warning("memory", "measurements cannot be read, estimates are used: " + list.error().message);
  for (const StoredObject& object : list->objects) {
    if (auto curves = curvesFrom(object.status); !curves.empty()) curves_[object.key.name] = std::move(curves);
    if (object.status.find("peakBytes") == nullptr) continue;
    known_[object.key.name] = {Bytes(numberOf(object.status, "steadyBytes")), Bytes(numberOf(object.status, "peakBytes")),
                               Bytes(numberOf(object.status, "provenLimitBytes"))};
  }
}

std::optional<Measurement> Measurements::of(const std::string& sha256) const {
  const auto found = known_.find(sha256);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void Measurements::learn(const std::string& sha256, const Measurement& now) {
  const std::optional<Measurement> before = of(sha256);
  const Measurement both = merged(before, now);
  const bool proved = before && both.provenLimit != before->provenLimit;
  if (before && !proved && !grewNoticeably(before->steady, now.steady) && !grewNoticeably(before->peak, now.peak)) return;
  known_[sha256] = both;
  keep(sha256);
}

void Measurements::learnOutOfMemory(const std::string& sha256, Bytes limit) {
  const Bytes wanted(limit.value + limit.value / 2);
  known_[sha256] = merged(of(sha256), {Bytes(0), wanted, Bytes(0)});
  keep(sha256);
}

const Measurements::Curve* Measurements::find(const std::string& sha256, const std::string& circumstances) const {
  const auto model = curves_.find(sha256);
  if (model == curves_.end()) return nullptr;
  const auto found =
      std::find_if(model->second.begin(), model->second.end(), [&](const Curve& curve) { return curve.circumstances == circumstances; });
  return found == model->second.end() ? nullptr : &*found;
}

const std::vector<allocation::RunTime>* Measurements::curveOf(const std::string& sha256, const std::string& circumstances) const {
  const Curve* curve = find(sha256, circumstances);
  return curve == nullptr ? nullptr : &curve->runs;
}

bool Measurements::inPlace(const std::string& sha256, const std::string& circumstances) const {
  const Curve* curve = find(sha256, circumstances);
  return curve != nullptr && curve->inPlace;
}

void Measurements::learnCurve(const std::string& sha256, const std::string& circumstances, std::vector<allocation::RunTime> curve, bool inPlace) {
  std::vector<Curve>& curves = curves_[sha256];
  std::erase_if(curves, [&](const Curve& old) { return old.circumstances == circumstances; });
  if (curves.size() >= kMostCurves) curves.erase(curves.begin());
  curves.push_back({circumstances, std::move(curve), inPlace});
  keep(sha256);
}

// What is damaged is left out: it is measured again.
std::vector<Measurements::Curve> Measurements::curvesFrom(const Value& status) {
  std::vector<Curve> curves;
  const Value* list = status.find("runTimes");
  if (list == nullptr || list->asList() == nullptr) return curves;
  for (const Value& item : *list->asList()) {
    const Value* circumstances = item.find("circumstances");
    const Value* runs = item.find("runs");
    if (circumstances == nullptr || circumstances->asString() == nullptr || runs == nullptr || runs->asList() == nullptr) continue;
    Curve curve{*circumstances->asString(), {}, numberOf(item, "sharedWeights") != 0};
    int widest = 0;
    for (const Value& one : *runs->asList()) {
      const auto threads = static_cast<int>(std::clamp<std::int64_t>(numberOf(one, "threads"), 0, kWidest));
      const allocation::RunTime run{threads, Nanos(numberOf(one, "meanNanos")), Nanos(numberOf(one, "p99Nanos"))};
      if (run.width <= widest || run.mean.count() <= 0 || run.atQuantile.count() <= 0) break;
      widest = run.width;
      curve.runs.push_back(run);
    }
    if (!curve.runs.empty() && curve.runs.front().width == 1) curves.push_back(std::move(curve));
  }
  return curves;
}

Value Measurements::valueOf(const std::vector<Curve>& curves) {
  Value list = Value::emptyList();
  for (const Curve& curve : curves) {
    Value runs = Value::emptyList();
    for (const allocation::RunTime& run : curve.runs) {
      Value one = Value::emptyMap();
      one.set("threads", run.width);
      one.set("meanNanos", std::int64_t{run.mean.count()});
      one.set("p99Nanos", std::int64_t{run.atQuantile.count()});
      runs.push(std::move(one));
    }
    Value item = Value::emptyMap();
    item.set("circumstances", curve.circumstances);
    item.set("runs", std::move(runs));
    if (curve.inPlace) item.set("sharedWeights", 1);
    list.push(std::move(item));
  }
  return list;
}

void Measurements::keep(const std::string& sha256) {
  StoredObject object;
  object.key = {kMeasurementKind, "", sha256};
  if (const auto memory = known_.find(sha256); memory != known_.end()) {
    object.status.set("steadyBytes", memory->second.steady.value);
    object.status.set("peakBytes", memory->second.peak.value);
    if (memory->second.provenLimit.value > 0) object.status.set("provenLimitBytes", memory->second.provenLimit.value);
  }
  if (const auto curves = curves_.find(sha256); curves != curves_.end()) object.status.set("runTimes", valueOf(curves->second));
  Result<StoredObject> stored = store_.updateStatus(object);
  if (!stored.ok() && stored.error().code == Code::NotFound) stored = store_.create(std::move(object));
  if (!stored.ok()) log::warning("memory", "a measurement was not kept: " + stored.error().message);
}

}  // namespace coterie::controller
