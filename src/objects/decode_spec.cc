#include <algorithm>
#include <cmath>
#include <set>

#include "model/batching.h"
#include "objects/decode.h"
#include "objects/fields.h"
#include "objects/names.h"
#include "objects/quantity.h"
#include "objects/spec_fields.h"

namespace coterie::objects {

namespace {
constexpr std::int64_t kMostInstances = 1000;

std::int64_t limit(Fields& fields, std::string_view name, std::int64_t most) {
  const Value* value = fields.find(name);
  if (value != nullptr && value->asInt() != nullptr && *value->asInt() == 0) return fields.fault(name, zeroFault("limit")), 0;
  return fields.whole(name, {1, most}).value_or(0);
}

void decodeRequestLimits(Fields& fields, RequestLimits& into) {
  constexpr std::int64_t kMostPerSecond = 1'000'000'000;
  constexpr std::int64_t kMostAtOnce = 1'000'000;
  constexpr double kMostSeconds = 86'400;
  into.requestsPerSecond = limit(fields, "requestsPerSecond", kMostPerSecond);
  into.burstRequests = limit(fields, "burstRequests", kMostPerSecond);
  if (into.burstRequests > 0 && into.requestsPerSecond == 0)
    fields.fault("burstRequests", "is a burst above requestsPerSecond: say requestsPerSecond, too, or leave both out for no limit");
  into.concurrentRequests = limit(fields, "concurrentRequests", kMostAtOnce);
  into.queuedBytes = bytesField(fields, "queuedBytes", Bytes(1024), Zero::Refused, "limit");
  into.inFlightBytes = bytesField(fields, "inFlightBytes", Bytes(1024), Zero::Refused, "limit");
  into.queuedRequests = limit(fields, "queuedRequests", kMostAtOnce);
  if (const auto seconds = fields.number("queuedSeconds", 0, kMostSeconds)) {
    into.queuedTime = Nanos(std::llround(*seconds * 1e9));
    if (into.queuedTime == Nanos::zero()) fields.fault("queuedSeconds", zeroFault("limit"));
  }
}

// Names of one kind, each at most once.
template <typename FaultOf>
std::vector<std::string> namesField(Fields& spec, std::string_view field, std::string_view kind, const FaultOf& faultOf) {
  constexpr std::size_t kMost = 1000;
  std::vector<std::string> names;
  const Value::List* list = spec.list(field);
  if (list == nullptr) return names;
  if (list->size() > kMost) {
    spec.fault(field, "at most " + std::to_string(kMost) + " " + std::string(kind) + "s");
    return names;
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Value& item = (*list)[i];
    const std::string path = spec.pathOf(field) + "[" + std::to_string(i) + "]";
    const std::string* name = item.asString();
    if (name == nullptr) {
      spec.faultAt(path, item.line, "wanted text, found " + std::string(item.typeName()));
    } else if (const auto fault = faultOf(*name)) {
      spec.faultAt(path, item.line, "the " + std::string(kind) + " " + *fault);
    } else if (!seen.insert(*name).second) {
      spec.faultAt(path, item.line, *name + " is there twice");
    } else {
      names.push_back(*name);
    }
  }
  return names;
}

void decodeNamespaces(Fields& spec, TenantSpec& into) {
  if (spec.require("namespaces", "at least one namespace that the tenant owns") == nullptr) return;
  const Value::List* list = spec.list("namespaces");
  if (list != nullptr && list->empty()) return spec.fault("namespaces", "is empty: a tenant owns at least one namespace");
  into.namespaces = namesField(spec, "namespaces", "namespace", labelNameFault);
}

void decodeConsumers(Fields& spec, ModelServiceSpec& into) {
  into.consumers = namesField(spec, "consumers", "tenant", [](const std::string& name) { return name == "*" ? std::nullopt : labelNameFault(name); });
  if (into.consumers.size() > 1 && std::find(into.consumers.begin(), into.consumers.end(), "*") != into.consumers.end())
    spec.fault("consumers", "\"*\" stands for every tenant: leave the names out, or the \"*\"");
}

std::optional<std::string> uriFault(std::string_view uri) {
  constexpr std::string_view scheme = "file:";
  if (!uri.starts_with(scheme)) {
    return uri.find(':') == std::string_view::npos ? "wanted file:path/to/model.onnx; the scheme is missing"
                                                   : "only file: is supported: wanted file:path/to/model.onnx";
  }
  const std::string_view path = uri.substr(scheme.size());
  if (path.empty()) return "the path is missing after file:";
  if (path.size() > 1024) return "the path is longer than 1024 bytes";
  if (path.front() == '/') return "the path must be relative (below the tenant's model root): file:models/a.onnx, without '/' after file:";
  if (std::any_of(path.begin(), path.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; }))
    return "the path holds a character that is not allowed";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") return "the path must not leave the tenant's model root: no '..'";
    if (part.empty() || part == ".") return "the path has an empty part or '.'";
    begin = end + 1;
  }
  return std::nullopt;
}

