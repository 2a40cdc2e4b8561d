#include "thread_sampler.h"

#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "http/asio_loop.h"
#include "linux/files.h"

namespace coterie::elastic {

namespace {

constexpr long kPeriodNanos = 800'000;

// The CPU of a thread that is running or runnable; -1: it is not.
int cpuIfRunning(int fd) {
  std::array<char, 1024> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size() - 1, 0);
  if (length <= 0) return -1;
  const char* field = std::strrchr(text.data(), ')');
  if (field == nullptr || std::strncmp(field, ") R", 3) != 0) return -1;
  ++field;                                       // before field 3
  for (int number = 3; number < 39; ++number) {  // to the blank before field 39
    field = std::strchr(field + 1, ' ');
    if (field == nullptr) return -1;
  }
  return std::atoi(field);
}

}  // namespace

Result<std::unique_ptr<ThreadSampler>> ThreadSampler::start(int pid, const std::vector<int>& ownLanes, std::size_t room) {
  std::unique_ptr<ThreadSampler> sampler(new ThreadSampler);
  for (const int tid : linux::threadsOf(pid)) {
    UniqueFd stat(::open(("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
    const bool own = std::find(ownLanes.begin(), ownLanes.end(), tid) != ownLanes.end();
    if (stat.valid()) sampler->watched_.push_back({std::move(stat), own ? ThreadKind::OwnLane : ThreadKind::Other});
  }
  if (sampler->watched_.empty()) return Error{Code::Unavailable, "NoThreads", "process " + std::to_string(pid) + " has no threads to look at"};
  sampler->samples_.reserve(room);
  sampler->gaps_.reserve(room);
  sampler->thread_ = std::thread([raw = sampler.get()] { raw->work(); });
  return sampler;
}

void ThreadSampler::stop() {
  stopping_.store(true);
  if (thread_.joinable()) thread_.join();
}

void ThreadSampler::work() {
  sched_param priority{};
  priority.sched_priority = 1;
  realtime_.store(::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0);
  timespec next{};
  ::clock_gettime(CLOCK_MONOTONIC, &next);
  std::int64_t last = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    look();
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t nanos = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    if (last != 0 && gaps_.size() < gaps_.capacity()) gaps_.push_back(static_cast<double>(nanos - last) / 1e6);
    last = nanos;
    const std::int64_t due = std::max(std::int64_t{next.tv_sec} * 1'000'000'000 + next.tv_nsec + kPeriodNanos, nanos + kPeriodNanos / 4);
    next = {due / 1'000'000'000, due % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
  }
}

void ThreadSampler::look() {
  const http::SystemClock clock;
  for (const Watched& thread : watched_) {
    const int cpu = cpuIfRunning(thread.stat.get());
    if (cpu < 0 || samples_.size() == samples_.capacity()) continue;
    samples_.push_back({clock.now(), thread.kind, static_cast<std::int16_t>(cpu)});
  }
}

}  // namespace coterie::elastic
