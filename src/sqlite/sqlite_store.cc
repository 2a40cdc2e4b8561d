#include "sqlite/sqlite_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "sqlite/rows.h"

namespace coterie::sqlite {

namespace {
constexpr std::int64_t kApplicationId = 0x436f7465;  // "Cote"

constexpr const char* kSchema = R"(
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE objects (kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, uid TEXT NOT NULL, resource_version INTEGER NOT NULL,
  generation INTEGER NOT NULL, created INTEGER NOT NULL, deleted INTEGER, labels TEXT NOT NULL, spec TEXT NOT NULL, status TEXT NOT NULL,
  checksum INTEGER NOT NULL, PRIMARY KEY (kind, namespace, name)) WITHOUT ROWID;
CREATE TABLE events (sequence INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, count INTEGER NOT NULL, kind TEXT NOT NULL,
  namespace TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL, message TEXT NOT NULL, fields TEXT NOT NULL, checksum INTEGER NOT NULL);
)";

Error corrupt(const std::string& folder, const std::string& what) {
  return {Code::Internal, "StoreCorrupt",
          "the store at " + folder + "/coterie.db is damaged (" + what +
              "): nothing was changed. Restore it from a backup, or move it away to begin with an empty one"};
}

Result<std::int64_t> single(Database& database, std::string_view sql) {
  const Result<std::vector<Row>> rows = database.query(sql);
  if (!rows.ok()) return rows.error();
  const auto* number = rows->size() == 1 && rows->front().size() == 1 ? std::get_if<std::int64_t>(&rows->front()[0]) : nullptr;
  return number != nullptr ? *number : -1;
}

// The files must exist with their mode before SQLite writes to them: it gives its -wal the mode of the database.
Status makeFiles(const std::string& folder) {
  const auto failed = [&](const std::string& what) {
    const Code code = Code::Unavailable;
    return errno == ENOSPC || errno == EDQUOT ? Error{code, "StoreFull", "no room left to make " + what}
                                              : Error{code, "StoreUnavailable", "cannot make " + what + ": " + std::strerror(errno)};
  };
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return failed(folder);
  const std::string path = folder + "/coterie.db";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return failed(path);
  if (::fchmod(fd.get(), 0600) != 0) return failed(path);
  ::chmod((path + "-wal").c_str(), 0600);
  return {};
}
}  // namespace

SqliteStore::SqliteStore(EventLoop& loop, std::unique_ptr<StoreLock> lock, std::unique_ptr<Database> database)
    : loop_(loop), lock_(std::move(lock)), database_(std::move(database)) {}

SqliteStore::~SqliteStore() { database_->checkpoint(); }

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(const std::string& folder, EventLoop& loop) {
  if (Status made = makeFiles(folder); !made.ok()) return made.error();
  Result<std::unique_ptr<StoreLock>> lock = StoreLock::take(folder + "/coterie.lock");
  if (!lock.ok()) return lock.error();
  Result<std::unique_ptr<Database>> database = Database::open(folder + "/coterie.db");
  if (!database.ok()) return database.error();
  std::unique_ptr<SqliteStore> store(new SqliteStore(loop, std::move(*lock), std::move(*database)));
  if (Status ready = store->prepareSchema(static_cast<std::uint64_t>(loop.clock().wall().micros)); !ready.ok()) return ready.error();
  if (Status loaded = store->load(); !loaded.ok()) {
    if (loaded.error().reason == "StoreCorrupt" && loaded.error().message.find(folder) == std::string::npos)
      return corrupt(folder, loaded.error().message);
    return loaded.error();
  }
  if (store->table_.version() < store->lock_->witnessed()) {
    return corrupt(folder, "it is at version " + std::to_string(store->table_.version()) + ", but " + std::to_string(store->lock_->witnessed()) +
                               " was acknowledged; if you restored a backup on purpose, remove coterie.lock");
  }
  if (Status prepared = store->prepareStatements(); !prepared.ok()) return prepared.error();
  store->lock_->witness(store->table_.version());
  store->hub_ = std::make_unique<memory::WatchHub>(loop, store->table_.version());
  return store;
}

