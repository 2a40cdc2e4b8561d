#include "identity/key_database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/unique_fd.h"
#include "identity/key_format.h"

namespace coterie::identity {

namespace {
constexpr int kSchema = 2;

std::string errnoText() { return std::generic_category().message(errno); }

Error ioError(const std::string& path, std::string_view doing) {
  if (errno == ENOSPC || errno == EDQUOT)
    return {Code::Unavailable, "StoreFull", fmt::format("no room to write {}: free some space on that disk", path)};
  return {Code::Internal, "KeysUnavailable", fmt::format("cannot {} {}: {}", doing, path, errnoText())};
}

// Of an open file: nobody but its owner may read or write it.
Status checkPrivate(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return ioError(path, "look at");
  if ((info.st_mode & 077) == 0) return {};
  return Error{
      Code::PermissionDenied, "InsecurePermissions",
      fmt::format("{} can be read by others (mode {:04o}): if that was a mistake, `chmod 600 {}`; if others may have read it, rotate the keys", path,
                  info.st_mode & 07777, path)};
}

Result<Pepper> readPepper(int fd, const std::string& path) {
  if (auto status = checkPrivate(fd, path); !status) return status.error();
  Pepper pepper{};
  std::array<std::uint8_t, 33> bytes{};
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ioError(path, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  if (done != pepper.size())
    return Error{Code::Internal, "KeysCorrupt", fmt::format("{} must hold exactly 32 bytes, but does not: restore it from a backup", path)};
  std::copy_n(bytes.begin(), pepper.size(), pepper.begin());
  return pepper;
}

// Complete or not there at all: written aside, then linked under its name.
Status writePepper(const std::string& folder, const std::string& path) {
  const std::string aside = path + ".new";
  ::unlink(aside.c_str());
  UniqueFd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return ioError(aside, "create");
  Pepper pepper{};
  fillRandom(pepper);
  if (::write(fd.get(), pepper.data(), pepper.size()) != static_cast<ssize_t>(pepper.size()) || ::fsync(fd.get()) != 0)
    return ioError(aside, "write");
  if (::rename(aside.c_str(), path.c_str()) != 0) return ioError(path, "create");
  const UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || ::fsync(directory.get()) != 0) return ioError(folder, "flush");
  return {};
}

class Statement {
 public:
  Statement(sqlite3* handle, const char* sql) { code_ = sqlite3_prepare_v2(handle, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, const std::string& text) {
    keep(sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT));
  }
  void bind(int at, const Mac& bytes) { keep(sqlite3_bind_blob(statement_, at, bytes.data(), static_cast<int>(bytes.size()), SQLITE_TRANSIENT)); }
  void bind(int at, const std::optional<WallTime>& time) {
    keep(time ? sqlite3_bind_int64(statement_, at, time->micros) : sqlite3_bind_null(statement_, at));
  }
  [[nodiscard]] int step() { return code_ == SQLITE_OK ? sqlite3_step(statement_) : code_; }

  [[nodiscard]] std::string text(int column) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return data == nullptr ? std::string() : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
  }
  [[nodiscard]] std::optional<WallTime> time(int column) const {
    if (sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
    return WallTime{sqlite3_column_int64(statement_, column)};
  }
  [[nodiscard]] bool mac(int column, Mac& out) const {
    if (sqlite3_column_bytes(statement_, column) != static_cast<int>(out.size())) return false;
    std::memcpy(out.data(), sqlite3_column_blob(statement_, column), out.size());
    return true;
  }
  [[nodiscard]] int integer(int column) const { return sqlite3_column_int(statement_, column); }

 private:
  void keep(int code) {
    if (code_ == SQLITE_OK) code_ = code;
  }
  sqlite3_stmt* statement_{nullptr};
  int code_{SQLITE_OK};
};
}  // namespace

Result<Pepper> openPepper(const std::string& folder, bool mayMake) {
  const std::string path = folder + "/pepper";
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && errno == ENOENT) {
    if (!mayMake) {
      return Error{
          Code::Internal, "PepperMissing",
          fmt::format("{} is gone, and without it no API key can be checked: restore it, or remove {}/keys.db and create new keys", path, folder)};
    }
    if (auto status = writePepper(folder, path); !status) return status.error();
    fd.reset(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (!fd) return ioError(path, "open");
  return readPepper(fd.get(), path);
}

Error KeyStore::Database::failure(int code) const {
  const std::string path = sqlite3_db_filename(handle_, "main");
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {Code::Unavailable, "KeysInUse", fmt::format("{} is open in another Coterie process: stop that one, or talk to it", path)};
    case SQLITE_FULL:
      return {Code::Unavailable, "StoreFull", fmt::format("no room to write {}: free some space on that disk; nothing was changed", path)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {Code::Internal, "KeysCorrupt", fmt::format("{} is damaged: restore it from a backup, or move it away and create new keys", path)};
    default: return {Code::Internal, "KeysUnavailable", fmt::format("{}: {}", path, sqlite3_errmsg(handle_))};
  }
}

Result<std::unique_ptr<KeyStore::Database>> KeyStore::Database::open(const std::string& path) {
  {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return ioError(path, "open");
    if (auto status = checkPrivate(fd.get(), path); !status) return status.error();
  }  // closed before SQLite locks it: closing any descriptor of a file drops the process's locks on it
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_NOFOLLOW, nullptr);
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return Error{Code::Internal, "KeysUnavailable", fmt::format("cannot open {}: {}", path, sqlite3_errstr(code))};
  if (auto status = database->prepareSchema(); !status) return status.error();
  return database;
}

KeyStore::Database::~Database() { sqlite3_close_v2(handle_); }

Status KeyStore::Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : Status(failure(code));
}

