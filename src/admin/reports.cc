#include "admin/reports.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "objects/quantity.h"
#include "text/text.h"

namespace coterie::admin {
namespace {

constexpr double kNanosPerSecond = 1e9;

Value timeValue(WallTime time) { return time.micros == 0 ? Value() : Value(objects::timeText(time.micros)); }
Value timeValue(const std::optional<WallTime>& time) { return time ? timeValue(*time) : Value(); }
Value micros(Nanos duration) { return Value(std::int64_t{duration.count() / 1000}); }

// Builds a map, leaving out what is null.
class Map {
 public:
  Map& add(std::string_view key, Value value) {
    if (!value.isNull()) value_.set(key, std::move(value));
    return *this;
  }
  [[nodiscard]] Value take() { return std::move(value_); }

 private:
  Value value_{Value::emptyMap()};
};

WallTime timeAt(const Value& value, std::string_view key) { return {objects::parseTime(textAt(value, key)).value_or(0)}; }
std::optional<WallTime> optionalTimeAt(const Value& value, std::string_view key) {
  const auto time = objects::parseTime(textAt(value, key));
  return time ? std::optional<WallTime>(WallTime{*time}) : std::nullopt;
}
bool boolAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  return member != nullptr && member->asBool() != nullptr && *member->asBool();
}
double numberAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  if (member == nullptr) return 0;
  if (member->asDouble() != nullptr) return *member->asDouble();
  return static_cast<double>(intAt(value, key));
}
Nanos microsAt(const Value& value, std::string_view key) { return Micros(intAt(value, key)); }

Value encodeBecause(const std::vector<Because>& reasons) {
  Value list = Value::emptyList();
  for (const auto& [reason, message] : reasons) list.push(Map().add("reason", reason).add("message", message).take());
  return list;
}
std::vector<Because> becauseAt(const Value& value, std::string_view key) {
  std::vector<Because> out;
  const Value* list = value.find(key);
  if (list == nullptr || list->asList() == nullptr) return out;
  for (const Value& item : *list->asList()) out.push_back({textAt(item, "reason"), textAt(item, "message")});
  return out;
}

}  // namespace

Value encode(const audit::Page& page) {
  Value lines = Value::emptyList();
  for (const std::string& line : page.lines) lines.push(text::firstBadUtf8Line(line) == 0 ? line : std::string("(no text)"));
  return Map().add("file", page.file).add("items", std::move(lines)).add("next", static_cast<std::int64_t>(page.next)).add("last", page.last).take();
}

audit::Page decodeAuditPage(const Value& value) {
  audit::Page page{textAt(value, "file"), {}, static_cast<std::uint64_t>(intAt(value, "next")), boolAt(value, "last")};
  const Value* lines = value.find("items");
  if (lines == nullptr || lines->asList() == nullptr) return page;
  for (const Value& line : *lines->asList()) page.lines.push_back(line.asString() == nullptr ? std::string() : *line.asString());
  return page;
}

std::string textAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  return member != nullptr && member->asString() != nullptr ? *member->asString() : std::string();
}

std::int64_t intAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  return member != nullptr && member->asInt() != nullptr ? *member->asInt() : 0;
}

Value encode(const VersionInfo& version) {
  return Map()
      .add("version", version.version)
      .add("revision", version.revision)
      .add("runtime", version.runtime)
      .add("gatewayUrl", version.gatewayUrl)
      .add("adminUrl", version.adminUrl)
      .add("started", timeValue(version.started))
      .take();
}

VersionInfo decodeVersion(const Value& value) {
  return {textAt(value, "version"),    textAt(value, "revision"), textAt(value, "runtime"),
          textAt(value, "gatewayUrl"), textAt(value, "adminUrl"), timeAt(value, "started")};
}

static Value encodeWidth(const WidthInfo& width) {
  Value judged = Value::emptyList();
  for (const WidthLine& line : width.judged) {
    judged.push(Map()
                    .add("threads", line.threads)
                    .add("servers", line.servers)
                    .add("waitMicros", line.endless ? Value() : micros(line.wait))
                    .add("latencyMicros", line.endless ? Value() : micros(line.latency))
                    .add("requestsPerSecond", line.requestsPerSecond)
                    .add("meetsObjective", line.meetsObjective)
                    .take());
  }
  return Map()
      .add("threads", width.threads)
      .add("proposedThreads", width.proposedThreads > 0 ? Value(width.proposedThreads) : Value())
      .add("proposedInstances", width.proposedThreads > 0 ? Value(width.proposedInstances) : Value())
      .add("judged", std::move(judged))
      .add("why", encodeBecause(width.why))
      .take();
}

