// The admin API's routes for keys: see admin_handler.h.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "admin/admin_handler.h"
#include "admin/answers.h"
#include "admin/reports.h"
#include "model/objects.h"

namespace coterie::admin {

using tenancy::Kind;
using tenancy::Verb;

namespace {

constexpr std::int64_t kMostSeconds = 10LL * 366 * 24 * 3600;

// A duration member in whole seconds.
Result<std::optional<Seconds>> secondsAt(const Value& value, std::string_view key) {
  const Value* member = value.find(key);
  if (member == nullptr) return std::optional<Seconds>();
  if (member->asInt() == nullptr || *member->asInt() < 0 || *member->asInt() > kMostSeconds) {
    return Error{Code::InvalidArgument, "BadDuration", std::string(key) + " must be whole seconds, 0 to ten years"};
  }
  return std::optional<Seconds>(Seconds(*member->asInt()));
}

// The role that a new key is wanted for, if whoever asks may grant it.
Result<Role> grantedRole(const Value& wanted, Role by) {
  const std::string text = textAt(wanted, "role");
  const auto role = text.empty() ? std::optional(Role::Infer) : roleNamed(text);
  if (!role) return Error{Code::InvalidArgument, "UnknownRole", "role: there is none named \"" + text + "\"; choose observe, infer or tenant-admin"};
  if (*role == Role::PlatformAdmin)
    return Error{Code::InvalidArgument, "UnknownRole", "role: no key can be platform-admin; choose observe, infer or tenant-admin"};
  if (tenancy::mayGrant(by, *role)) return *role;
  return Error{Code::PermissionDenied, "RoleForbids", "role: " + std::string(roleName(by)) + " may not make keys of role " + text};
}

}  // namespace

void AdminHandler::keys(const Request& request, const Caller& caller, const Segments& path, const std::string& body) {
  const http::Method method = request->head().method;
  if (path.size() == 1 && isGet(*request)) return listKeys(request, caller);
  if (path.size() == 2 && method == http::Method::Delete) {
    Status status = mayTouchKey(caller, Verb::Revoke, path[1]);
    if (status.ok()) status = backend_.revokeKey(path[1]);
    return status.ok() ? answer(*request, Value::emptyMap()) : answer(*request, status.error());
  }
  const bool create = path.size() == 1 && method == http::Method::Post;
  const bool rotate = path.size() == 3 && path[2] == "rotate" && method == http::Method::Post;
  if (!create && !rotate) return answer(*request, noSuchPath(*request));
  const Status may = create ? caller.may(Verb::Create, Kind::Key) : mayTouchKey(caller, Verb::Rotate, path[1]);
  if (!may.ok()) return answer(*request, may.error());
  const auto value = parseMap(body);
  if (!value.ok()) return answer(*request, value.error());
  if (create) return createKey(request, caller, *value);
  const auto overlap = secondsAt(*value, "overlapSeconds");
  if (!overlap.ok()) return answer(*request, overlap.error());
  const auto key = backend_.rotateKey(path[1], overlap->value_or(Seconds(0)));
  return key.ok() ? answer(*request, encode(*key)) : answer(*request, key.error());
}

void AdminHandler::listKeys(const Request& request, const Caller& caller) {
  if (const Status may = caller.may(Verb::List, Kind::Key); !may.ok()) return answer(*request, may.error());
  const auto named = http::queryParameter(request->head().query, "tenant");
  const auto tenant = named ? std::optional<TenantName>(TenantName(*named)) : caller.tenant();
  Value list = Value::emptyList();
  if (!tenant || Sight(caller.tenant(), store_).tenant(*tenant)) {
    for (const auto& key : backend_.listKeys(tenant)) list.push(encode(key));
  }
  Value value = Value::emptyMap();
  value.set("items", std::move(list));
  answer(*request, value);
}

void AdminHandler::createKey(const Request& request, const Caller& caller, const Value& wanted) {
  const auto lifetime = secondsAt(wanted, "lifetimeSeconds");
  if (!lifetime.ok()) return answer(*request, lifetime.error());
  const auto role = grantedRole(wanted, caller.role());
  if (!role.ok()) return answer(*request, role.error());
  // A key for a tenant that does not exist (yet) would be a trap for whoever creates it later.
  const TenantName tenant(textAt(wanted, "tenant"));
  if (!Sight(caller.tenant(), store_).tenant(tenant)) return answer(*request, tenantNotFound(tenant));
  const auto stored = store_.get({std::string(kTenantKind), "", tenant.value});
  if (!stored.ok()) return answer(*request, stored.error().code == Code::NotFound ? tenantNotFound(tenant) : stored.error());
  const auto key = backend_.createKey(tenant, *role, textAt(wanted, "label"), *lifetime);
  return key.ok() ? answer(*request, encode(*key), 201) : answer(*request, key.error());
}

// Another tenant's key does not exist.
Status AdminHandler::mayTouchKey(const Caller& caller, Verb verb, const std::string& id) const {
  if (const Status may = caller.may(verb, Kind::Key); !may.ok() || !caller.tenant()) return may;
  const auto own = backend_.listKeys(caller.tenant());
  if (std::any_of(own.begin(), own.end(), [&](const identity::KeyInfo& key) { return key.id == id; })) return {};
  return identity::keyNotFound(id);
}

}  // namespace coterie::admin
