// Who calls the admin API, and what of it that caller sees.
//
// Whoever connects must be root or the server's own user (asked of the kernel, SO_PEERCRED): anybody else is PermissionDenied/NotTheServersUser,
// whatever key it shows. Such a user is the platform's administrator, unless it shows a key: then it acts with that key's role and no more. A header
// that cannot be read as a key is Unauthenticated/NoKey, never the administrator. What a role may is tenancy/authorization.h's table; what is not its
// own is left out of lists and answered as if it did not exist, in words that do not depend on whether it does. Complexity: callerOf O(headers) and
// one authentication; Sight: one look into the store. Thread rule: the control loop.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "admin/admin_backend.h"
#include "base/result.h"
#include "http/server.h"
#include "identity/key_table.h"
#include "model/role.h"
#include "ports/object_store.h"
#include "tenancy/authorization.h"

namespace coterie::admin {

struct Caller {
  std::uint32_t user{0};                  // at the other end of the socket
  std::optional<identity::Identity> key;  // none: the platform's administrator

  [[nodiscard]] Role role() const { return key ? key->role : Role::PlatformAdmin; }
  // Whose things are its own; none: the platform's administrator, who reaches all.
  [[nodiscard]] std::optional<TenantName> tenant() const { return key ? std::optional(key->tenant) : std::nullopt; }
  // PermissionDenied/RoleForbids for what its role never may. Ok says nothing about whose the thing is: Sight does.
  [[nodiscard]] Status may(tenancy::Verb verb, tenancy::Kind kind) const;
};

// The user at the other end, none for a connection of another kind: ok, or NotTheServersUser.
[[nodiscard]] Status checkUser(std::optional<std::uint32_t> user, std::uint32_t serverUser);
[[nodiscard]] Result<Caller> callerOf(const http::RequestContext& request, std::uint32_t serverUser, const AdminBackend& backend);

// What there is for a tenant: itself and what its namespaces hold at this moment. Without a tenant: everything. A store that does not answer shows
// nothing.
class Sight {
 public:
  Sight(const std::optional<TenantName>& tenant, const ObjectStore& store);
  [[nodiscard]] bool everything() const { return !tenant_; }
  [[nodiscard]] bool tenant(const TenantName& name) const { return !tenant_ || *tenant_ == name; }
  [[nodiscard]] bool nameSpace(const std::string& name) const { return !tenant_ || namespaces_.contains(name); }
  [[nodiscard]] bool object(const ObjectKey& key) const;  // of a kind that is no tenant's: seen only with everything

 private:
  std::optional<TenantName> tenant_;
  std::set<std::string> namespaces_;
};

// As the store says it of what does not exist.
[[nodiscard]] Error objectNotFound(const ObjectKey& key);
[[nodiscard]] Error tenantNotFound(const TenantName& tenant);

// What `coterie whoami` answers.
[[nodiscard]] WhoAmI describe(const Caller& caller, const AdminBackend& backend);

}  // namespace coterie::admin