static WidthInfo decodeWidth(const Value* value) {
  WidthInfo width;
  if (value == nullptr) return width;
  width.threads = std::max(1, static_cast<int>(intAt(*value, "threads")));
  width.proposedThreads = static_cast<int>(intAt(*value, "proposedThreads"));
  width.proposedInstances = static_cast<int>(intAt(*value, "proposedInstances"));
  width.why = becauseAt(*value, "why");
  const Value* judged = value->find("judged");
  if (judged == nullptr || judged->asList() == nullptr) return width;
  for (const Value& item : *judged->asList()) {
    WidthLine line;
    line.threads = static_cast<int>(intAt(item, "threads"));
    line.servers = static_cast<int>(intAt(item, "servers"));
    line.endless = item.find("latencyMicros") == nullptr;
    line.wait = microsAt(item, "waitMicros");
    line.latency = microsAt(item, "latencyMicros");
    line.requestsPerSecond = numberAt(item, "requestsPerSecond");
    line.meetsObjective = boolAt(item, "meetsObjective");
    width.judged.push_back(line);
  }
  return width;
}

Value encode(const Explanation& e, const std::vector<Event>& changes) {
  Value list = Value::emptyList();
  for (const Event& event : changes) list.push(encode(event));
  return Map()
      .add("namespace", e.service.nameSpace)
      .add("service", e.service.name)
      .add("tenant", e.tenant.value)
      .add("entitlementMilliCpu", e.entitlement.value)
      .add("demandMilliCpu", e.demand.value)
      .add("floorMilliCpu", e.floor.value)
      .add("ceilingMilliCpu", e.ceiling.value)
      .add("homeCpus", e.home)
      .add("loanCpus", e.loans)
      .add("poolCpus", e.pool)
      .add("isolation", e.isolation.empty() ? Value() : Value(e.isolation))
      .add("instances", e.instances)
      .add("ownLanes", e.ownLanes)
      .add("loanLanes", e.loanLanes)
      .add("whyTheseCpus", encodeBecause(e.whyThese))
      .add("whyThisMany", encodeBecause(e.whyThisMany))
      .add("whyNotMore", encodeBecause(e.whyNotMore))
      .add("width", encodeWidth(e.width))
      .add("changes", std::move(list))
      .take();
}

Explanation decodeExplanation(const Value& value) {
  Explanation e;
  e.service = {textAt(value, "namespace"), textAt(value, "service")};
  e.tenant = TenantName(textAt(value, "tenant"));
  e.entitlement = MilliCpu(intAt(value, "entitlementMilliCpu"));
  e.demand = MilliCpu(intAt(value, "demandMilliCpu"));
  e.floor = MilliCpu(intAt(value, "floorMilliCpu"));
  e.ceiling = MilliCpu(intAt(value, "ceilingMilliCpu"));
  e.home = textAt(value, "homeCpus");
  e.loans = textAt(value, "loanCpus");
  e.pool = textAt(value, "poolCpus");
  e.isolation = textAt(value, "isolation");
  e.instances = static_cast<int>(intAt(value, "instances"));
  e.ownLanes = static_cast<int>(intAt(value, "ownLanes"));
  e.loanLanes = static_cast<int>(intAt(value, "loanLanes"));
  e.whyThese = becauseAt(value, "whyTheseCpus");
  e.whyThisMany = becauseAt(value, "whyThisMany");
  e.whyNotMore = becauseAt(value, "whyNotMore");
  e.width = decodeWidth(value.find("width"));
  return e;
}

Value encode(const InstanceInfo& i) {
  return Map()
      .add("id", std::int64_t{i.id.value})
      .add("pid", i.pid)
      .add("state", i.state)
      .add("reason", i.reason)
      .add("homeCpus", i.home)
      .add("ownLanes", i.ownLanes)
      .add("loanLanes", i.loanLanes)
      .add("restarts", i.restarts)
      .add("memoryBytes", i.memory.value)
      .add("memoryLimitBytes", i.memoryLimit.value)
      .add("started", timeValue(i.started))
      .take();
}

