// Looks at a worker's threads every 0.8 ms: which are running or runnable, and on which CPU (fields 3 and 39 of /proc/PID/task/TID/stat).
//
// A thread of its own, SCHED_FIFO where allowed, else ordinary; the gaps between its looks say how good it was. The log has room for a fixed number
// of samples and is not grown. Errors: Unavailable if the process has no readable threads. Thread rule: start and stop on one thread; the log after
// stop(). Source: proc(5).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "change_log.h"

namespace coterie::elastic {

class ThreadSampler {
 public:
  // `ownLanes`: thread ids among the process's threads.
  [[nodiscard]] static Result<std::unique_ptr<ThreadSampler>> start(int pid, const std::vector<int>& ownLanes, std::size_t room);
  ~ThreadSampler() { stop(); }
  ThreadSampler(const ThreadSampler&) = delete;
  ThreadSampler& operator=(const ThreadSampler&) = delete;

  void stop();
  [[nodiscard]] const std::vector<ThreadSample>& samples() const { return samples_; }
  [[nodiscard]] const std::vector<double>& gapsMillis() const { return gaps_; }
  [[nodiscard]] bool realtime() const { return realtime_; }

 private:
  struct Watched {
    UniqueFd stat;
    ThreadKind kind{ThreadKind::Other};
  };
  ThreadSampler() = default;
  void work();
  void look();

  std::vector<Watched> watched_;
  std::vector<ThreadSample> samples_;
  std::vector<double> gaps_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> realtime_{false};
  std::thread thread_;
};

}  // namespace coterie::elastic
