#include "admin/admin_handler.h"

#include <algorithm>
#include <utility>

#include "admin/admission.h"
#include "admin/answers.h"
#include "admin/reports.h"
#include "model/objects.h"

namespace coterie::admin {
namespace {

constexpr std::size_t kDefaultEvents = 200;
constexpr std::size_t kDefaultLogLines = 100;
constexpr std::size_t kMostLines = 10'000;
constexpr std::int64_t kMostSeconds = 10LL * 366 * 24 * 3600;

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

Result<Value> parseMap(const std::string& body) {
  auto value = text::parseJson(body.empty() ? std::string_view("{}") : std::string_view(body));
  if (value.ok() && value->asMap() == nullptr) return Error{Code::InvalidArgument, "BadJson", "the body must be a JSON object"};
  return value;
}

// A duration member in whole seconds.
Result<std::optional<Seconds>> secondsAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  if (member == nullptr) return std::optional<Seconds>();
  if (member->asInt() == nullptr || *member->asInt() < 0 || *member->asInt() > kMostSeconds) {
    return Error{Code::InvalidArgument, "BadDuration", std::string(key) + " must be whole seconds, 0 to ten years"};
  }
  return std::optional<Seconds>(Seconds(*member->asInt()));
}

bool isGet(const http::RequestContext& request) { return request.head().method == http::Method::Get || request.head().method == http::Method::Head; }

}  // namespace

AdminHandler::AdminHandler(EventLoop& loop, ObjectStore& store, EventLog& events, AdminBackend& backend)
    : store_(store), events_(events), backend_(backend), streams_(loop) {}

AdminHandler::~AdminHandler() = default;

void AdminHandler::onRequest(const Request& request) {
  request->readAll(kMaxBody, [this, request](const Result<std::string>& body) {
    if (!body.ok()) return answer(*request, body.error());
    route(request, *body);
  });
}

void AdminHandler::route(const Request& request, const std::string& body) {
  const auto segments = split(request->head().path);
  if (!segments.ok()) return answer(*request, segments.error());
  const Segments& path = *segments;
  if (path.size() >= 4 && path[0] == "apis" && path[1] + "/" + path[2] == kApiVersion) return objects(request, {path.begin() + 3, path.end()}, body);
  if (path.size() >= 3 && path[0] == "admin" && path[1] == "v1") return tell(request, {path.begin() + 2, path.end()}, body);
  answer(*request, noSuchPath(*request));
}

void AdminHandler::tell(const Request& request, const Segments& path, const std::string& body) {
  const std::string& what = path[0];
  if (what == "keys") return keys(request, path, body);
  if (what == "drc" && request->head().method == http::Method::Put) {
    const auto value = parseMap(body);
    if (!value.ok()) return answer(*request, value.error());
    const Value* on = value->find("on");
    if (on == nullptr || on->asBool() == nullptr)
      return answer(*request, Error{Code::InvalidArgument, "BadDrcMode", "send {\"on\": true} or {\"on\": false}"});
    const Status status = backend_.setDrc(*on->asBool() ? DrcMode::On : DrcMode::Off);
    if (!status.ok()) return answer(*request, status.error());
  } else if (!isGet(*request)) {
    return answer(*request, noSuchPath(*request));
  }
  if (path.size() == 1) {
    if (what == "version") return answer(*request, encode(backend_.version()));
    if (what == "top") return answer(*request, encode(backend_.top()));
    if (what == "events") return tellEvents(request);
    if (what == "drc") {
      Value value = Value::emptyMap();
      value.set("on", backend_.drc() == DrcMode::On);
      return answer(*request, value);
    }
  }
  if (path.size() != 3) return answer(*request, noSuchPath(*request));
  const ServiceName service{path[1], path[2]};
  if (what == "logs") return tellLogs(request, service);
  if (what == "explain") {
    const auto explanation = backend_.explain(service);
    if (!explanation.ok()) return answer(*request, explanation.error());
    return answer(*request, encode(*explanation, events_.last({std::string(kModelServiceKind), service.nameSpace, service.name}, kEventsPerObject)));
  }
  if (what == "instances") {
    const auto instances = backend_.instances(service);
    if (!instances.ok()) return answer(*request, instances.error());
    Value list = Value::emptyList();
    for (const InstanceInfo& instance : *instances) list.push(encode(instance));
    Value value = Value::emptyMap();
    value.set("items", std::move(list));
    return answer(*request, value);
  }
  answer(*request, noSuchPath(*request));
}

