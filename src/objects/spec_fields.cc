#include "objects/spec_fields.h"

#include <array>
#include <cmath>

#include "objects/names.h"
#include "objects/quantity.h"

namespace coterie::objects {

namespace {
constexpr double kLongestLatencyMs = 3600000;

// "latency-critical and batch", "high, normal and low"
std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}
}  // namespace

std::string zeroFault(std::string_view thing) { return "0 would let nothing run: leave the field out for no " + std::string(thing); }

MilliCpu cpusField(Fields& fields, std::string_view name, Zero zero, std::string_view thing) {
  const Value* value = fields.find(name);
  if (value == nullptr) return MilliCpu(0);
  const Result<MilliCpu> parsed = parseCpus(*value);
  if (!parsed.ok()) return fields.fault(name, parsed.error().message), MilliCpu(0);
  if (zero == Zero::Refused && parsed->value == 0) fields.fault(name, zeroFault(thing));
  return *parsed;
}

Bytes bytesField(Fields& fields, std::string_view name, Bytes least, Zero zero, std::string_view thing) {
  const Value* value = fields.find(name);
  if (value == nullptr) return Bytes(0);
  const Result<Bytes> parsed = parseBytes(*value);
  if (!parsed.ok()) return fields.fault(name, parsed.error().message), Bytes(0);
  if (parsed->value == 0) {
    if (zero == Zero::Refused) fields.fault(name, zeroFault(thing));
  } else if (*parsed < least) {
    fields.fault(name, "wanted at least " + bytesText(least) + ", found " + bytesText(*parsed));
  }
  return *parsed;
}

CpuSet idsField(Fields& fields, std::string_view name) {
  const Value* value = fields.find(name);
  if (value == nullptr) return {};
  if (const std::int64_t* id = value->asInt()) {
    if (*id >= 0 && *id < CpuSet::kMaxId) return {static_cast<int>(*id)};
    fields.fault(name, "wanted ids from 0 to " + std::to_string(CpuSet::kMaxId - 1) + ", found " + std::to_string(*id));
    return {};
  }
  const std::string* text = value->asString();
  if (text == nullptr) return fields.fault(name, "wanted ids as 0-3,8, found " + std::string(value->typeName())), CpuSet{};
  const Result<CpuSet> ids = CpuSet::parse(*text);
  if (!ids.ok()) {
    fields.fault(name, "wanted ids as 0-3,8, found \"" + text->substr(0, 60) + "\"");
  } else if (ids->empty()) {
    fields.fault(name, "is empty: leave the field out for none");
  }
  return ids.ok() ? *ids : CpuSet{};
}

std::optional<std::size_t> wordField(Fields& fields, std::string_view name, std::string_view what, const std::vector<std::string_view>& words) {
  const std::optional<std::string> text = fields.text(name);
  if (!text) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (*text == words[i]) return i;
  }
  const std::optional<std::string> near = nearest(*text, words);
  fields.fault(name, "unknown " + std::string(what) + " \"" + text->substr(0, 60) + "\"; " +
                         (near ? "did you mean " + *near + "?" : "known are " + listed(words)));
  return std::nullopt;
}

bool latencyCriticalField(Fields& fields) { return wordField(fields, "serviceClass", "class", {"latency-critical", "batch"}).value_or(0) == 0; }

Band bandField(Fields& fields) {
  const std::vector<std::string_view> words{bandName(Band::High), bandName(Band::Normal), bandName(Band::Low)};
  return static_cast<Band>(wordField(fields, "band", "band", words).value_or(static_cast<std::size_t>(Band::Normal)));
}

Isolation isolationField(Fields& fields) {
  constexpr std::array kLevels{Isolation::None, Isolation::Core, Isolation::Cache, Isolation::Node};
  std::vector<std::string_view> words;
  for (const Isolation level : kLevels) words.push_back(isolationName(level));
  return kLevels[wordField(fields, "isolation", "isolation", words).value_or(0)];
}

RoleNeed roleFields(Fields& fields, const std::vector<ContainerRole>& roles) {
  std::vector<std::string_view> words;
  for (const ContainerRole role : roles) words.push_back(containerRoleName(role));
  RoleNeed need;
  if (const auto word = wordField(fields, "role", "role", words)) need.role = roles[*word];
  if (need.role == ContainerRole::Init || need.role == ContainerRole::Sidecar) {
    need.floor = cpusField(fields, "minCpus", Zero::Allowed, "floor");
  } else if (fields.find("minCpus") != nullptr) {
    fields.fault("minCpus", "is of an init or a sidecar: set the group's minCpus, or say role: sidecar");
  }
  return need;
}

std::optional<Objective> objectiveField(Fields& fields) {
  Fields given = fields.map("objective");
  if (!given.present()) return std::nullopt;
  Objective objective;
  if (given.require("latencyMs", "the latency bound in milliseconds") != nullptr) {
    if (const std::optional<double> ms = given.number("latencyMs", 0, kLongestLatencyMs)) {
      objective.latency = Nanos(std::llround(*ms * 1e6));
      if (objective.latency <= Nanos::zero()) given.fault("latencyMs", "must be more than 0");
    }
  }
  objective.percentile = given.number("percentile", 50, 99.9).value_or(99);
  given.finish();
  return objective;
}

}  // namespace coterie::objects
