#include "gateway/heavy_work.h"

#include <pthread.h>

#include <utility>

namespace coterie::gateway {

HeavyWork::~HeavyWork() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void HeavyWork::run(TenantId tenant, std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    jobs_[tenant].push_back({std::move(work), std::move(done)});
  }
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { serve(); });
    ::pthread_setname_np(thread_.native_handle(), "gateway-json");
  }
  changed_.notify_one();
}

std::optional<HeavyWork::Job> HeavyWork::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
  if (stopping_) return std::nullopt;
  auto turn = jobs_.upper_bound(last_);
  if (turn == jobs_.end()) turn = jobs_.begin();
  last_ = turn->first;
  Job job = std::move(turn->second.front());
  turn->second.pop_front();
  if (turn->second.empty()) jobs_.erase(turn);
  return job;
}

void HeavyWork::serve() {
  while (auto job = next()) {
    job->work();
    loop_.post(std::move(job->done));
  }
}

}  // namespace coterie::gateway
