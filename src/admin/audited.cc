#include "admin/audited.h"

#include <utility>

#include "admin/admission.h"
#include "audit/changes.h"
#include "model/objects.h"

namespace coterie::admin {

audit::Entry changeOf(tenancy::Verb verb, tenancy::Kind kind, std::string object, TenantName tenant, std::vector<std::string> changes) {
  audit::Entry entry;
  entry.verb = tenancy::verbName(verb);
  entry.kind = tenancy::kindName(kind);
  entry.object = std::move(object);
  entry.tenant = std::move(tenant);
  entry.changes = std::move(changes);
  return entry;
}

audit::Entry changeOf(tenancy::Verb verb, const ObjectKey& key, const Value& before, const Value& after, const ObjectStore& store) {
  const bool isTenant = key.kind == kTenantKind;
  const auto owner = isTenant ? Result<TenantName>(TenantName(key.name)) : tenantOf(key.nameSpace, store);
  return changeOf(verb, isTenant ? tenancy::Kind::Tenant : tenancy::Kind::ModelService, objectText(key), owner.ok() ? *owner : TenantName(),
                  audit::changesBetween(before, after));
}

Value writtenOf(const StoredObject& object) { return Value(Value::Map{{"labels", object.labels}, {"spec", object.spec}}); }

std::string objectText(const ObjectKey& key) {
  return key.nameSpace.empty() || key.name.empty() ? key.nameSpace + key.name : key.nameSpace + "/" + key.name;
}

}  // namespace coterie::admin
