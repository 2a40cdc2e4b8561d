#include "sqlite/database.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace coterie::sqlite {

Statement::~Statement() { sqlite3_finalize(handle_); }
Statement::Statement(Statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
Statement& Statement::operator=(Statement&& other) noexcept {
  if (this != &other) {
    sqlite3_finalize(handle_);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

Database::~Database() { sqlite3_close_v2(handle_); }

Error Database::error(int code) const {
  const int primary = code & 0xff;
  const std::string said = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code);
  const int system = handle_ != nullptr ? sqlite3_system_errno(handle_) : 0;
  // SQLite says FULL only for ENOSPC. A quota or a limit on the file's size comes as a failed write whose errno is often lost by now: it is EIO that
  // means the device.
  const bool writing = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_TRUNCATE;
  if (primary == SQLITE_FULL || (writing && system != EIO)) {
    return {Code::Unavailable, "StoreFull",
            "no room left for the store at " + path_ +
                " (disk full, quota or a limit on a file's size): nothing was changed. Free some space and try again"};
  }
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB) {
    return {Code::Internal, "StoreCorrupt",
            "the store at " + path_ + " is damaged (" + said +
                "): nothing was changed. Restore it from a backup, or move it away to begin with an empty one"};
  }
  return {Code::Unavailable, "StoreUnavailable",
          "the store at " + path_ + ": " + said + (system != 0 ? std::string(" (") + std::strerror(system) + ")" : std::string())};
}

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  std::unique_ptr<Database> database(new Database(path));
  const int code = sqlite3_open_v2(path.c_str(), &database->handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, nullptr);
  if (code != SQLITE_OK) return database->error(code);
  sqlite3_extended_result_codes(database->handle_, 1);
  sqlite3_busy_timeout(database->handle_, 1000);
  return database;
}

Status Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code);
  return {};
}

Result<Statement> Database::prepare(std::string_view sql) {
  Statement statement;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement.handle_, nullptr);
  if (code != SQLITE_OK) return error(code);
  return statement;
}

Status Database::bind(Statement& statement, const Row& parameters) {
  int index = 0;
  for (const Cell& cell : parameters) {
    ++index;
    int code = SQLITE_OK;
    if (const auto* number = std::get_if<std::int64_t>(&cell)) {
      code = sqlite3_bind_int64(statement.handle_, index, *number);
    } else if (const auto* text = std::get_if<std::string>(&cell)) {
      code = sqlite3_bind_text64(statement.handle_, index, text->data(), text->size(), SQLITE_STATIC,
                                 SQLITE_UTF8);  // bound only until the statement is reset below
    } else {
      code = sqlite3_bind_null(statement.handle_, index);
    }
    if (code != SQLITE_OK) return error(code);
  }
  return {};
}

Result<std::vector<Row>> Database::query(Statement& statement, const Row& parameters) {
  if (Status bound = bind(statement, parameters); !bound.ok()) return bound.error();
  std::vector<Row> rows;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement.handle_)) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement.handle_); ++i) {
      const int type = sqlite3_column_type(statement.handle_, i);
      if (type == SQLITE_INTEGER) {
        row.emplace_back(std::int64_t{sqlite3_column_int64(statement.handle_, i)});
      } else if (type == SQLITE_NULL) {
        row.emplace_back();
      } else {
        const void* bytes = sqlite3_column_blob(statement.handle_, i);
        row.emplace_back(std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(statement.handle_, i))));
      }
    }
  }
  const Status outcome = code == SQLITE_DONE ? Status() : Status(error(code));  // before the reset, which clears the message
  sqlite3_reset(statement.handle_);
  sqlite3_clear_bindings(statement.handle_);
  if (!outcome.ok()) return outcome.error();
  return rows;
}

Status Database::run(Statement& statement, const Row& parameters) {
  const Result<std::vector<Row>> rows = query(statement, parameters);
  return rows.ok() ? Status() : Status(rows.error());
}

Result<std::vector<Row>> Database::query(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement.ok()) return statement.error();
  return query(*statement, {});
}

void Database::rollback() {
  if (sqlite3_get_autocommit(handle_) == 0) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

void Database::checkpoint() { sqlite3_wal_checkpoint_v2(handle_, nullptr, SQLITE_CHECKPOINT_TRUNCATE, nullptr, nullptr); }

}  // namespace coterie::sqlite
