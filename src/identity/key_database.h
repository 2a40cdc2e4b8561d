// The SQLite file behind KeyStore, and the pepper file. Not for others: key_store.h is the interface. Thread-compatible.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "identity/key_store.h"

struct sqlite3;

namespace coterie::identity {

// Reads the pepper; makes it if it is not there and `mayMake`. Errors as in key_store.h.
[[nodiscard]] Result<Pepper> openPepper(const std::string& folder, bool mayMake);

class KeyStore::Database {
 public:
  // `path`: keys.db. Makes file and tables if they are not there.
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] Result<std::vector<KeyRecord>> readAll();
  [[nodiscard]] Status put(const KeyRecord& key);  // insert or replace, durable on return
  [[nodiscard]] Status remove(const std::string& id);
  // The first call stores the check value, later ones compare: Internal/PepperMismatch.
  [[nodiscard]] Status checkPepper(const Mac& check);
  [[nodiscard]] Result<bool> hasPepperCheck();

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  [[nodiscard]] Status run(const char* sql);
  [[nodiscard]] Error failure(int code) const;
  [[nodiscard]] Status prepareSchema();

  sqlite3* handle_;
};

}  // namespace coterie::identity
