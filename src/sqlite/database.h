// The part of SQLite's C interface that the store needs, with errors as values.
//
// Errors: Unavailable/StoreFull (disk full, quota, file size limit), Internal/StoreCorrupt (damaged or no database), Unavailable/StoreUnavailable
// (anything else the file system says). Statements are prepared once and kept. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace coterie::sqlite {

using Cell = std::variant<std::monostate, std::int64_t, std::string>;
using Row = std::vector<Cell>;

class Statement {
 public:
  Statement() = default;
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;

 private:
  friend class Database;
  sqlite3_stmt* handle_{nullptr};
};

class Database {
 public:
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const std::string& path);
  [[nodiscard]] Status execute(const std::string& sql);
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  [[nodiscard]] Status run(Statement& statement, const Row& parameters);
  [[nodiscard]] Result<std::vector<Row>> query(Statement& statement, const Row& parameters);
  [[nodiscard]] Result<std::vector<Row>> query(std::string_view sql);
  [[nodiscard]] const std::string& path() const { return path_; }
  void rollback();  // if a transaction is open
  // The WAL into the main file; for a tidy end.
  void checkpoint();

 private:
  explicit Database(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Status bind(Statement& statement, const Row& parameters);
  [[nodiscard]] Error error(int code) const;

  sqlite3* handle_{nullptr};
  std::string path_;
};

}  // namespace coterie::sqlite
