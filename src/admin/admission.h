// The rules between objects, checked before a write: what one object's own form cannot tell.
//
//   Tenant         a namespace belongs to one tenant (Conflict/NamespaceTaken); a namespace with services in it stays (Conflict/NamespaceInUse);
//                  only a tenant without services may be deleted (Conflict/TenantNotEmpty)
//   ModelService   its namespace belongs to a tenant (NotFound/UnknownNamespace), whose quota holds (ResourceExhausted/QuotaExceeded)
// O(objects) per check. Thread rule: the store's.
#pragma once

#include <functional>

#include "admin/admin_backend.h"
#include "base/result.h"
#include "model/isolation.h"
#include "objects/decode.h"
#include "ports/object_store.h"

namespace coterie::admin {

// What the objects do not say and their quota depends on.
struct MachineFacts {
  std::function<Bytes(const ServiceName&)> measuredMemory;  // of one instance; 0: never loaded
  std::function<int(Isolation)> unitCpus;                   // CPUs of the largest unit of a level of isolation
};

[[nodiscard]] MachineFacts machineFacts(const AdminBackend& backend);  // asked when needed; refers to it

[[nodiscard]] Status admit(const objects::AnyObject& object, const ObjectStore& store, const MachineFacts& facts);
[[nodiscard]] Status admitRemoval(const ObjectKey& key, const ObjectStore& store);

// The tenant that owns a namespace; NotFound/UnknownNamespace, whose message names the nearest known one.
[[nodiscard]] Result<TenantName> tenantOf(const std::string& nameSpace, const ObjectStore& store);

}  // namespace coterie::admin
