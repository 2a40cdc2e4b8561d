#include "admin/admin_handler.h"

#include <algorithm>
#include <utility>

#include "admin/answers.h"
#include "admin/audited.h"
#include "admin/can_i.h"
#include "admin/reports.h"
#include "model/objects.h"

namespace coterie::admin {

using tenancy::Kind;
using tenancy::Verb;

namespace {

constexpr std::size_t kDefaultEvents = 200;
constexpr std::size_t kDefaultLogLines = 100;
constexpr std::size_t kMostLines = 10'000;

Result<std::vector<std::string>> split(std::string_view path) {
  std::vector<std::string> out;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = std::min(path.find('/'), path.size());
    auto segment = http::percentDecode(path.substr(0, end));
    if (!segment.ok()) return segment.error();
    out.push_back(std::move(*segment));
    path.remove_prefix(end);
  }
  return out;
}

}  // namespace

AdminHandler::AdminHandler(EventLoop& loop, ObjectStore& store, EventLog& events, AdminBackend& backend, audit::Trail& trail,
                           std::uint32_t serverUser)
    : store_(store),
      events_(events),
      backend_(backend),
      trail_(trail),
      serverUser_(serverUser),
      streams_(loop),
      refusals_(loop, audit::Through::Admin, [&trail](std::vector<audit::Entry> lines) { trail.note(std::move(lines)); }) {}

AdminHandler::~AdminHandler() = default;

void AdminHandler::onRequest(const Request& request) {
  const auto caller = callerOf(*request, serverUser_, backend_);
  if (!caller.ok())
    return refuse(request, {request->localUser().value_or(0), {}}, caller.error(), request->head().methodName, "", request->head().path);
  request->readAll(kMaxBody, [this, request, caller = *caller](const Result<std::string>& body) {
    if (!body.ok()) return answer(*request, body.error());
    // A body may be long in coming.
    const auto valid = validity(caller);
    if (valid && !valid()) {
      const Error over{Code::Unauthenticated, "InvalidKey", "the API key was revoked or has expired meanwhile"};
      return refuse(request, caller, over, request->head().methodName, "", request->head().path);
    }
    route(request, caller, *body);
  });
}

// For answers that go on: a key that is revoked ends them.
std::function<bool()> AdminHandler::validity(const Caller& caller) const {
  if (!caller.key) return {};
  return [this, identity = *caller.key] { return backend_.stillValid(identity); };
}

void AdminHandler::route(const Request& request, const Caller& caller, const std::string& body) {
  const auto segments = split(request->head().path);
  if (!segments.ok()) return answer(*request, segments.error());
  const Segments& path = *segments;
  if (path.size() >= 4 && path[0] == "apis" && path[1] + "/" + path[2] == kApiVersion)
    return objects(request, caller, {path.begin() + 3, path.end()}, body);
  if (path.size() >= 3 && path[0] == "admin" && path[1] == "v1") return tell(request, caller, {path.begin() + 2, path.end()}, body);
  answer(*request, noSuchPath(*request));
}

void AdminHandler::tell(const Request& request, const Caller& caller, const Segments& path, const std::string& body) {
  const std::string& what = path[0];
  if (what == "keys") return keys(request, caller, path, body);
  if (what == "drc" && path.size() == 1 && request->head().method == http::Method::Put) return switchController(request, caller, body);
  if (!isGet(*request)) return answer(*request, noSuchPath(*request));
  if (path.size() == 1) return tellOfAll(request, caller, what);
  if (path.size() == 3) return tellOfService(request, caller, what, {path[1], path[2]});
  answer(*request, noSuchPath(*request));
}

