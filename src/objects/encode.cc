#include "objects/encode.h"

#include <algorithm>
#include <cmath>

#include "objects/quantity.h"

namespace coterie::objects {

namespace {
Value encodeMetadata(const Metadata& metadata) {
  Value value = Value::emptyMap();
  value.set("name", metadata.name);
  if (!metadata.nameSpace.empty()) value.set("namespace", metadata.nameSpace);
  if (!metadata.labels.empty()) value.set("labels", encodeLabels(metadata.labels));
  return value;
}

Value encodeWhole(std::string_view kind, const Metadata& metadata, Value spec) {
  Value value = Value::emptyMap();
  value.set("apiVersion", kApiVersion);
  value.set("kind", kind);
  value.set("metadata", encodeMetadata(metadata));
  value.set("spec", std::move(spec));
  return value;
}

Value numberValue(double number) {
  return std::floor(number) == number && std::abs(number) < 1e15 ? Value(static_cast<std::int64_t>(number)) : Value(number);
}

void encodeRequestLimits(const RequestLimits& limits, Value& into) {
  if (limits.requestsPerSecond > 0) into.set("requestsPerSecond", limits.requestsPerSecond);
  if (limits.burstRequests > 0) into.set("burstRequests", limits.burstRequests);
  if (limits.concurrentRequests > 0) into.set("concurrentRequests", limits.concurrentRequests);
  if (limits.queuedBytes.value > 0) into.set("queuedBytes", bytesText(limits.queuedBytes));
  if (limits.inFlightBytes.value > 0) into.set("inFlightBytes", bytesText(limits.inFlightBytes));
  if (limits.queuedRequests > 0) into.set("queuedRequests", limits.queuedRequests);
  if (limits.queuedTime > Nanos{}) into.set("queuedSeconds", numberValue(static_cast<double>(limits.queuedTime.count()) / 1e9));
}
}  // namespace

Value encodeSpec(const TenantSpec& spec) {
  Value value = Value::emptyMap();
  Value namespaces = Value::emptyList();
  for (const std::string& name : spec.namespaces) namespaces.push(name);
  value.set("namespaces", std::move(namespaces));
  if (spec.weight != 100) value.set("weight", spec.weight);
  if (spec.band != Band::Normal) value.set("band", bandName(spec.band));
  if (spec.sharesBatches) value.set("sharesBatches", true);
  Value quota = Value::emptyMap();
  if (spec.quota.cpus.value > 0) quota.set("cpus", encodeCpus(spec.quota.cpus));
  if (spec.quota.memory.value > 0) quota.set("memory", bytesText(spec.quota.memory));
  if (spec.quota.services > 0) quota.set("services", spec.quota.services);
  encodeRequestLimits(spec.quota, quota);
  if (!quota.asMap()->empty()) value.set("quota", std::move(quota));
  return value;
}

namespace {
Value encodeStateful(const StatefulSpec& stateful) {
  const StatefulSpec ordinary;
  Value value = Value::emptyMap();
  Value states = Value::emptyMap();
  for (const auto& [output, input] : stateful.states) states.set(output, input);
  value.set("states", std::move(states));
  if (stateful.maxSequences != ordinary.maxSequences) value.set("maxSequences", stateful.maxSequences);
  if (stateful.maxIdle != ordinary.maxIdle) value.set("idleSeconds", std::int64_t{stateful.maxIdle.count()});
  if (stateful.maxWaiting != ordinary.maxWaiting) value.set("maxWaiting", stateful.maxWaiting);
  if (stateful.stateMemory.value > 0) value.set("stateMemory", bytesText(stateful.stateMemory));
  if (stateful.memory != ordinary.memory) value.set("memory", bytesText(stateful.memory));
  return value;
}
}  // namespace

Value encodeSpec(const ModelServiceSpec& spec) {
  Value value = Value::emptyMap();
  Value model = Value::emptyMap();
  model.set("uri", spec.modelUri);
  if (!spec.sha256.empty()) model.set("sha256", spec.sha256);
  value.set("model", std::move(model));
  if (spec.objective) {
    Value objective = Value::emptyMap();
    objective.set("latencyMs", numberValue(static_cast<double>(spec.objective->latency.count()) / 1e6));
    if (spec.objective->percentile != 99) objective.set("percentile", numberValue(spec.objective->percentile));
    value.set("objective", std::move(objective));
  }
  if (spec.instances) value.set("instances", *spec.instances);
  if (spec.minInstances != 1) value.set("minInstances", spec.minInstances);
  if (spec.maxInstances != spec.minInstances) value.set("maxInstances", spec.maxInstances);
  if (spec.minCpus.value > 0) value.set("minCpus", encodeCpus(spec.minCpus));
  if (spec.maxCpus.value > 0) value.set("maxCpus", encodeCpus(spec.maxCpus));
  if (spec.isolation != Isolation::None) value.set("isolation", isolationName(spec.isolation));
  if (spec.memory.value > 0) value.set("memory", bytesText(spec.memory));
  if (spec.weight != 100) value.set("weight", spec.weight);
  if (spec.maxBatch > 1) {
    Value batching = Value::emptyMap();
    batching.set("maxRequests", spec.maxBatch);
    value.set("batching", std::move(batching));
  }
  if (spec.stateful) value.set("stateful", encodeStateful(*spec.stateful));
  if (!spec.latencyCritical) value.set("serviceClass", "batch");
  if (!spec.consumers.empty()) {
    Value consumers = Value::emptyList();
    for (const std::string& tenant : spec.consumers) consumers.push(tenant);
    value.set("consumers", std::move(consumers));
  }
  if (spec.tenantLimits != RequestLimits{}) {
    Value limits = Value::emptyMap();
    encodeRequestLimits(spec.tenantLimits, limits);
    value.set("tenantLimits", std::move(limits));
  }
  if (!spec.probeShapes.empty()) {
    Value shapes = Value::emptyMap();
    for (const auto& [input, shape] : spec.probeShapes) {
      Value dimensions = Value::emptyList();
      for (const std::int64_t dimension : shape) dimensions.push(dimension);
      shapes.set(input, std::move(dimensions));
    }
    Value probe = Value::emptyMap();
    probe.set("shapes", std::move(shapes));
    value.set("probe", std::move(probe));
  }
  return value;
}

Value encodeLabels(const std::vector<std::pair<std::string, std::string>>& labels) {
  Value value = Value::emptyMap();
  for (const auto& [key, text] : labels) value.set(key, text);
  return value;
}

std::vector<std::pair<std::string, std::string>> decodeLabels(const Value& labels) {
  std::vector<std::pair<std::string, std::string>> decoded;
  if (const Value::Map* map = labels.asMap()) {
    for (const auto& [key, value] : *map) {
      if (const std::string* text = value.asString()) decoded.emplace_back(key, *text);
    }
  }
  std::sort(decoded.begin(), decoded.end());
  return decoded;
}

Value encodeObject(const Tenant& tenant) { return encodeWhole(kTenantKind, tenant.metadata, encodeSpec(tenant.spec)); }
Value encodeObject(const ModelService& service) { return encodeWhole(kModelServiceKind, service.metadata, encodeSpec(service.spec)); }

std::string_view conditionStatusName(ConditionStatus status) {
  switch (status) {
    case ConditionStatus::True: return "True";
    case ConditionStatus::False: return "False";
    case ConditionStatus::Unknown: return "Unknown";
  }
  return "Unknown";
}

Value encodeConditions(const std::vector<Condition>& conditions) {
  Value list = Value::emptyList();
  for (const Condition& condition : conditions) {
    Value value = Value::emptyMap();
    value.set("type", condition.type);
    value.set("status", conditionStatusName(condition.status));
    value.set("observedGeneration", condition.observedGeneration);
    value.set("lastTransitionTime", timeText(condition.lastTransitionMicros));
    value.set("reason", condition.reason);
    value.set("message", condition.message);
    list.push(std::move(value));
  }
  return list;
}

std::vector<Condition> decodeConditions(const Value* conditions) {
  std::vector<Condition> decoded;
  const Value::List* list = conditions != nullptr ? conditions->asList() : nullptr;
  if (list == nullptr) return decoded;
  const auto text = [](const Value& map, std::string_view name) {
    const Value* member = map.find(name);
    return member != nullptr && member->asString() != nullptr ? *member->asString() : std::string();
  };
  for (const Value& item : *list) {
    Condition condition;
    condition.type = text(item, "type");
    if (condition.type.empty()) continue;
    const std::string status = text(item, "status");
    condition.status = status == "True" ? ConditionStatus::True : status == "False" ? ConditionStatus::False : ConditionStatus::Unknown;
    if (const Value* generation = item.find("observedGeneration"); generation != nullptr && generation->asInt() != nullptr)
      condition.observedGeneration = *generation->asInt();
    condition.lastTransitionMicros = parseTime(text(item, "lastTransitionTime")).value_or(0);
    condition.reason = text(item, "reason");
    condition.message = text(item, "message");
    decoded.push_back(std::move(condition));
  }
  return decoded;
}

bool setCondition(std::vector<Condition>& conditions, Condition condition, std::int64_t nowMicros) {
  const auto present = std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == condition.type; });
  if (present == conditions.end()) {
    condition.lastTransitionMicros = nowMicros;
    conditions.push_back(std::move(condition));
    return true;
  }
  condition.lastTransitionMicros = present->status == condition.status ? present->lastTransitionMicros : nowMicros;
  if (*present == condition) return false;
  *present = std::move(condition);
  return true;
}

const Condition* findCondition(const std::vector<Condition>& conditions, std::string_view type) {
  const auto found = std::find_if(conditions.begin(), conditions.end(), [&](const Condition& c) { return c.type == type; });
  return found == conditions.end() ? nullptr : &*found;
}

}  // namespace coterie::objects
