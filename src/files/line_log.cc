#include "files/line_log.h"

#include <fcntl.h>
#include <sys/stat.h>
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

UniqueFd openLog(const std::string& path) { return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | O_NOCTTY, 0600)); }
}  // namespace

Result<std::unique_ptr<LineLog>> LineLog::create(const std::string& path, Options options) {
  UniqueFd file = openLog(path);
  if (!file) return Error{Code::Unavailable, "NotWritable", path + " cannot be written: " + std::strerror(errno)};
  if (!options.write) options.write = [](int to, std::string_view bytes) { return ::write(to, bytes.data(), bytes.size()); };
  return std::unique_ptr<LineLog>(new LineLog(path, std::move(file), std::move(options)));
}

LineLog::LineLog(std::string path, UniqueFd file, Options options) : path_(std::move(path)), options_(std::move(options)), file_(std::move(file)) {
  thread_ = quietThread("line-log", [this] { run(); });
}

LineLog::~LineLog() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LineLog::append(std::string_view line) {
  const auto size = static_cast<std::int64_t>(line.size()) + 1;
  if (held_.load(std::memory_order_relaxed) + size > options_.buffer.value) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  held_.fetch_add(size, std::memory_order_relaxed);
  bool worth = false;
  {
    const std::lock_guard lock(mutex_);
    worth = buffer_.size() < kWorthWaking && buffer_.size() + line.size() + 1 >= kWorthWaking;
    buffer_.append(line).push_back('\n');
  }
  if (worth) wake_.notify_one();
}

void LineLog::flush() {
  std::unique_lock lock(mutex_);
  const std::int64_t mine = ++looksWanted_;
  wake_.notify_one();
  looked_.wait(lock, [&] { return looksDone_ >= mine; });
}

void LineLog::run() {
  for (bool last = false; !last;) {
    std::int64_t wanted = 0;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kLatest, [this] { return closing_ || looksWanted_ > looksDone_ || buffer_.size() >= kWorthWaking; });
      last = closing_;
      wanted = looksWanted_;
      pending_ += buffer_;
      buffer_.clear();
    }
    look();
    {
      const std::lock_guard lock(mutex_);
      looksDone_ = wanted;
    }
    looked_.notify_all();
  }
}

void LineLog::look() {
  reopenIfMoved();
  std::size_t written = 0;
  const std::string trouble = writeSome(pending_, written);
  if (written > 0) {
    torn_ = pending_[written - 1] != '\n';
    pending_.erase(0, written);
    held_.fetch_sub(static_cast<std::int64_t>(written), std::memory_order_relaxed);
  }
  say(trouble);
}

// Nothing, or what kept it from writing all.
std::string LineLog::writeSome(std::string_view bytes, std::size_t& written) {
  if (!file_) return "cannot be opened";
  while (written < bytes.size()) {
    const ssize_t took = options_.write(file_.get(), bytes.substr(written));
    if (took < 0 && errno == EINTR) continue;
    if (took < 0) return std::strerror(errno);
    if (took == 0) return "takes nothing";
    written += static_cast<std::size_t>(took);
  }
  return {};
}

void LineLog::reopenIfMoved() {
  struct stat here{};
  struct stat ours{};
  const bool same =
      file_ && ::stat(path_.c_str(), &here) == 0 && ::fstat(file_.get(), &ours) == 0 && here.st_dev == ours.st_dev && here.st_ino == ours.st_ino;
  if (same) return;
  UniqueFd fresh = openLog(path_);
  if (!fresh) return;  // its folder may come back; until then the file that was moved has the lines
  file_ = std::move(fresh);
  dropTornLine();
}

// Its beginning is in the file that was moved away.
void LineLog::dropTornLine() {
  if (!std::exchange(torn_, false)) return;
  const std::size_t length = pending_.find('\n') + 1;
  pending_.erase(0, length);
  held_.fetch_sub(static_cast<std::int64_t>(length), std::memory_order_relaxed);
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

void LineLog::say(const std::string& trouble) {
  const std::int64_t lost = dropped();
  if (!troubled_ && lost > droppedSaid_) {
    troubled_ = true;
    if (options_.said)
      options_.said(path_ + (trouble.empty() ? " is not written as fast as it grows" : " cannot be written: " + trouble) + "; lines are dropped");
  }
  if (troubled_ && trouble.empty() && lost == lastLost_) {
    troubled_ = false;
    if (options_.said) options_.said(path_ + " is written again; " + std::to_string(lost - droppedSaid_) + " lines were dropped");
    droppedSaid_ = lost;
  }
  lastLost_ = lost;
}

}  // namespace coterie::files
