// ObjectStore in memory. See ports/object_store.h for the contract.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "memory/object_table.h"
#include "memory/watch_hub.h"
#include "ports/clock.h"
#include "ports/object_store.h"

namespace coterie::memory {

class MemoryObjectStore final : public ObjectStore {
 public:
  explicit MemoryObjectStore(EventLoop& loop);

  [[nodiscard]] Result<StoredObject> get(const ObjectKey& key) const override { return table_.get(key); }
  [[nodiscard]] Result<ObjectList> list(const std::string& kind, const std::optional<std::string>& nameSpace) const override {
    return table_.list(kind, nameSpace);
  }
  [[nodiscard]] Result<StoredObject> create(StoredObject object) override;
  [[nodiscard]] Result<StoredObject> update(StoredObject object) override;
  [[nodiscard]] Result<StoredObject> updateStatus(StoredObject object) override;
  [[nodiscard]] Status remove(const ObjectKey& key, std::uint64_t resourceVersion) override;
  [[nodiscard]] Result<std::unique_ptr<Watch>> watch(const std::string& kind, std::uint64_t afterVersion,
                                                     std::function<void(const Change&)> callback) override {
    return hub_.watch(kind, afterVersion, std::move(callback));
  }

 private:
  StoredObject commit(Change change);

  EventLoop& loop_;
  ObjectTable table_;
  WatchHub hub_;
};

}  // namespace coterie::memory