Status SqliteStore::prepareSchema(std::uint64_t identity) {
  // Exclusive locking before WAL: the index of the log lies in our memory instead of a -shm file.
  for (const char* pragma : {"PRAGMA locking_mode=EXCLUSIVE", "PRAGMA trusted_schema=OFF", "PRAGMA cell_size_check=ON", "PRAGMA synchronous=FULL"}) {
    if (Status done = database_->execute(pragma); !done.ok()) return done;
  }
  const Result<std::int64_t> application = single(*database_, "PRAGMA application_id");
  if (!application.ok()) return application.error();
  const Result<std::int64_t> schema = single(*database_, "PRAGMA user_version");
  if (!schema.ok()) return schema.error();
  const Result<std::int64_t> tables = single(*database_, "SELECT count(*) FROM sqlite_schema");
  if (!tables.ok()) return tables.error();
  const bool fresh = *application == 0 && *schema == 0 && *tables == 0;
  if (!fresh && *application != kApplicationId)
    return Error{Code::Conflict, "NotAStore", database_->path() + " is a database of another program: name another state folder with --state"};
  if (*schema > kSchemaVersion) {
    return Error{Code::Unavailable, "StoreTooNew",
                 "the store at " + database_->path() + " has schema " + std::to_string(*schema) + ", and this program knows " +
                     std::to_string(kSchemaVersion) +
                     ": nothing was changed. Start the newer coterie that wrote it, or name another state folder with --state"};
  }
  if (Status wal = database_->execute("PRAGMA journal_mode=WAL"); !wal.ok()) return wal;
  if (!fresh) return {};
  return transact(Sync::Full, [&]() -> Status {
    return database_->execute(std::string(kSchema) + "INSERT INTO meta VALUES ('resource_version', 0), ('identity', " +
                              std::to_string(static_cast<std::int64_t>(identity)) + "); PRAGMA application_id=" + std::to_string(kApplicationId) +
                              "; PRAGMA user_version=" + std::to_string(kSchemaVersion) + ";");
  });
}

Status SqliteStore::load() {
  const Result<std::vector<Row>> check = database_->query("PRAGMA integrity_check(1)");
  if (!check.ok()) return check.error();
  const auto* verdict = check->empty() || check->front().empty() ? nullptr : std::get_if<std::string>(&check->front()[0]);
  if (verdict == nullptr || *verdict != "ok")
    return Error{Code::Internal, "StoreCorrupt", verdict != nullptr ? *verdict : "no verdict of the integrity check"};
  if (Status objects = loadObjects(); !objects.ok()) return objects;
  return loadEvents();
}

Status SqliteStore::loadObjects() {
  const Result<std::int64_t> identity = single(*database_, "SELECT value FROM meta WHERE name = 'identity'");
  if (!identity.ok()) return identity.error();
  const Result<std::int64_t> version = single(*database_, "SELECT value FROM meta WHERE name = 'resource_version'");
  if (!version.ok()) return version.error();
  if (*version < 0) return Error{Code::Internal, "StoreCorrupt", "no resource version"};
  table_ = memory::ObjectTable(static_cast<std::uint64_t>(*identity), static_cast<std::uint64_t>(*version));
  const Result<std::vector<Row>> rows = database_->query("SELECT " + std::string(kObjectColumns) + " FROM objects");
  if (!rows.ok()) return rows.error();
  for (const Row& row : *rows) {
    Result<StoredObject> object = objectOf(row);
    if (!object.ok()) return object.error();
    if (object->resourceVersion > static_cast<std::uint64_t>(*version))
      return Error{Code::Internal, "StoreCorrupt", "an object is newer than the store"};
    table_.load(std::move(*object));
  }
  return {};
}

// A record of the past is no reason to refuse the present: a damaged entry is left out, and said.
Status SqliteStore::loadEvents() {
  const Result<std::vector<Row>> rows = database_->query("SELECT " + std::string(kEventColumns) + " FROM events");
  if (!rows.ok()) return rows.error();
  std::size_t damaged = 0;
  for (const Row& row : *rows) {
    Result<Event> event = eventOf(row);
    event.ok() ? events_.load(std::move(*event)) : void(++damaged);
  }
  if (damaged > 0) log::warning("store", std::to_string(damaged) + " damaged entries of the event log were left out; objects are whole");
  return {};
}