void AdminHandler::keys(const Request& request, const Segments& path, const std::string& body) {
  const http::Method method = request->head().method;
  if (path.size() == 1 && isGet(*request)) {
    const auto tenant = http::queryParameter(request->head().query, "tenant");
    Value list = Value::emptyList();
    for (const auto& key : backend_.listKeys(tenant ? std::optional<TenantName>(TenantName(*tenant)) : std::nullopt)) list.push(encode(key));
    Value value = Value::emptyMap();
    value.set("items", std::move(list));
    return answer(*request, value);
  }
  if (path.size() == 2 && method == http::Method::Delete) {
    const Status status = backend_.revokeKey(path[1]);
    return status.ok() ? answer(*request, Value::emptyMap()) : answer(*request, status.error());
  }
  const bool create = path.size() == 1 && method == http::Method::Post;
  const bool rotate = path.size() == 3 && path[2] == "rotate" && method == http::Method::Post;
  if (!create && !rotate) return answer(*request, noSuchPath(*request));
  const auto value = parseMap(body);
  if (!value.ok()) return answer(*request, value.error());
  const auto seconds = secondsAt(*value, create ? "lifetimeSeconds" : "overlapSeconds");
  if (!seconds.ok()) return answer(*request, seconds.error());
  if (create) {
    // A key for a tenant that does not exist (yet) would be a trap for whoever creates it later.
    const TenantName tenant(textAt(*value, "tenant"));
    const auto stored = store_.get({std::string(kTenantKind), "", tenant.value});
    if (!stored.ok()) {
      if (stored.error().code != Code::NotFound) return answer(*request, stored.error());
      return answer(*request,
                    Error{Code::NotFound, "TenantNotFound", "there is no tenant \"" + tenant.value + "\"; `coterie get tenants` lists them"});
    }
    const std::string roleText = textAt(*value, "role");
    const auto role = roleText.empty() ? std::optional(Role::Infer) : roleNamed(roleText);
    if (!role) {
      return answer(*request, Error{Code::InvalidArgument, "UnknownRole",
                                    "role: there is none named \"" + roleText + "\"; choose observe, infer or tenant-admin"});
    }
    const auto key = backend_.createKey(tenant, *role, textAt(*value, "label"), *seconds);
    return key.ok() ? answer(*request, encode(*key), 201) : answer(*request, key.error());
  }
  const auto key = backend_.rotateKey(path[1], seconds->value_or(Seconds(0)));
  return key.ok() ? answer(*request, encode(*key)) : answer(*request, key.error());
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

void AdminHandler::tellEvents(const Request& request) {
  const auto parameter = [&](std::string_view name) { return http::queryParameter(request->head().query, name); };
  const EventFilter filter{parameter("kind"), parameter("namespace"), parameter("name")};
  const std::size_t limit =
      static_cast<std::size_t>(std::min<std::uint64_t>(numberParameter(*request, "limit").value_or(kDefaultEvents), kMostLines));
  std::uint64_t after = numberParameter(*request, "after").value_or(0);
  std::vector<Event> found = events_.since(after, kEventsInAll);
  if (!found.empty()) after = found.back().sequence;
  std::erase_if(found, [&](const Event& event) { return !filter.matches(event); });
  if (found.size() > limit) found.erase(found.begin(), found.end() - static_cast<std::ptrdiff_t>(limit));
  if (!isSet(*request, "watch")) {
    Value list = Value::emptyList();
    for (const Event& event : found) list.push(encode(event));
    Value value = Value::emptyMap();
    value.set("items", std::move(list));
    return answer(*request, value);
  }
  streams_.follow(request, [this, filter, after, found = std::move(found)]() mutable {
    std::string lines;
    for (const Event& event : found) {
      if (filter.matches(event)) lines += text::printJson(encode(event)) + "\n";
    }
    found = events_.since(after, kEventsInAll);
    if (!found.empty()) after = found.back().sequence;
    return lines;
  });
}

void AdminHandler::tellLogs(const Request& request, const ServiceName& service) {
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
  streams_.follow(request, [this, service, print, pending = print(*first), next = first->next]() mutable {
    std::string lines = std::exchange(pending, {});
    // A service that is deleted meanwhile has nothing more to say.
    if (const auto page = backend_.logs(service, next, kMostLines); page.ok()) {
      lines += print(*page);
      next = page->next;
    }
    return lines;
  });
}

}  // namespace coterie::admin
