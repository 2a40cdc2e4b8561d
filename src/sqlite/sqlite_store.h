// ObjectStore and EventLog in one SQLite file, for one process on one machine.
//
// A write is one transaction in WAL mode with synchronous=FULL: when it returns ok it survives kill -9 and power loss. Reads come from memory
// (src/memory's tables, filled at open): thousands of objects, not millions. Each row carries a checksum of its content, since SQLite checks
// structure only; open() checks both, refuses a damaged file, one of a newer schema, one that is behind what was acknowledged (store_lock.h), and one
// that another process holds. Event entries are written without a sync. The file and its -wal are mode 0600 in a folder of mode 0700; exclusive
// locking needs no -shm file. A failed write changes nothing: the transaction is rolled back and memory is untouched. If even that cannot be
// confirmed, every later write answers Internal/StoreCorrupt until the process is started again. Errors of open: Unavailable/StoreLocked,
// StoreUnavailable, StoreFull; Internal/StoreCorrupt; Unavailable/StoreTooNew; Conflict/NotAStore. Thread rule: the loop's thread. Blocks for the
// sync (milliseconds on a disk).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/event_table.h"
#include "memory/object_table.h"
#include "memory/watch_hub.h"
#include "ports/clock.h"
#include "ports/event_log.h"
#include "ports/object_store.h"
#include "sqlite/database.h"
#include "sqlite/store_lock.h"

namespace coterie::sqlite {

inline constexpr int kSchemaVersion = 1;

class SqliteStore final : public ObjectStore, public EventLog {
 public:
  // Makes the folder (one level) and the files "coterie.db" and "coterie.lock" in it if they do not exist.
  [[nodiscard]] static Result<std::unique_ptr<SqliteStore>> open(const std::string& folder, EventLoop& loop);
  ~SqliteStore() override;

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
    return hub_->watch(kind, afterVersion, std::move(callback));
  }

  Status append(Event event) override;
  [[nodiscard]] std::vector<Event> last(const ObjectKey& object, std::size_t most) const override { return events_.last(object, most); }
  [[nodiscard]] std::vector<Event> since(std::uint64_t after, std::size_t most) const override { return events_.since(after, most); }

 private:
  enum class Sync : std::uint8_t { Full, Lazy };
  struct Statements {
    Statement put, erase, setVersion, addEvent, eraseEvent, getVersion;
  };

  SqliteStore(EventLoop& loop, std::unique_ptr<StoreLock> lock, std::unique_ptr<Database> database);
  [[nodiscard]] Status prepareSchema(std::uint64_t identity);
  [[nodiscard]] Status load();
  [[nodiscard]] Status loadObjects();
  [[nodiscard]] Status loadEvents();
  [[nodiscard]] Status prepareStatements();
  [[nodiscard]] Status transact(Sync sync, const std::function<Status()>& body);
  [[nodiscard]] Status persist(const Change& change);
  [[nodiscard]] Result<StoredObject> commit(Change change);
  void confirmUnchanged();

  EventLoop& loop_;
  std::unique_ptr<StoreLock> lock_;
  std::unique_ptr<Database> database_;
  Statements statements_;
  memory::ObjectTable table_;
  memory::EventTable events_;
  std::unique_ptr<memory::WatchHub> hub_;
  Sync sync_{Sync::Full};
  bool broken_{false};
};

}  // namespace coterie::sqlite