void AdminHandler::switchController(const Request& request, const Caller& caller, const std::string& body) {
  if (!allowed(request, caller, Verb::Update, Kind::Controller)) return;
  const auto value = parseMap(body);
  if (!value.ok()) return answer(*request, value.error());
  const Value* on = value->find("on");
  if (on == nullptr || on->asBool() == nullptr)
    return answer(*request, Error{Code::InvalidArgument, "BadDrcMode", "send {\"on\": true} or {\"on\": false}"});
  const auto text = [](bool isOn) { return std::string(isOn ? "on" : "off"); };
  const std::string change = "mode: " + text(backend_.drc() == DrcMode::On) + " -> " + text(*on->asBool());
  auto begun = begin(caller, changeOf(Verb::Update, Kind::Controller, "", {}, {change}));
  if (!begun.ok()) return answer(*request, begun.error());
  const Status status = backend_.setDrc(*on->asBool() ? DrcMode::On : DrcMode::Off);
  trail_.end(std::move(*begun), status);
  if (!status.ok()) return answer(*request, status.error());
  tellOfAll(request, caller, "drc");
}

namespace {
// Of a machine's figures, what a tenant's services make of them.
TopReport seenBy(const Sight& sight, TopReport report) {
  if (sight.everything()) return report;
  std::erase_if(report.services, [&](const TopService& service) { return !sight.nameSpace(service.service.nameSpace); });
  report.use = {};
  for (const TopService& service : report.services) report.use += service.use;
  return report;
}
}  // namespace

void AdminHandler::tellOfAll(const Request& request, const Caller& caller, const std::string& what) {
  if (what == "whoami") return answer(*request, encode(describe(caller, backend_)));
  if (what == "can-i") {
    const auto verdict = canI(caller, request->head().query, store_, backend_);
    return verdict.ok() ? answer(*request, encode(*verdict)) : answer(*request, verdict.error());
  }
  const auto may = [&](Verb verb, Kind kind) { return allowed(request, caller, verb, kind); };
  if (what == "version") return may(Verb::Get, Kind::Version) ? answer(*request, encode(backend_.version())) : void();
  if (what == "top") return may(Verb::Get, Kind::Usage) ? answer(*request, encode(seenBy(Sight(caller.tenant(), store_), backend_.top()))) : void();
  if (what == "events") return may(isSet(*request, "watch") ? Verb::Watch : Verb::List, Kind::Event) ? tellEvents(request, caller) : void();
  if (what == "audit") return may(Verb::List, Kind::Audit) ? tellAudit(request, caller) : void();
  if (what == "limits") return may(Verb::List, Kind::Limit) ? tellLimits(request, caller) : void();
  if (what == "metrics") {
    if (!may(Verb::Get, Kind::Metrics)) return;
    http::Response page;
    page.contentType = "text/plain; version=0.0.4; charset=utf-8";
    page.body = backend_.metrics(caller.tenant());
    return request->respond(std::move(page));
  }
  if (what != "drc") return answer(*request, noSuchPath(*request));
  if (!may(Verb::Get, Kind::Controller)) return;
  Value value = Value::emptyMap();
  value.set("on", backend_.drc() == DrcMode::On);
  answer(*request, value);
}

void AdminHandler::tellLimits(const Request& request, const Caller& caller) {
  const auto named = http::queryParameter(request->head().query, "tenant");
  const Sight sight(caller.tenant(), store_);
  if (named) {
    const TenantName tenant(*named);
    if (!sight.tenant(tenant) || !store_.get({std::string(kTenantKind), "", *named}).ok()) return answer(*request, tenantNotFound(tenant));
  }
  Value list = Value::emptyList();
  for (const LimitLine& line : backend_.limits()) {
    if (sight.tenant(line.tenant) && (!named || line.tenant.value == *named)) list.push(encode(line));
  }
  Value value = Value::emptyMap();
  value.set("items", std::move(list));
  answer(*request, value);
}

void AdminHandler::tellOfService(const Request& request, const Caller& caller, const std::string& what, const ServiceName& service) {
  struct Right {
    Verb verb;
    Kind kind;
  };
  const std::optional<Right> right = what == "logs"        ? std::optional(Right{isSet(*request, "follow") ? Verb::Watch : Verb::Get, Kind::Log})
                                     : what == "explain"   ? std::optional(Right{Verb::Get, Kind::Explanation})
                                     : what == "instances" ? std::optional(Right{Verb::List, Kind::Instance})
                                                           : std::nullopt;
  if (!right) return answer(*request, noSuchPath(*request));
  if (!allowed(request, caller, right->verb, right->kind, service.path())) return;
  if (!Sight(caller.tenant(), store_).nameSpace(service.nameSpace)) return answer(*request, serviceNotFound(service));
  if (right->kind == Kind::Log) return tellLogs(request, caller, service);
  if (right->kind == Kind::Explanation) {
    const auto explanation = backend_.explain(service, caller.tenant());
    if (!explanation.ok()) return answer(*request, explanation.error());
    return answer(*request, encode(*explanation, events_.last({std::string(kModelServiceKind), service.nameSpace, service.name}, kEventsPerObject)));
  }
  const auto instances = backend_.instances(service);
  if (!instances.ok()) return answer(*request, instances.error());
  Value list = Value::emptyList();
  for (const InstanceInfo& instance : *instances) list.push(encode(instance));
  Value value = Value::emptyMap();
  value.set("items", std::move(list));
  answer(*request, value);
}