InstanceInfo decodeInstance(const Value& value) {
  InstanceInfo i;
  i.id = InstanceId(static_cast<std::int32_t>(intAt(value, "id")));
  i.pid = static_cast<int>(intAt(value, "pid"));
  i.state = textAt(value, "state");
  i.reason = textAt(value, "reason");
  i.home = textAt(value, "homeCpus");
  i.ownLanes = static_cast<int>(intAt(value, "ownLanes"));
  i.loanLanes = static_cast<int>(intAt(value, "loanLanes"));
  i.restarts = static_cast<int>(intAt(value, "restarts"));
  i.memory = Bytes(intAt(value, "memoryBytes"));
  i.memoryLimit = Bytes(intAt(value, "memoryLimitBytes"));
  i.started = timeAt(value, "started");
  return i;
}

Value encode(const TopReport& report) {
  Value list = Value::emptyList();
  for (const TopService& s : report.services) {
    list.push(Map()
                  .add("namespace", s.service.nameSpace)
                  .add("service", s.service.name)
                  .add("tenant", s.tenant.value)
                  .add("ready", s.ready)
                  .add("requestsPerSecond", s.requestsPerSecond)
                  .add("p50Micros", micros(s.p50))
                  .add("p99Micros", micros(s.p99))
                  .add("objectiveMicros", micros(s.objective))
                  .add("queued", s.queued)
                  .add("inFlight", s.inFlight)
                  .add("entitlementMilliCpu", s.entitlement.value)
                  .add("homeMilliCpu", s.home.value)
                  .add("useMilliCpu", s.use.value)
                  .add("lentMilliCpu", s.lent.value)
                  .add("borrowedMilliCpu", s.borrowed.value)
                  .add("isolation", s.isolation.empty() ? Value() : Value(s.isolation))
                  .add("instances", s.instances)
                  .take());
  }
  return Map()
      .add("capacityMilliCpu", report.capacity.value)
      .add("useMilliCpu", report.use.value)
      .add("drcOn", report.drcOn)
      .add("services", std::move(list))
      .take();
}

TopReport decodeTop(const Value& value) {
  TopReport report;
  report.capacity = MilliCpu(intAt(value, "capacityMilliCpu"));
  report.use = MilliCpu(intAt(value, "useMilliCpu"));
  report.drcOn = boolAt(value, "drcOn");
  const Value* list = value.find("services");
  if (list == nullptr || list->asList() == nullptr) return report;
  for (const Value& item : *list->asList()) {
    TopService s;
    s.service = {textAt(item, "namespace"), textAt(item, "service")};
    s.tenant = TenantName(textAt(item, "tenant"));
    s.ready = boolAt(item, "ready");
    s.requestsPerSecond = numberAt(item, "requestsPerSecond");
    s.p50 = microsAt(item, "p50Micros");
    s.p99 = microsAt(item, "p99Micros");
    s.objective = microsAt(item, "objectiveMicros");
    s.queued = intAt(item, "queued");
    s.inFlight = intAt(item, "inFlight");
    s.entitlement = MilliCpu(intAt(item, "entitlementMilliCpu"));
    s.home = MilliCpu(intAt(item, "homeMilliCpu"));
    s.use = MilliCpu(intAt(item, "useMilliCpu"));
    s.lent = MilliCpu(intAt(item, "lentMilliCpu"));
    s.borrowed = MilliCpu(intAt(item, "borrowedMilliCpu"));
    s.isolation = textAt(item, "isolation");
    s.instances = static_cast<int>(intAt(item, "instances"));
    report.services.push_back(std::move(s));
  }
  return report;
}

Value encode(const LimitLine& line) {
  const tenancy::LimitUse& use = line.use;
  // Times in seconds, as objects say them.
  const auto amount = [&](std::int64_t value) {
    return use.kind == tenancy::LimitKind::QueuedTime ? Value(static_cast<double>(value) / kNanosPerSecond) : Value(value);
  };
  return Map()
      .add("tenant", line.tenant.value)
      .add("namespace", line.service ? Value(line.service->nameSpace) : Value())
      .add("service", line.service ? Value(line.service->name) : Value())
      .add("limit", std::string(tenancy::limitName(use.kind)))
      .add("value", use.limit > 0 ? amount(use.limit) : Value())
      .add("burst", use.burst > 0 ? Value(use.burst) : Value())
      .add("used", amount(use.used))
      .add("hits", use.hits)
      .take();
}

