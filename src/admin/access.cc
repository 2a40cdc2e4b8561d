#include "admin/access.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "http/api_key.h"
#include "model/objects.h"
#include "objects/decode.h"

namespace coterie::admin {

Status Caller::may(tenancy::Verb verb, tenancy::Kind kind) const { return tenancy::permits(role(), verb, kind); }

Status checkUser(std::optional<std::uint32_t> user, std::uint32_t serverUser) {
  if (user && (*user == 0 || *user == serverUser)) return {};
  const std::string who = user ? "user " + std::to_string(*user) : "a caller whose user is not known";
  return Error{
      Code::PermissionDenied, "NotTheServersUser",
      "the admin API is for root and user " + std::to_string(serverUser) + ", which the server runs as, not for " + who + ": act as one of them"};
}

Result<Caller> callerOf(const http::RequestContext& request, std::uint32_t serverUser, const AdminBackend& backend) {
  const auto user = request.localUser();
  if (const Status known = checkUser(user, serverUser); !known.ok()) return known.error();
  Caller caller{*user, std::nullopt};
  const http::RequestHead& head = request.head();
  if (!http::showsKey(head)) return caller;
  if (http::hasSeveralKeys(head)) return Error{Code::InvalidArgument, "SeveralKeys", "send one Authorization or X-API-Key header, not several"};
  const std::string_view key = http::keyOf(head);
  if (key.empty()) return Error{Code::Unauthenticated, "NoKey", "send the key as Authorization: Bearer ctk_..., or leave the header out"};
  auto identity = backend.authenticate(key);
  if (!identity.ok()) return identity.error();
  caller.key = std::move(*identity);
  return caller;
}

Sight::Sight(const std::optional<TenantName>& tenant, const ObjectStore& store) : tenant_(tenant) {
  if (!tenant_) return;
  const auto object = store.get({std::string(kTenantKind), "", tenant_->value});
  if (!object.ok()) return;
  Faults faults;
  if (auto spec = objects::decodeTenantSpec(object->spec, faults)) namespaces_ = {spec->namespaces.begin(), spec->namespaces.end()};
}

bool Sight::object(const ObjectKey& key) const {
  if (everything()) return true;
  if (key.kind == kTenantKind) return tenant(TenantName(key.name));
  return key.kind == kModelServiceKind && nameSpace(key.nameSpace);
}

Error objectNotFound(const ObjectKey& key) {
  return {Code::NotFound, "NotFound", key.kind + " " + (key.nameSpace.empty() ? "" : key.nameSpace + "/") + key.name + " does not exist"};
}

Error tenantNotFound(const TenantName& tenant) {
  return {Code::NotFound, "TenantNotFound", "there is no tenant \"" + tenant.value + "\"; `coterie get tenants` lists them"};
}

WhoAmI describe(const Caller& caller, const AdminBackend& backend) {
  WhoAmI me;
  me.user = caller.user;
  me.role = caller.role();
  if (!caller.key) return me;
  me.tenant = caller.key->tenant;
  me.keyId = caller.key->keyId;
  me.expires = caller.key->expires;
  const auto keys = backend.listKeys(me.tenant);
  const auto mine = std::find_if(keys.begin(), keys.end(), [&](const identity::KeyInfo& key) { return key.id == me.keyId; });
  if (mine != keys.end()) me.label = mine->label;
  return me;
}

}  // namespace coterie::admin