void decodeModel(Fields& spec, ModelServiceSpec& into) {
  if (spec.require("model", "model.uri says which file to serve") == nullptr) return;
  Fields model = spec.map("model");
  if (!model.present()) return;
  if (model.require("uri", "file:path/to/model.onnx, below the tenant's model root") != nullptr) {
    if (const std::optional<std::string> uri = model.text("uri")) {
      if (const auto fault = uriFault(*uri)) model.fault("uri", *fault);
      into.modelUri = *uri;
    }
  }
  if (std::optional<std::string> sum = model.text("sha256")) {
    const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
    if (sum->size() != 64 || !std::all_of(sum->begin(), sum->end(), hex)) {
      model.fault("sha256", "wanted 64 hexadecimal digits (sha256sum FILE prints them), found " + std::to_string(sum->size()) + " characters");
    }
    std::transform(sum->begin(), sum->end(), sum->begin(), [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    into.sha256 = std::move(*sum);
  }
  model.finish();
}

void decodeInstances(Fields& spec, ModelServiceSpec& into) {
  const std::optional<std::int64_t> least = spec.whole("minInstances", {1, kMostInstances});
  const std::optional<std::int64_t> most = spec.whole("maxInstances", {1, kMostInstances});
  const std::optional<std::int64_t> fixed = spec.whole("instances", {0, kMostInstances});
  into.minInstances = static_cast<int>(least.value_or(1));
  into.maxInstances = static_cast<int>(most.value_or(into.minInstances));
  if (into.maxInstances < into.minInstances) {
    spec.fault("maxInstances", std::to_string(into.maxInstances) + " is less than minInstances, " + std::to_string(into.minInstances));
  }
  if (!fixed) return;
  into.instances = static_cast<int>(*fixed);
  // 0 stops the service whatever the range says.
  if (*fixed > 0 && ((least && *fixed < *least) || (most && *fixed > *most))) {
    spec.fault("instances", std::to_string(*fixed) + " lies outside minInstances.." + "maxInstances, " + std::to_string(into.minInstances) + ".." +
                                std::to_string(into.maxInstances) + ": leave instances out for automation, or the range out for a fixed number");
  }
}

void decodeProbe(Fields& spec, ModelServiceSpec& into) {
  constexpr std::size_t kMostInputs = 256;
  constexpr std::size_t kMostDimensions = 16;
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
  Fields probe = spec.map("probe");
  if (!probe.present()) return;
  const Fields shapes = probe.map("shapes");
  probe.finish();
  if (!shapes.present()) return;
  if (shapes.members()->size() > kMostInputs) return probe.fault("shapes", "at most " + std::to_string(kMostInputs) + " inputs");
  for (const auto& [input, value] : *shapes.members()) {
    const std::string path = shapes.pathOf(input.substr(0, 100));
    const Value::List* list = value.asList();
    if (input.empty() || input.size() > 256) probe.faultAt(path, value.line, "an input's name has 1 to 256 bytes");
    if (list == nullptr || list->size() > kMostDimensions) {
      probe.faultAt(path, value.line, "wanted a list of at most " + std::to_string(kMostDimensions) + " dimensions, as [1, 3, 224, 224]");
      continue;
    }
    Shape shape;
    for (const Value& item : *list) {
      const std::int64_t* dimension = item.asInt();
      if (dimension == nullptr || *dimension < 1) {
        probe.faultAt(path + "[" + std::to_string(shape.size()) + "]", item.line,
                      "wanted a whole number of at least 1 (a probe's shape leaves nothing open)");
      }
      shape.push_back(dimension != nullptr ? *dimension : 1);
    }
    const std::optional<std::int64_t> elements = elementCount(shape);
    if (std::all_of(shape.begin(), shape.end(), [](std::int64_t d) { return d >= 1; }) && (!elements || *elements > kMostElements)) {
      probe.faultAt(path, value.line, "has more than " + std::to_string(kMostElements) + " elements");
    }
    into.probeShapes.emplace_back(input, std::move(shape));
  }
  std::sort(into.probeShapes.begin(), into.probeShapes.end());
}

int maxBatchField(Fields& spec) {
  Fields batching = spec.map("batching");
  if (!batching.present()) return 1;
  (void)batching.require("maxRequests", "how many requests may run as one, 1 to " + std::to_string(kMostBatch));
  const auto most = batching.whole("maxRequests", {1, kMostBatch});
  batching.finish();
  return static_cast<int>(most.value_or(1));
}

void decodeStates(Fields& stateful, StatefulSpec& into) {
  constexpr std::size_t kMostStates = 32;
  if (stateful.require("states", "which output is which input of the sequence's next request: {output: input}") == nullptr) return;
  const Fields states = stateful.map("states");
  if (!states.present()) return;
  if (states.members()->empty() || states.members()->size() > kMostStates)
    return stateful.fault("states", "wanted 1 to " + std::to_string(kMostStates) + " outputs, each with the input that it becomes");
  for (const auto& [output, value] : *states.members()) {
    const std::string* input = value.asString();
    if (input == nullptr || input->empty() || input->size() > 256 || output.empty() || output.size() > 256) {
      stateful.faultAt(states.pathOf(output.substr(0, 100)), value.line, "wanted the name of the input that this output becomes");
    } else {
      into.states.emplace_back(output, *input);
    }
  }
  std::sort(into.states.begin(), into.states.end());
}

// A sequence's state is in one instance, and so are the requests that need it.
void decodeStateful(Fields& spec, ModelServiceSpec& into) {
  Fields stateful = spec.map("stateful");
  if (!stateful.present()) return;
  StatefulSpec decoded;
  decodeStates(stateful, decoded);
  decoded.maxSequences = stateful.whole("maxSequences", {1, 1'000'000}).value_or(decoded.maxSequences);
  decoded.maxIdle = Seconds(stateful.whole("idleSeconds", {1, 86'400}).value_or(decoded.maxIdle.count()));
  decoded.maxWaiting = stateful.whole("maxWaiting", {1, 10'000}).value_or(decoded.maxWaiting);
  decoded.stateMemory = bytesField(stateful, "stateMemory", Bytes(1), Zero::Refused, "limit of its own (it is what the state has at its start)");
  const Bytes all = bytesField(stateful, "memory", Bytes(1), Zero::Refused, "limit of its own (it is 64Mi)");
  if (all.value > 0) decoded.memory = all;
  if (decoded.stateMemory > decoded.memory) stateful.fault("stateMemory", "one sequence's is more than that of all, stateful.memory");
  stateful.finish();
  if (into.maxInstances > 1 || into.instances.value_or(1) > 1)
    spec.fault("maxInstances", "a stateful service runs one instance: its sequences' state is there. For more, apply it under several names");
  if (into.maxBatch > 1) spec.fault("batching", "requests of sequences do not run as one: leave batching out, or stateful");
  into.stateful = std::move(decoded);
}

}  // namespace

std::optional<TenantSpec> decodeTenantSpec(const Value& value, Faults& faults, const std::string& path) {
  const std::size_t before = faults.size();
  Fields spec(&value, path, value.line, faults);
  TenantSpec decoded;
  if (spec.present()) {
    decodeNamespaces(spec, decoded);
    decoded.weight = spec.whole("weight", {1, 10000}).value_or(100);
    decoded.band = bandField(spec);
    decoded.sharesBatches = spec.truth("sharesBatches").value_or(false);
    Fields quota = spec.map("quota");
    decoded.quota.cpus = cpusField(quota, "cpus", Zero::Refused, "limit");
    decoded.quota.memory = bytesField(quota, "memory", Bytes(std::int64_t{1} << 20), Zero::Refused, "limit");
    decoded.quota.services = limit(quota, "services", 100000);
    decodeRequestLimits(quota, decoded.quota);
    quota.finish();
    spec.finish();
  }
  if (faults.size() > before) return std::nullopt;
  return decoded;
}

std::optional<ModelServiceSpec> decodeModelServiceSpec(const Value& value, Faults& faults, const std::string& path) {
  const std::size_t before = faults.size();
  Fields spec(&value, path, value.line, faults);
  ModelServiceSpec decoded;
  if (spec.present()) {
    decodeModel(spec, decoded);
    decoded.objective = objectiveField(spec);
    decodeInstances(spec, decoded);
    decoded.minCpus = cpusField(spec, "minCpus", Zero::Allowed, "floor");
    decoded.maxCpus = cpusField(spec, "maxCpus", Zero::Refused, "ceiling");
    if (decoded.maxCpus.value > 0 && decoded.maxCpus < decoded.minCpus) {
      spec.fault("maxCpus", cpusText(decoded.maxCpus) + " is less than minCpus, " + cpusText(decoded.minCpus));
    }
    decoded.isolation = isolationField(spec);
    decoded.memory = bytesField(spec, "memory", Bytes(std::int64_t{16} << 20), Zero::Refused, "limit of its own (it is measured then)");
    decoded.weight = spec.whole("weight", {1, 10000}).value_or(100);
    decoded.maxBatch = maxBatchField(spec);
    decodeStateful(spec, decoded);
    decoded.latencyCritical = latencyCriticalField(spec);
    decodeConsumers(spec, decoded);
    Fields tenantLimits = spec.map("tenantLimits");
    decodeRequestLimits(tenantLimits, decoded.tenantLimits);
    tenantLimits.finish();
    decodeProbe(spec, decoded);
    spec.finish();
  }
  if (faults.size() > before) return std::nullopt;
  return decoded;
}

}  // namespace coterie::objects
