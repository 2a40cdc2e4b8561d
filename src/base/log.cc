#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <ctime>
#include <string>

#include <fmt/format.h>

namespace coterie::log {

namespace {
// The one process-wide setting: a level, chosen once by main() from a flag.
std::atomic<Level> threshold{Level::Info};

std::string_view name(Level level) {
  switch (level) {
    case Level::Debug: return "debug";
    case Level::Info: return "info ";
    case Level::Warning: return "warn ";
    case Level::Error: return "error";
  }
  return "?";
}
}  // namespace

void setLevel(Level level) { threshold.store(level, std::memory_order_relaxed); }

void write(Level level, std::string_view component, std::string_view message) {
  if (level < threshold.load(std::memory_order_relaxed)) return;
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  std::string line = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z {} {}: ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                                 utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000, name(level), component);
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace coterie::log
