// The rules between objects, checked before a write: what one object's own form cannot tell.
//
//   Tenant         a namespace belongs to one tenant (Conflict/NamespaceTaken); a namespace with services in it stays (Conflict/NamespaceInUse);
//                  only a tenant without services may be deleted (Conflict/TenantNotEmpty)
//   ModelService   its namespace belongs to a tenant (NotFound/UnknownNamespace), whose quota holds (ResourceExhausted/QuotaExceeded)
// O(objects) per check. Thread rule: the store's.
#pragma once

#include <functional>

#include "base/result.h"
#include "objects/decode.h"
#include "ports/object_store.h"

namespace coterie::admin {

using MeasuredMemory = std::function<Bytes(const ServiceName&)>;

[[nodiscard]] Status admit(const objects::AnyObject& object, const ObjectStore& store, const MeasuredMemory& measuredMemory);
[[nodiscard]] Status admitRemoval(const ObjectKey& key, const ObjectStore& store);

// The tenant that owns a namespace; NotFound/UnknownNamespace, whose message names the nearest known one.
[[nodiscard]] Result<TenantName> tenantOf(const std::string& nameSpace, const ObjectStore& store);

}  // namespace coterie::admin
