#include "files/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "files/quiet_thread.h"

namespace coterie::files {

namespace {
constexpr std::size_t kWorthWaking = 64 * 1024;
constexpr std::chrono::milliseconds kLatest{200};
}  // namespace

Result<std::unique_ptr<AppendFile>> AppendFile::create(const std::string& path, Options options) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_APPEND, 0600));
  if (!file && errno == EEXIST) return Error{Code::Conflict, "FileExists", path + " is there already; remove it, or name another file"};
  if (!file) return Error{Code::Unavailable, "NotWritable", path + " cannot be written: " + std::strerror(errno)};
  return std::unique_ptr<AppendFile>(new AppendFile(path, std::move(file), std::move(options)));
}

AppendFile::AppendFile(std::string path, UniqueFd file, Options options)
    : path_(std::move(path)), file_(std::move(file)), options_(std::move(options)) {
  thread_ = quietThread("append-file", [this] { write(); });
}

AppendFile::~AppendFile() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void AppendFile::append(std::string_view bytes) {
  if (over_.load(std::memory_order_relaxed)) return;
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (taken_ + size > options_.limit.value) return end("has reached its limit of " + std::to_string(options_.limit.value) + " bytes");
  bool full = false;
  bool worth = false;
  {
    const std::lock_guard lock(mutex_);
    full = static_cast<std::int64_t>(buffer_.size()) + size > options_.buffer.value;
    if (!full) {
      worth = buffer_.size() < kWorthWaking && buffer_.size() + bytes.size() >= kWorthWaking;
      buffer_ += bytes;
    }
  }
  if (full) return end("cannot be written as fast as it grows");
  taken_ += size;
  if (worth) wake_.notify_one();
}

void AppendFile::write() {
  std::string mine;
  for (bool last = false; !last;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kLatest, [this] { return closing_ || buffer_.size() >= kWorthWaking; });
      last = closing_;
      mine.swap(buffer_);
    }
    if (!mine.empty() && !writeAll(mine)) return;
    mine.clear();
  }
}

bool AppendFile::writeAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      end(std::string("cannot be written: ") + std::strerror(errno));
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void AppendFile::end(const std::string& why) {
  if (!over_.exchange(true) && options_.ended) options_.ended(path_ + " " + why + ": nothing more is written to it");
}

}  // namespace coterie::files