Status SqliteStore::prepareStatements() {
  const std::pair<Statement*, std::string> wanted[] = {
      {&statements_.put, "INSERT OR REPLACE INTO objects (" + std::string(kObjectColumns) + ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"},
      {&statements_.erase, "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?"},
      {&statements_.setVersion, "UPDATE meta SET value = ? WHERE name = 'resource_version'"},
      {&statements_.getVersion, "SELECT value FROM meta WHERE name = 'resource_version'"},
      {&statements_.addEvent, "INSERT OR REPLACE INTO events (" + std::string(kEventColumns) + ") VALUES (?,?,?,?,?,?,?,?,?,?,?)"},
      {&statements_.eraseEvent, "DELETE FROM events WHERE sequence = ?"}};
  for (const auto& [statement, sql] : wanted) {
    Result<Statement> prepared = database_->prepare(sql);
    if (!prepared.ok()) return prepared.error();
    *statement = std::move(*prepared);
  }
  return {};
}

Status SqliteStore::transact(Sync sync, const std::function<Status()>& body) {
  if (sync != sync_) {
    if (Status set = database_->execute(sync == Sync::Full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"); !set.ok()) return set;
    sync_ = sync;
  }
  Status outcome = database_->execute("BEGIN IMMEDIATE");
  if (outcome.ok()) outcome = body();
  if (outcome.ok()) outcome = database_->execute("COMMIT");
  if (!outcome.ok()) database_->rollback();
  return outcome;
}

Status SqliteStore::persist(const Change& change) {
  if (broken_) return Error{Code::Internal, "StoreCorrupt", "an earlier write failed and could not be taken back for certain: start coterie again"};
  const StoredObject& object = change.object;
  const Status outcome = transact(Sync::Full, [&]() -> Status {
    Status done = change.type == ChangeType::Deleted ? database_->run(statements_.erase, {object.key.kind, object.key.nameSpace, object.key.name})
                                                     : database_->run(statements_.put, rowOf(object));
    if (!done.ok()) return done;
    return database_->run(statements_.setVersion, {static_cast<std::int64_t>(object.resourceVersion)});
  });
  if (!outcome.ok()) confirmUnchanged();
  return outcome;
}

// After a failed write: what the file holds must still be what memory holds, or nothing more may be written on top.
void SqliteStore::confirmUnchanged() {
  const Result<std::vector<Row>> rows = database_->query(statements_.getVersion, {});
  const auto* version = rows.ok() && rows->size() == 1 ? std::get_if<std::int64_t>(&rows->front()[0]) : nullptr;
  if (version == nullptr || static_cast<std::uint64_t>(*version) != table_.version()) broken_ = true;
}

Result<StoredObject> SqliteStore::commit(Change change) {
  if (Status durable = persist(change); !durable.ok()) return durable.error();
  table_.commit(change);
  lock_->witness(change.object.resourceVersion);
  hub_->publish(change);
  return std::move(change.object);
}

Result<StoredObject> SqliteStore::create(StoredObject object) {
  Result<Change> planned = table_.planCreate(std::move(object), loop_.clock().wall().micros);
  if (!planned.ok()) return planned.error();
  return commit(std::move(*planned));
}

Result<StoredObject> SqliteStore::update(StoredObject object) {
  Result<std::optional<Change>> planned = table_.planUpdate(object);
  if (!planned.ok()) return planned.error();
  return *planned ? commit(std::move(**planned)) : table_.get(object.key);
}

Result<StoredObject> SqliteStore::updateStatus(StoredObject object) {
  Result<std::optional<Change>> planned = table_.planUpdateStatus(object);
  if (!planned.ok()) return planned.error();
  return *planned ? commit(std::move(**planned)) : table_.get(object.key);
}

Status SqliteStore::remove(const ObjectKey& key, std::uint64_t resourceVersion) {
  Result<Change> planned = table_.planRemove(key, resourceVersion);
  if (!planned.ok()) return planned.error();
  const Result<StoredObject> done = commit(std::move(*planned));
  return done.ok() ? Status() : Status(done.error());
}

Status SqliteStore::append(Event event) {
  const memory::EventTable::Added added = events_.add(std::move(event), loop_.clock().wall().micros);
  return transact(Sync::Lazy, [&]() -> Status {
    if (Status done = database_->run(statements_.addEvent, rowOf(added.event)); !done.ok()) return done;
    for (const std::uint64_t sequence : added.forget) {
      if (Status done = database_->run(statements_.eraseEvent, {static_cast<std::int64_t>(sequence)}); !done.ok()) return done;
    }
    return {};
  });
}

}  // namespace coterie::sqlite
