// One writing process per store, and a witness of what it acknowledged.
//
// The lock file holds a POSIX record lock (fcntl F_SETLK): the kernel drops it when the process dies, children do not inherit it, and F_GETLK names
// the holder. It does not bar a second open within the same process. Its content is the pid and the last acknowledged version; a store that is behind
// that has lost something (a write-ahead log damaged after a crash reads as a shorter one, and SQLite cannot tell). The witness is written after each
// commit and never synced, so it is never ahead of what is durable. Thread-compatible. Source: fcntl(2).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::sqlite {

class StoreLock {
 public:
  // Errors: Unavailable/StoreLocked (names the pid), Unavailable/StoreUnavailable (cannot be opened).
  [[nodiscard]] static Result<std::unique_ptr<StoreLock>> take(const std::string& path);
  [[nodiscard]] std::uint64_t witnessed() const { return witnessed_; }
  void witness(std::uint64_t version);

 private:
  explicit StoreLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  std::uint64_t witnessed_{0};
};

}  // namespace coterie::sqlite
