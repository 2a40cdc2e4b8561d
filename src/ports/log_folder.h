// A folder of files that only grow, as a log needs one that must not lose a line: nothing of it is an ordinary file's business but the bytes.
//
// What a call with Durable::Yes acknowledged, and every created file's name, survives power loss; what Durable::No acknowledged survives kill -9.
// A file is readable and writable by its owner alone. After an error of append() some of the bytes may be in the file: cut() takes them out. Names
// are one path component. Errors: Unavailable/NoRoom (the disk is full, or the quota; what was acknowledged before is untouched),
// Unavailable/CannotWrite (also of what was acknowledged with Durable::No some may be gone), Unavailable/CannotRead, NotFound/NoSuchFile; each
// message has the path. O(bytes) a call, the rest O(1), list() O(files log files). Adapters: src/files; the fake: testing/fake_log_folder.h. Thread
// rule: one thread; calls wait for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace coterie {

enum class Durable : std::uint8_t { No, Yes };

class LogFolder {
 public:
  struct File {
    std::string name;
    std::uint64_t size{0};
  };
  virtual ~LogFolder() = default;
  [[nodiscard]] virtual Result<std::vector<File>> list() const = 0;  // regular files, by name
  // At most `most` bytes from `from` on; fewer only at the end of the file.
  [[nodiscard]] virtual Result<std::string> read(const std::string& name, std::uint64_t from, std::size_t most) const = 0;
  // A new and empty file; one of that name is CannotWrite.
  [[nodiscard]] virtual Status create(const std::string& name) = 0;
  [[nodiscard]] virtual Status append(const std::string& name, std::string_view bytes, Durable durable) = 0;
  // Shortens a file, durably.
  [[nodiscard]] virtual Status cut(const std::string& name, std::uint64_t size) = 0;
  [[nodiscard]] virtual Status remove(const std::string& name) = 0;
};

}  // namespace coterie
