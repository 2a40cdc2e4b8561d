#include "cli/object_view.h"

#include <fmt/format.h>

#include "admin/reports.h"
#include "base/cpu_set.h"
#include "objects/encode.h"
#include "objects/quantity.h"

namespace coterie::cli {
namespace {

using admin::textAt;

const Value& at(const Value& value, std::string_view key) {
  static const Value kNone;
  const Value* member = value.find(key);
  return member == nullptr ? kNone : *member;
}

// Numbers and texts as they were written; "-" if missing.
std::string scalar(const Value& value) {
  if (value.asString() != nullptr) return *value.asString();
  if (value.asInt() != nullptr) return std::to_string(*value.asInt());
  if (value.asDouble() != nullptr) return fmt::format("{:g}", *value.asDouble());
  return "-";
}

std::string metadataAt(const Value& object, std::string_view key) { return textAt(at(object, "metadata"), key); }

std::string listText(const Value& value) {
  std::string out;
  if (value.asList() == nullptr) return "-";
  for (const Value& item : *value.asList()) out += (out.empty() ? "" : ",") + scalar(item);
  return out;
}

std::string objective(const Value& spec) {
  const Value& objective = at(spec, "objective");
  if (objective.isNull()) return "-";
  const Value& percentile = at(objective, "percentile");
  return scalar(at(objective, "latencyMs")) + "ms p" + (percentile.isNull() ? "99" : scalar(percentile));
}

std::string instances(const Value& object) {
  const Value& status = at(object, "status");
  const Value& ready = at(status, "readyInstances");
  const Value& desired = at(status, "desiredInstances");
  if (ready.isNull() && desired.isNull()) return "-";
  return (ready.isNull() ? "0" : scalar(ready)) + "/" + (desired.isNull() ? "?" : scalar(desired));
}

// The CPUs of all instances together, as a list.
std::string cpusOf(const Value& object) {
  CpuSet all;
  const Value& instances = at(at(object, "status"), "instances");
  if (instances.asList() == nullptr) return "-";
  for (const Value& instance : *instances.asList()) {
    if (const auto cpus = CpuSet::parse(textAt(instance, "cpus")); cpus.ok()) all |= *cpus;
  }
  return all.empty() ? "-" : all.toString();
}

}  // namespace

std::vector<Condition> conditionsOf(const Value& object) { return objects::decodeConditions(at(object, "status").find("conditions")); }

bool servesFormerSpec(const Condition& condition) {
  return condition.status == ConditionStatus::True && (condition.reason == "ServingOldSpec" || condition.reason == "RollingOut");
}

Cell conditionCell(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = objects::findCondition(conditions, type);
  if (condition == nullptr) return {"-"};
  switch (condition->status) {
    case ConditionStatus::True:
      if (servesFormerSpec(*condition)) return {"True (" + condition->reason + ")", Style::Doubtful};
      return {"True", Style::Good};
    case ConditionStatus::False: return {"False (" + condition->reason + ")", Style::Bad};
    case ConditionStatus::Unknown: break;
  }
  return {condition->reason.empty() ? "Unknown" : "Unknown (" + condition->reason + ")", Style::Doubtful};
}

std::string ageOf(const Value& object, std::int64_t nowMicros) {
  const auto created = objects::parseTime(metadataAt(object, "creationTimestamp"));
  return created ? ageText(nowMicros - *created) : "-";
}

Table objectTable(std::string_view kind, Detail detail) {
  if (kind == kTenantKind) {
    if (detail == Detail::Wide)
      return Table({"NAME", "NAMESPACES", "WEIGHT", "CPUS", "MEMORY", "SERVICES", "REQUESTS/S", "CONCURRENT", "QUEUED", "AGE"});
    return Table({"NAME", "NAMESPACES", "WEIGHT", "AGE"});
  }
  if (detail == Detail::Wide)
    return Table({"NAMESPACE", "NAME", "READY", "INSTANCES", "CPUS", "OBJECTIVE", "CLASS", "ISOLATION", "WEIGHT", "MODEL", "MESSAGE", "AGE"});
  return Table({"NAMESPACE", "NAME", "READY", "INSTANCES", "CPUS", "OBJECTIVE", "AGE"});
}

std::vector<Cell> objectRow(const Value& object, Detail detail, std::int64_t nowMicros) {
  const Value& spec = at(object, "spec");
  const Value& weight = at(spec, "weight");
  const std::string weightText = weight.isNull() ? "100" : scalar(weight);
  std::vector<Cell> row;
  if (textAt(object, "kind") == kTenantKind) {
    row = {metadataAt(object, "name"), listText(at(spec, "namespaces")), weightText};
    if (detail == Detail::Wide) {
      const Value& quota = at(spec, "quota");
      for (const char* key : {"cpus", "memory", "services", "requestsPerSecond", "concurrentRequests", "queuedBytes"})
        row.emplace_back(scalar(at(quota, key)));
    }
  } else {
    const auto conditions = conditionsOf(object);
    row = {metadataAt(object, "namespace"),
           metadataAt(object, "name"),
           conditionCell(conditions, "Ready"),
           instances(object),
           cpusOf(object),
           objective(spec)};
    if (detail == Detail::Wide) {
      const Condition* ready = objects::findCondition(conditions, "Ready");
      const std::string serviceClass = textAt(spec, "serviceClass");
      row.emplace_back(serviceClass.empty() ? "latency-critical" : serviceClass);
      const std::string isolation = textAt(spec, "isolation");
      row.emplace_back(isolation.empty() ? "none" : isolation);
      row.emplace_back(weightText);
      row.emplace_back(textAt(at(spec, "model"), "uri"));
      row.emplace_back(ready == nullptr || (ready->status == ConditionStatus::True && !servesFormerSpec(*ready)) ? "-" : ready->message);
    }
  }
  const bool going = !metadataAt(object, "deletionTimestamp").empty();
  row.emplace_back(going ? "deleting" : ageOf(object, nowMicros));
  return row;
}

}  // namespace coterie::cli
