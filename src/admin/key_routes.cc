// The admin API's routes for keys: see admin_handler.h.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "admin/admin_handler.h"
#include "admin/answers.h"
#include "admin/audited.h"
#include "admin/reports.h"
#include "audit/changes.h"
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
  if (path.size() == 2 && method == http::Method::Delete) return revokeKey(request, caller, path[1]);
  const bool create = path.size() == 1 && method == http::Method::Post;
  const bool rotate = path.size() == 3 && path[2] == "rotate" && method == http::Method::Post;
  if (!create && !rotate) return answer(*request, noSuchPath(*request));
  if (!allowed(request, caller, create ? Verb::Create : Verb::Rotate, Kind::Key, create ? "" : path[1])) return;
  if (const Status its = create ? Status() : keyIsThere(caller, path[1]); !its.ok()) return answer(*request, its.error());
  const auto value = parseMap(body);
  if (!value.ok()) return answer(*request, value.error());
  if (create) return createKey(request, caller, *value);
  const auto overlap = secondsAt(*value, "overlapSeconds");
  if (!overlap.ok()) return answer(*request, overlap.error());
  rotateKey(request, caller, path[1], overlap->value_or(Seconds(0)));
}

void AdminHandler::rotateKey(const Request& request, const Caller& caller, const std::string& id, Seconds overlap) {
  auto begun = begin(caller, changeOf(Verb::Rotate, Kind::Key, id, tenantOfKey(id), {"overlap: " + std::to_string(overlap.count()) + " s"}));
  if (!begun.ok()) return answer(*request, begun.error());
  const auto key = backend_.rotateKey(id, overlap);
  trail_.end(std::move(*begun), key.ok() ? Status() : Status(key.error()));
  return key.ok() ? answer(*request, encode(*key)) : answer(*request, key.error());
}

void AdminHandler::revokeKey(const Request& request, const Caller& caller, const std::string& id) {
  if (!allowed(request, caller, Verb::Revoke, Kind::Key, id)) return;
  if (const Status its = keyIsThere(caller, id); !its.ok()) return answer(*request, its.error());
  auto begun = begin(caller, changeOf(Verb::Revoke, Kind::Key, id, tenantOfKey(id), {}));
  if (!begun.ok()) return answer(*request, begun.error());
  const Status revoked = backend_.revokeKey(id);
  trail_.end(std::move(*begun), revoked);
  return revoked.ok() ? answer(*request, Value::emptyMap()) : answer(*request, revoked.error());
}

void AdminHandler::listKeys(const Request& request, const Caller& caller) {
  if (!allowed(request, caller, Verb::List, Kind::Key)) return;
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
  if (!role.ok()) return refuse(request, caller, role.error(), tenancy::verbName(Verb::Create), tenancy::kindName(Kind::Key), "");
  // A key for a tenant that does not exist (yet) would be a trap for whoever creates it later.
  const TenantName tenant(textAt(wanted, "tenant"));
  if (!Sight(caller.tenant(), store_).tenant(tenant)) return answer(*request, tenantNotFound(tenant));
  const auto stored = store_.get({std::string(kTenantKind), "", tenant.value});
  if (!stored.ok()) return answer(*request, stored.error().code == Code::NotFound ? tenantNotFound(tenant) : stored.error());
  const std::string label = textAt(wanted, "label");
  std::vector<std::string> changes{"role: - -> " + std::string(roleName(*role))};
  if (!label.empty()) changes.push_back("label: - -> " + audit::withoutSecrets(label));
  if (*lifetime) changes.push_back("lifetime: - -> " + std::to_string((*lifetime)->count()) + " s");
  auto begun = begin(caller, changeOf(Verb::Create, Kind::Key, "", tenant, std::move(changes)));
  if (!begun.ok()) return answer(*request, begun.error());
  const auto key = backend_.createKey(tenant, *role, label, *lifetime);
  if (key.ok()) begun->entry.object = key->info.id;
  trail_.end(std::move(*begun), key.ok() ? Status() : Status(key.error()));
  return key.ok() ? answer(*request, encode(*key), 201) : answer(*request, key.error());
}

// Another tenant's key does not exist.
Status AdminHandler::keyIsThere(const Caller& caller, const std::string& id) const {
  if (!caller.tenant()) return {};
  const auto own = backend_.listKeys(caller.tenant());
  if (std::any_of(own.begin(), own.end(), [&](const identity::KeyInfo& key) { return key.id == id; })) return {};
  return identity::keyNotFound(id);
}

TenantName AdminHandler::tenantOfKey(const std::string& id) const {
  const auto all = backend_.listKeys(std::nullopt);
  const auto found = std::find_if(all.begin(), all.end(), [&](const identity::KeyInfo& key) { return key.id == id; });
  return found == all.end() ? TenantName() : found->tenant;
}

}  // namespace coterie::admin