LimitLine decodeLimit(const Value& value) {
  LimitLine line;
  line.tenant = TenantName(textAt(value, "tenant"));
  if (value.find("service") != nullptr) line.service = ServiceName{textAt(value, "namespace"), textAt(value, "service")};
  const std::string name = textAt(value, "limit");
  for (const tenancy::LimitKind kind : tenancy::kAllLimits) {
    if (tenancy::limitName(kind) == name) line.use.kind = kind;
  }
  const double unit = line.use.kind == tenancy::LimitKind::QueuedTime ? kNanosPerSecond : 1;
  line.use.limit = std::llround(numberAt(value, "value") * unit);
  line.use.used = std::llround(numberAt(value, "used") * unit);
  line.use.burst = intAt(value, "burst");
  line.use.hits = intAt(value, "hits");
  return line;
}

Value encode(const LogLine& line) {
  return Map().add("time", timeValue(line.time)).add("instance", std::int64_t{line.instance.value}).add("text", line.text).take();
}

LogLine decodeLogLine(const Value& value) {
  return {timeAt(value, "time"), InstanceId(static_cast<std::int32_t>(intAt(value, "instance"))), textAt(value, "text")};
}

Value encode(const Event& event) {
  return Map()
      .add("sequence", static_cast<std::int64_t>(event.sequence))
      .add("first", timeValue(WallTime{event.firstMicros}))
      .add("last", timeValue(WallTime{event.lastMicros}))
      .add("count", event.count)
      .add("kind", event.object.kind)
      .add("namespace", event.object.nameSpace)
      .add("name", event.object.name)
      .add("reason", event.reason)
      .add("message", event.message)
      .add("fields", event.fields)
      .take();
}

Event decodeEvent(const Value& value) {
  Event event;
  event.sequence = static_cast<std::uint64_t>(intAt(value, "sequence"));
  event.firstMicros = timeAt(value, "first").micros;
  event.lastMicros = timeAt(value, "last").micros;
  event.count = intAt(value, "count");
  event.object = {textAt(value, "kind"), textAt(value, "namespace"), textAt(value, "name")};
  event.reason = textAt(value, "reason");
  event.message = textAt(value, "message");
  if (const Value* fields = value.find("fields")) event.fields = *fields;
  return event;
}

Value encode(const identity::KeyInfo& key) {
  return Map()
      .add("id", key.id)
      .add("tenant", key.tenant.value)
      .add("role", std::string(roleName(key.role)))
      .add("label", key.label)
      .add("created", timeValue(key.created))
      .add("expires", timeValue(key.expires))
      .add("revoked", timeValue(key.revoked))
      .add("rotated", timeValue(key.rotated))
      .add("formerUntil", timeValue(key.formerUntil))
      .take();
}

identity::KeyInfo decodeKey(const Value& value) {
  return {textAt(value, "id"),
          TenantName(textAt(value, "tenant")),
          roleNamed(textAt(value, "role")).value_or(Role::Infer),
          textAt(value, "label"),
          timeAt(value, "created"),
          optionalTimeAt(value, "expires"),
          optionalTimeAt(value, "revoked"),
          optionalTimeAt(value, "rotated"),
          optionalTimeAt(value, "formerUntil")};
}

Value encode(const identity::NewKey& key) {
  Value value = encode(key.info);
  value.set("key", key.key);
  return value;
}

identity::NewKey decodeNewKey(const Value& value) { return {decodeKey(value), textAt(value, "key")}; }

Value encode(const WhoAmI& me) {
  Map map;
  map.add("user", std::int64_t{me.user}).add("role", std::string(roleName(me.role)));
  if (!me.keyId.empty()) map.add("tenant", me.tenant.value).add("key", me.keyId).add("label", me.label).add("expires", timeValue(me.expires));
  return map.take();
}

WhoAmI decodeWhoAmI(const Value& value) {
  return {static_cast<std::uint32_t>(intAt(value, "user")),
          roleNamed(textAt(value, "role")).value_or(Role::Observe),
          TenantName(textAt(value, "tenant")),
          textAt(value, "key"),
          textAt(value, "label"),
          optionalTimeAt(value, "expires")};
}

Value encode(const Verdict& verdict) {
  return Map().add("allowed", verdict.allowed).add("reason", verdict.reason).add("message", verdict.message).take();
}

Verdict decodeVerdict(const Value& value) {
  const Value* allowed = value.find("allowed");
  return {allowed != nullptr && allowed->asBool() != nullptr && *allowed->asBool(), textAt(value, "reason"), textAt(value, "message")};
}

}  // namespace coterie::admin
