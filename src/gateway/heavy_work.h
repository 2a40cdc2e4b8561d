// Work too long for the event loop, done on one thread beside it: reading and writing large JSON, unpacking compressed bodies.
//
// Why: a tenant's 10 MB of JSON takes tens of milliseconds, which every other tenant's request would wait. Jobs of one tenant run in order; tenants
// take turns, so a flood of large bodies delays the flooder's own. `work` runs on the helper thread and may touch only what the caller keeps alive
// and leaves alone meanwhile; `done` runs afterwards on the loop. All else (also destroying both closures' captures that `done` owns) happens on the
// loop's thread. The destructor waits for the job that runs and drops the others without calling them. Thread rule: run() and destruction on the
// loop's thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "model/ids.h"
#include "ports/clock.h"

namespace coterie::gateway {

class HeavyWork {
 public:
  explicit HeavyWork(EventLoop& loop) : loop_(loop) {}
  ~HeavyWork();
  HeavyWork(const HeavyWork&) = delete;
  HeavyWork& operator=(const HeavyWork&) = delete;

  // Starts the thread at the first call, so that a gateway without large bodies has none.
  void run(TenantId tenant, std::function<void()> work, std::function<void()> done);

 private:
  struct Job {
    std::function<void()> work;
    std::function<void()> done;
  };
  void serve();
  [[nodiscard]] std::optional<Job> next();  // waits; nothing: stop

  EventLoop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<TenantId, std::deque<Job>> jobs_;  // no empty queues
  TenantId last_;                             // whose job ran last
  bool stopping_{false};
  std::thread thread_;
};

}  // namespace coterie::gateway
