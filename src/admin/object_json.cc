#include "admin/object_json.h"

#include <string>

#include "model/objects.h"
#include "objects/quantity.h"

namespace coterie::admin {

Value objectToValue(const StoredObject& object) {
  Value metadata = Value::emptyMap();
  metadata.set("name", object.key.name);
  if (!object.key.nameSpace.empty()) metadata.set("namespace", object.key.nameSpace);
  metadata.set("uid", object.uid);
  metadata.set("resourceVersion", std::to_string(object.resourceVersion));
  metadata.set("generation", object.generation);
  metadata.set("creationTimestamp", objects::timeText(object.creationTimeMicros));
  if (object.deletionTimeMicros) metadata.set("deletionTimestamp", objects::timeText(*object.deletionTimeMicros));
  if (object.labels.asMap() != nullptr && !object.labels.asMap()->empty()) metadata.set("labels", object.labels);
  Value value = Value::emptyMap();
  value.set("apiVersion", kApiVersion);
  value.set("kind", object.key.kind);
  value.set("metadata", std::move(metadata));
  value.set("spec", object.spec);
  if (!object.status.isNull()) value.set("status", object.status);
  return value;
}

Value listToValue(std::string_view kind, const ObjectList& list) {
  Value metadata = Value::emptyMap();
  metadata.set("resourceVersion", std::to_string(list.resourceVersion));
  Value items = Value::emptyList();
  for (const StoredObject& object : list.objects) items.push(objectToValue(object));
  Value value = Value::emptyMap();
  value.set("apiVersion", kApiVersion);
  value.set("kind", std::string(kind) + "List");
  value.set("metadata", std::move(metadata));
  value.set("items", std::move(items));
  return value;
}

Value changeToValue(const Change& change) {
  const std::string_view type = change.type == ChangeType::Added ? "ADDED" : change.type == ChangeType::Modified ? "MODIFIED" : "DELETED";
  Value value = Value::emptyMap();
  value.set("type", type);
  value.set("object", objectToValue(change.object));
  return value;
}

void mergePatch(Value& target, const Value& patch) {
  const Value::Map* members = patch.asMap();
  if (members == nullptr) {
    target = patch;
    return;
  }
  if (target.asMap() == nullptr) target = Value::emptyMap();
  for (const auto& [key, value] : *members) {
    if (value.isNull()) {
      target.erase(key);
      continue;
    }
    if (target.find(key) == nullptr) target.set(key, Value());
    mergePatch(*target.find(key), value);
  }
}

}  // namespace coterie::admin