Status KeyStore::Database::prepareSchema() {
  sqlite3_extended_result_codes(handle_, 1);
  if (auto status = run("PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;"); !status)
    return status;
  if (auto status = run("BEGIN IMMEDIATE"); !status) return status;
  int version = 0;
  {
    Statement statement(handle_, "PRAGMA user_version");
    if (const int code = statement.step(); code != SQLITE_ROW) return failure(code);
    version = statement.integer(0);
  }
  if (version > kSchema) {
    return Error{
        Code::Internal, "KeysTooNew",
        fmt::format("{} has schema {}, this Coterie knows up to {}: run the newer version", sqlite3_db_filename(handle_, "main"), version, kSchema)};
  }
  if (version == 0) {
    const auto status =
        run("CREATE TABLE keys(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, label TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER, revoked "
            "INTEGER,"
            " rotated INTEGER, former_until INTEGER, mac BLOB NOT NULL, former_mac BLOB NOT NULL) STRICT;"
            "CREATE TABLE meta(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT;"
            "PRAGMA user_version=1;");
    if (!status) return status;
  }
  // 2: keys have roles. Those of before could infer and read what the gateway shows of models: that is what `infer` may.
  if (version < 2) {
    if (auto status = run("ALTER TABLE keys ADD COLUMN role TEXT NOT NULL DEFAULT 'infer'; PRAGMA user_version=2;"); !status) return status;
  }
  return run("COMMIT");
}

Result<std::vector<KeyRecord>> KeyStore::Database::readAll() {
  Statement statement(handle_,
                      "SELECT id,tenant,label,created,expires,revoked,rotated,former_until,mac,former_mac,role FROM keys ORDER BY tenant,created,id");
  std::vector<KeyRecord> keys;
  int code = statement.step();
  for (; code == SQLITE_ROW; code = statement.step()) {
    KeyRecord key;
    key.id = statement.text(0);
    key.tenant = TenantName(statement.text(1));
    key.label = statement.text(2);
    key.created = statement.time(3).value_or(WallTime{});
    key.expires = statement.time(4);
    key.revoked = statement.time(5);
    key.rotated = statement.time(6);
    key.formerUntil = statement.time(7);
    if (!statement.mac(8, key.mac) || !statement.mac(9, key.formerMac)) return failure(SQLITE_CORRUPT);
    const auto role = roleNamed(statement.text(10));
    if (!role || *role == Role::PlatformAdmin) return failure(SQLITE_CORRUPT);
    key.role = *role;
    keys.push_back(std::move(key));
  }
  if (code != SQLITE_DONE) return failure(code);
  return keys;
}

Status KeyStore::Database::put(const KeyRecord& key) {
  Statement statement(
      handle_,
      "INSERT OR REPLACE INTO keys(id,tenant,label,created,expires,revoked,rotated,former_until,mac,former_mac,role) VALUES(?,?,?,?,?,?,?,?,?,?,?)");
  statement.bind(1, key.id);
  statement.bind(2, key.tenant.value);
  statement.bind(3, key.label);
  statement.bind(4, std::optional(key.created));
  statement.bind(5, key.expires);
  statement.bind(6, key.revoked);
  statement.bind(7, key.rotated);
  statement.bind(8, key.formerUntil);
  statement.bind(9, key.mac);
  statement.bind(10, key.formerMac);
  statement.bind(11, std::string(roleName(key.role)));
  const int code = statement.step();
  return code == SQLITE_DONE ? Status() : Status(failure(code));
}

Status KeyStore::Database::remove(const std::string& id) {
  Statement statement(handle_, "DELETE FROM keys WHERE id=?");
  statement.bind(1, id);
  const int code = statement.step();
  return code == SQLITE_DONE ? Status() : Status(failure(code));
}

Result<bool> KeyStore::Database::hasPepperCheck() {
  Statement statement(handle_, "SELECT 1 FROM meta WHERE name='pepper-check'");
  const int code = statement.step();
  if (code != SQLITE_ROW && code != SQLITE_DONE) return failure(code);
  return code == SQLITE_ROW;
}

Status KeyStore::Database::checkPepper(const Mac& check) {
  {
    Statement statement(handle_, "SELECT value FROM meta WHERE name='pepper-check'");
    const int code = statement.step();
    if (code == SQLITE_ROW) {
      Mac stored{};
      if (statement.mac(0, stored) && stored == check) return {};
      return Error{Code::Internal, "PepperMismatch",
                   fmt::format("the pepper file is not the one that {} was made with, so no API key could be checked: restore it",
                               sqlite3_db_filename(handle_, "main"))};
    }
    if (code != SQLITE_DONE) return failure(code);
  }
  Statement statement(handle_, "INSERT INTO meta(name,value) VALUES('pepper-check',?)");
  statement.bind(1, check);
  const int code = statement.step();
  return code == SQLITE_DONE ? Status() : Status(failure(code));
}

}  // namespace coterie::identity
