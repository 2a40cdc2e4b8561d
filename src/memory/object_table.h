// The rules of the object store, apart from where it is kept.
//
// A write is planned first (checked against the rules, given its version, generation, uid and time) and then committed: between the two an adapter
// makes it durable. So every store answers alike, and a write that could not be made durable leaves nothing behind. An update that changes nothing
// gets no new version. O(log objects) per write, O(objects of the kind) per list. Thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "ports/object_store.h"

namespace coterie::memory {

class ObjectTable {
 public:
  // identity makes uids unique across stores; version is the last one given.
  explicit ObjectTable(std::uint64_t identity = 0, std::uint64_t version = 0) : identity_(identity), version_(version) {}

  [[nodiscard]] Result<StoredObject> get(const ObjectKey& key) const;
  [[nodiscard]] ObjectList list(const std::string& kind, const std::optional<std::string>& nameSpace) const;
  [[nodiscard]] std::uint64_t version() const { return version_; }

  // nullopt in an ok result: nothing to do, the stored object is as wanted.
  [[nodiscard]] Result<Change> planCreate(StoredObject object, std::int64_t nowMicros) const;
  [[nodiscard]] Result<std::optional<Change>> planUpdate(const StoredObject& object) const;
  [[nodiscard]] Result<std::optional<Change>> planUpdateStatus(const StoredObject& object) const;
  [[nodiscard]] Result<Change> planRemove(const ObjectKey& key, std::uint64_t resourceVersion) const;
  void commit(const Change& change);

  // Puts an object as it was kept, without a new version.
  void load(StoredObject object);

 private:
  [[nodiscard]] Result<const StoredObject*> current(const ObjectKey& key, std::uint64_t resourceVersion) const;

  std::uint64_t identity_;
  std::uint64_t version_;
  std::map<ObjectKey, StoredObject> objects_;
};

[[nodiscard]] std::string keyText(const ObjectKey& key);  // "ModelService audio/speech"

}  // namespace coterie::memory
