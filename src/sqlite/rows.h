// Objects and events as rows, with a checksum over every column.
#pragma once

#include <string>

#include "base/result.h"
#include "ports/event_log.h"
#include "ports/object_store.h"
#include "sqlite/database.h"

namespace coterie::sqlite {

// kind, namespace, name, uid, version, generation, created, deleted, labels, spec, status, checksum
inline constexpr std::string_view kObjectColumns =
    "kind, namespace, name, uid, resource_version, generation, created, deleted, labels, spec, status, checksum";
[[nodiscard]] Row rowOf(const StoredObject& object);
[[nodiscard]] Result<StoredObject> objectOf(const Row& row);

// sequence, first, last, count, kind, namespace, name, reason, message, fields, checksum
inline constexpr std::string_view kEventColumns = "sequence, first, last, count, kind, namespace, name, reason, message, fields, checksum";
[[nodiscard]] Row rowOf(const Event& event);
[[nodiscard]] Result<Event> eventOf(const Row& row);

}  // namespace coterie::sqlite
