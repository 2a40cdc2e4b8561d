// What the audit log says of a change: shared by the admin API and by whoever else writes objects or keys for somebody. O(objects). Thread rule: the
// store's.
#pragma once

#include <string>
#include <vector>

#include "audit/line.h"
#include "model/ids.h"
#include "model/value.h"
#include "ports/object_store.h"
#include "tenancy/authorization.h"

namespace coterie::admin {

// Through, actor, time and outcome are the caller's to set.
[[nodiscard]] audit::Entry changeOf(tenancy::Verb verb, tenancy::Kind kind, std::string object, TenantName tenant, std::vector<std::string> changes);
// Of an object: the line is its tenant's, and tells what differs.
[[nodiscard]] audit::Entry changeOf(tenancy::Verb verb, const ObjectKey& key, const Value& before, const Value& after, const ObjectStore& store);

// What people write of an object.
[[nodiscard]] Value writtenOf(const StoredObject& object);
// "audio/speech", "audio"; of a collection its namespace.
[[nodiscard]] std::string objectText(const ObjectKey& key);

}  // namespace coterie::admin
