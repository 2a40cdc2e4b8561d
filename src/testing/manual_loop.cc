#include "testing/manual_loop.h"

#include <poll.h>

#include <algorithm>
#include <vector>

namespace coterie::testing {

struct ManualLoop::State {
  using TimerKey = std::pair<Instant, std::uint64_t>;
  std::map<TimerKey, std::function<void()>> timers;
  std::map<std::uint64_t, std::pair<int, std::function<void()>>> descriptors;
  std::uint64_t nextId{1};
};

ManualLoop::ManualLoop() : state_(std::make_shared<State>()) {}
ManualLoop::~ManualLoop() = default;

TimerHandle ManualLoop::after(Nanos delay, std::function<void()> callback) {
  const State::TimerKey key{clock_.now() + std::max(delay, Nanos{0}), state_->nextId++};
  state_->timers.emplace(key, std::move(callback));
  return TimerHandle([weak = std::weak_ptr<State>(state_), key] {
    if (const auto state = weak.lock()) state->timers.erase(key);
  });
}

void ManualLoop::post(std::function<void()> callback) {
  const std::lock_guard lock(postedMutex_);
  posted_.push_back(std::move(callback));
}

TimerHandle ManualLoop::whenReadable(int fd, std::function<void()> callback) {
  const std::uint64_t id = state_->nextId++;
  state_->descriptors.emplace(id, std::make_pair(fd, std::move(callback)));
  return TimerHandle([weak = std::weak_ptr<State>(state_), id] {
    if (const auto state = weak.lock()) state->descriptors.erase(id);
  });
}

bool ManualLoop::runOnePosted() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(postedMutex_);
    if (posted_.empty()) return false;
    callback = std::move(posted_.front());
    posted_.pop_front();
  }
  ++callbacksRun_;
  callback();
  return true;
}

bool ManualLoop::runOneTimer(Instant until) {
  const auto first = state_->timers.begin();
  if (first == state_->timers.end() || first->first.first > until) return false;
  clock_.set(std::max(clock_.now(), first->first.first));
  const auto callback = std::move(first->second);
  state_->timers.erase(first);
  ++callbacksRun_;
  callback();
  return true;
}

void ManualLoop::runUntilIdle() {
  while (runOnePosted() || runOneTimer(clock_.now())) {
  }
}

void ManualLoop::advance(Nanos duration) {
  const Instant end = clock_.now() + duration;
  pollDescriptors();
  while (runOnePosted() || runOneTimer(end)) {
  }
  clock_.set(end);
  pollDescriptors();
}

bool ManualLoop::pollDescriptors(Millis timeout) {
  std::vector<pollfd> polled;
  std::vector<std::uint64_t> ids;
  for (const auto& [id, entry] : state_->descriptors) {
    polled.push_back(pollfd{entry.first, POLLIN, 0});
    ids.push_back(id);
  }
  const bool any = !polled.empty() && ::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) > 0;
  for (std::size_t i = 0; any && i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    const auto found = state_->descriptors.find(ids[i]);
    if (found == state_->descriptors.end()) continue;  // reset by an earlier callback
    const auto callback = found->second.second;        // a copy: it may reset its own handle
    ++callbacksRun_;
    callback();
  }
  runUntilIdle();
  return any;
}

std::size_t ManualLoop::pendingTimers() const { return state_->timers.size(); }

}  // namespace coterie::testing
