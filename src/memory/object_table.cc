#include "memory/object_table.h"

#include <array>
#include <utility>

namespace coterie::memory {

namespace {
std::string hex(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[15 - i] = "0123456789abcdef"[(number >> (4 * i)) & 15];
  return text;
}
Error conflict(std::string reason, std::string message) { return {Code::Conflict, std::move(reason), std::move(message)}; }
}  // namespace

std::string keyText(const ObjectKey& key) { return key.kind + " " + (key.nameSpace.empty() ? "" : key.nameSpace + "/") + key.name; }

Result<StoredObject> ObjectTable::get(const ObjectKey& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Error{Code::NotFound, "NotFound", keyText(key) + " does not exist"};
  return found->second;
}

ObjectList ObjectTable::list(const std::string& kind, const std::optional<std::string>& nameSpace) const {
  ObjectList result;
  result.resourceVersion = version_;
  for (auto it = objects_.lower_bound(ObjectKey{kind, nameSpace.value_or(""), ""}); it != objects_.end() && it->first.kind == kind; ++it) {
    if (nameSpace && it->first.nameSpace != *nameSpace) break;
    result.objects.push_back(it->second);
  }
  return result;
}

Result<const StoredObject*> ObjectTable::current(const ObjectKey& key, std::uint64_t resourceVersion) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return Error{Code::NotFound, "NotFound", keyText(key) + " does not exist"};
  if (found->second.resourceVersion != resourceVersion) {
    return conflict("ResourceVersionConflict", keyText(key) + " was changed by somebody else (it is at version " +
                                                   std::to_string(found->second.resourceVersion) + ", the change was made on " +
                                                   std::to_string(resourceVersion) + "): get it again and repeat the change");
  }
  return &found->second;
}

Result<Change> ObjectTable::planCreate(StoredObject object, std::int64_t nowMicros) const {
  if (object.key.kind.empty() || object.key.name.empty()) return Error{Code::InvalidArgument, "BadKey", "an object has a kind and a name"};
  if (objects_.contains(object.key)) return conflict("AlreadyExists", keyText(object.key) + " exists already");
  object.resourceVersion = version_ + 1;
  object.uid = hex(identity_) + "-" + std::to_string(object.resourceVersion);
  object.generation = 1;
  object.creationTimeMicros = nowMicros;
  object.deletionTimeMicros.reset();
  return Change{ChangeType::Added, std::move(object)};
}

Result<std::optional<Change>> ObjectTable::planUpdate(const StoredObject& object) const {
  const Result<const StoredObject*> found = current(object.key, object.resourceVersion);
  if (!found.ok()) return found.error();
  StoredObject next = **found;
  const bool specChanged = !(next.spec == object.spec);
  const bool deletes = object.deletionTimeMicros && !next.deletionTimeMicros;
  if (!specChanged && !deletes && next.labels == object.labels) return std::optional<Change>{};
  next.spec = object.spec;
  next.labels = object.labels;
  if (deletes) next.deletionTimeMicros = object.deletionTimeMicros;
  next.generation += specChanged ? 1 : 0;
  next.resourceVersion = version_ + 1;
  return std::optional<Change>(Change{ChangeType::Modified, std::move(next)});
}

Result<std::optional<Change>> ObjectTable::planUpdateStatus(const StoredObject& object) const {
  const auto stored = objects_.find(object.key);
  const std::uint64_t wanted = object.resourceVersion == 0 && stored != objects_.end() ? stored->second.resourceVersion : object.resourceVersion;
  const Result<const StoredObject*> found = current(object.key, wanted);
  if (!found.ok()) return found.error();
  if ((*found)->status == object.status) return std::optional<Change>{};
  StoredObject next = **found;
  next.status = object.status;
  next.resourceVersion = version_ + 1;
  return std::optional<Change>(Change{ChangeType::Modified, std::move(next)});
}

Result<Change> ObjectTable::planRemove(const ObjectKey& key, std::uint64_t resourceVersion) const {
  const auto stored = objects_.find(key);
  const std::uint64_t wanted = resourceVersion == 0 && stored != objects_.end() ? stored->second.resourceVersion : resourceVersion;
  const Result<const StoredObject*> found = current(key, wanted);
  if (!found.ok()) return found.error();
  StoredObject gone = **found;
  gone.resourceVersion = version_ + 1;
  return Change{ChangeType::Deleted, std::move(gone)};
}

void ObjectTable::commit(const Change& change) {
  version_ = change.object.resourceVersion;
  if (change.type == ChangeType::Deleted) {
    objects_.erase(change.object.key);
  } else {
    objects_[change.object.key] = change.object;
  }
}

void ObjectTable::load(StoredObject object) {
  ObjectKey key = object.key;
  objects_[std::move(key)] = std::move(object);
}

}  // namespace coterie::memory
