#include "memory/memory_object_store.h"

#include <utility>

namespace coterie::memory {

MemoryObjectStore::MemoryObjectStore(EventLoop& loop) : loop_(loop), table_(static_cast<std::uint64_t>(loop.clock().wall().micros)), hub_(loop, 0) {}

StoredObject MemoryObjectStore::commit(Change change) {
  table_.commit(change);
  hub_.publish(change);
  return std::move(change.object);
}

Result<StoredObject> MemoryObjectStore::create(StoredObject object) {
  Result<Change> planned = table_.planCreate(std::move(object), loop_.clock().wall().micros);
  if (!planned.ok()) return planned.error();
  return commit(std::move(*planned));
}

Result<StoredObject> MemoryObjectStore::update(StoredObject object) {
  Result<std::optional<Change>> planned = table_.planUpdate(object);
  if (!planned.ok()) return planned.error();
  return *planned ? commit(std::move(**planned)) : table_.get(object.key);
}

Result<StoredObject> MemoryObjectStore::updateStatus(StoredObject object) {
  Result<std::optional<Change>> planned = table_.planUpdateStatus(object);
  if (!planned.ok()) return planned.error();
  return *planned ? commit(std::move(**planned)) : table_.get(object.key);
}

Status MemoryObjectStore::remove(const ObjectKey& key, std::uint64_t resourceVersion) {
  Result<Change> planned = table_.planRemove(key, resourceVersion);
  if (!planned.ok()) return planned.error();
  commit(std::move(*planned));
  return {};
}

}  // namespace coterie::memory
