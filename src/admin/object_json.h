// Stored objects as the admin API shows them: {apiVersion, kind, metadata {name, namespace, uid, resourceVersion, generation, creationTimestamp,
// deletionTimestamp, labels}, spec, status}. Pure. Thread-compatible.
#pragma once

#include <string_view>

#include "model/value.h"
#include "ports/object_store.h"

namespace coterie::admin {

[[nodiscard]] Value objectToValue(const StoredObject& object);
// {apiVersion, kind: <kind>List, metadata {resourceVersion}, items}
[[nodiscard]] Value listToValue(std::string_view kind, const ObjectList& list);
[[nodiscard]] Value changeToValue(const Change& change);  // {type: ADDED|MODIFIED|DELETED, object}

// RFC 7396: members of `patch` replace those of `target`, null removes, maps merge.
void mergePatch(Value& target, const Value& patch);

}  // namespace coterie::admin