namespace {
struct EventFilter {
  std::optional<std::string> kind;
  std::optional<std::string> nameSpace;
  std::optional<std::string> name;
  [[nodiscard]] bool matches(const Event& event) const {
    return (!kind || event.object.kind == *kind) && (!nameSpace || event.object.nameSpace == *nameSpace) && (!name || event.object.name == *name);
  }
};
}  // namespace

void AdminHandler::tellEvents(const Request& request, const Caller& caller) {
  const auto parameter = [&](std::string_view name) { return http::queryParameter(request->head().query, name); };
  const EventFilter filter{parameter("kind"), parameter("namespace"), parameter("name")};
  const std::size_t limit =
      static_cast<std::size_t>(std::min<std::uint64_t>(numberParameter(*request, "limit").value_or(kDefaultEvents), kMostLines));
  std::uint64_t after = numberParameter(*request, "after").value_or(0);
  std::vector<Event> found = events_.since(after, kEventsInAll);
  if (!found.empty()) after = found.back().sequence;
  // Seen now: a tenant's namespaces may change while somebody watches.
  const auto dropUnseen = [this, filter, tenant = caller.tenant()](std::vector<Event>& events) {
    const Sight sight(tenant, store_);
    std::erase_if(events, [&](const Event& event) { return !filter.matches(event) || !sight.object(event.object); });
  };
  dropUnseen(found);
  if (found.size() > limit) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
  if (!isSet(*request, "watch")) {
    Value list = Value::emptyList();
    for (const Event& event : found) list.push(encode(event));
    Value value = Value::emptyMap();
    value.set("items", std::move(list));
    return answer(*request, value);
  }
  const auto next = [this, dropUnseen, after, found = std::move(found)]() mutable {
    std::string lines;
    for (const Event& event : found) lines += text::printJson(encode(event)) + "\n";
    found = events_.since(after, kEventsInAll);
    if (!found.empty()) {
      after = found.back().sequence;
      dropUnseen(found);
    }
    return lines;
  };
  streams_.follow(request, next, validity(caller));
}

void AdminHandler::tellLogs(const Request& request, const Caller& caller, const ServiceName& service) {
  const std::size_t tail =
      static_cast<std::size_t>(std::min<std::uint64_t>(numberParameter(*request, "tail").value_or(kDefaultLogLines), kMostLines));
  const auto print = [](const LogPage& page) {
    std::string lines;
    for (const LogLine& line : page.lines) lines += text::printJson(encode(line)) + "\n";
    return lines;
  };
  const auto first = backend_.logs(service, std::nullopt, tail);
  if (!first.ok()) return answer(*request, first.error());
  if (!isSet(*request, "follow")) {
    http::Response response;
    response.contentType = "application/json";
    response.body = print(*first);
    return request->respond(std::move(response));
  }
  const auto next = [this, service, print, tenant = caller.tenant(), pending = print(*first), at = first->next]() mutable {
    std::string lines = std::exchange(pending, {});
    if (!Sight(tenant, store_).nameSpace(service.nameSpace)) return std::string();  // it may have been taken from the tenant
    // A service that is deleted meanwhile has nothing more to say.
    if (const auto page = backend_.logs(service, at, kMostLines); page.ok()) {
      lines += print(*page);
      at = page->next;
    }
    return lines;
  };
  streams_.follow(request, next, validity(caller));
}

}  // namespace coterie::admin
