#include "controller/measurements.h"

#include <cstdint>
#include <utility>

#include "base/log.h"

namespace coterie::controller {

namespace {
bool grewNoticeably(Bytes before, Bytes now) { return now.value > before.value + before.value / 20; }
std::int64_t numberOf(const Value& status, std::string_view name) {
  const Value* member = status.find(name);
  return member != nullptr && member->asInt() != nullptr ? *member->asInt() : 0;
}
}  // namespace

void Measurements::load() {
  const Result<ObjectList> list = store_.list(kMeasurementKind, std::nullopt);
  if (!list.ok()) return log::warning("memory", "measurements cannot be read, estimates are used: " + list.error().message);
  for (const StoredObject& object : list->objects)
    known_[object.key.name] = {Bytes(numberOf(object.status, "steadyBytes")), Bytes(numberOf(object.status, "peakBytes")),
                               Bytes(numberOf(object.status, "provenLimitBytes"))};
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
  keep(sha256, both);
}

void Measurements::learnOutOfMemory(const std::string& sha256, Bytes limit) {
  const Bytes wanted(limit.value + limit.value / 2);
  keep(sha256, merged(of(sha256), {Bytes(0), wanted, Bytes(0)}));
}

void Measurements::keep(const std::string& sha256, const Measurement& measurement) {
  known_[sha256] = measurement;
  StoredObject object;
  object.key = {kMeasurementKind, "", sha256};
  object.status.set("steadyBytes", measurement.steady.value);
  object.status.set("peakBytes", measurement.peak.value);
  if (measurement.provenLimit.value > 0) object.status.set("provenLimitBytes", measurement.provenLimit.value);
  Result<StoredObject> stored = store_.updateStatus(object);
  if (!stored.ok() && stored.error().code == Code::NotFound) stored = store_.create(std::move(object));
  if (!stored.ok()) log::warning("memory", "a measurement was not kept: " + stored.error().message);
}

}  // namespace coterie::controller
