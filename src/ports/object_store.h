// Where objects live: specs that people write and status that reconcilers write.
//
// Objects are addressed by kind, namespace (empty for cluster-scoped kinds) and name. Each write gets a new resourceVersion, one sequence for the
// whole store. spec and status are separate: update() keeps the stored status, updateStatus() the stored spec; both fail with Conflict if
// resourceVersion is not the stored one (0: unconditional for updateStatus only). A spec change increments metadata.generation. A write that returned
// ok survives kill -9 and power loss. Watch delivers every change after a resourceVersion in order; a version older than what is kept answers
// Conflict/ResourceVersionTooOld: list again. Errors: NotFound, Conflict/AlreadyExists, Conflict/ResourceVersionConflict, Unavailable/StoreFull (disk
// full: nothing was written), Internal/StoreCorrupt. Adapters: src/memory, src/sqlite; one contract suite (object_store_contract.h) on both. Thread
// rule: calls on the control loop; watch callbacks too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/value.h"

namespace coterie {

struct ObjectKey {
  std::string kind;       // "Tenant", "ModelService"
  std::string nameSpace;  // empty: cluster-scoped
  std::string name;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

struct StoredObject {
  ObjectKey key;
  std::string uid;
  std::uint64_t resourceVersion{0};
  std::int64_t generation{0};
  std::int64_t creationTimeMicros{0};
  std::optional<std::int64_t> deletionTimeMicros;  // set: being deleted, finalizers pending
  Value labels;                                    // map of strings
  Value spec;
  Value status;
};

enum class ChangeType : std::uint8_t { Added, Modified, Deleted };
struct Change {
  ChangeType type{ChangeType::Added};
  StoredObject object;
};

class Watch {
 public:
  virtual ~Watch() = default;  // stops it
};

struct ObjectList {
  std::vector<StoredObject> objects;  // ascending key
  std::uint64_t resourceVersion{0};   // watch from here
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  [[nodiscard]] virtual Result<StoredObject> get(const ObjectKey& key) const = 0;
  [[nodiscard]] virtual Result<ObjectList> list(const std::string& kind, const std::optional<std::string>& nameSpace) const = 0;
  [[nodiscard]] virtual Result<StoredObject> create(StoredObject object) = 0;
  [[nodiscard]] virtual Result<StoredObject> update(StoredObject object) = 0;
  [[nodiscard]] virtual Result<StoredObject> updateStatus(StoredObject object) = 0;
  [[nodiscard]] virtual Status remove(const ObjectKey& key, std::uint64_t resourceVersion) = 0;  // 0: whatever the version
  [[nodiscard]] virtual Result<std::unique_ptr<Watch>> watch(const std::string& kind, std::uint64_t afterVersion,
                                                             std::function<void(const Change&)> callback) = 0;
};

}  // namespace coterie
