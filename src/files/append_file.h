// A file that grows by what a loop hands over, written by a thread of its own: the loop never waits for the disk.
//
// append() takes all of it or ends the file for good: what follows a gap would be read wrongly. It ends when the limit is reached, when the disk
// takes nothing more (full, gone), or when it is so slow that the buffer is full; `ended` hears why, once, on whichever thread noticed. What was
// taken is on its way to the file within a fifth of a second, and is there when this is destroyed. A new file of mode 0600; one that is there is
// refused. Errors of create(): Conflict/FileExists, Unavailable/NotWritable, with the path. Thread rule: append() from one thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"

namespace coterie::files {

class AppendFile {
 public:
  struct Options {
    Bytes limit{std::int64_t{1} << 30};    // of the file
    Bytes buffer{std::int64_t{16} << 20};  // taken and not yet written
    std::function<void(const std::string& why)> ended;
  };
  [[nodiscard]] static Result<std::unique_ptr<AppendFile>> create(const std::string& path, Options options);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view bytes);

 private:
  AppendFile(std::string path, UniqueFd file, Options options);
  void write();
  [[nodiscard]] bool writeAll(std::string_view bytes);
  void end(const std::string& why);

  std::string path_;
  UniqueFd file_;
  Options options_;
  std::int64_t taken_{0};  // append()'s
  std::atomic<bool> over_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::string buffer_;
  bool closing_{false};
  std::thread thread_;
};

}  // namespace coterie::files
