// Time that a test moves by hand, and an event loop on it: nothing runs until the test says so.
//
// ManualLoop runs posted callbacks in order and timers by (due time, order of creation), so a run is repeatable. advance(d) walks to now + d: due
// timers run at their own instant and callbacks they post run before the next timer. runUntilIdle() runs what is posted without moving time. post()
// may come from any thread; everything else from the test's thread. Descriptors are polled without waiting on each advance() and by
// pollDescriptors(). pendingTimers() says how many timers are armed, so that a test can assert that an idle component has none. Source: simulated
// time with deterministic tie-breaks, as in Envoy's and FoundationDB's tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/units.h"
#include "ports/clock.h"

namespace coterie::testing {

class ManualClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override { return now_; }
  [[nodiscard]] WallTime wall() const override { return WallTime{kWallStart + now_.time_since_epoch().count() / 1000}; }
  void set(Instant now) { now_ = now; }

 private:
  static constexpr std::int64_t kWallStart = 1'767'225'600'000'000;  // 2026-01-01T00:00:00Z
  Instant now_{Nanos{1'000'000'000}};
};

class ManualLoop final : public EventLoop {
 public:
  ManualLoop();
  ~ManualLoop() override;
  ManualLoop(const ManualLoop&) = delete;
  ManualLoop& operator=(const ManualLoop&) = delete;

  [[nodiscard]] const Clock& clock() const override { return clock_; }
  [[nodiscard]] TimerHandle after(Nanos delay, std::function<void()> callback) override;
  void post(std::function<void()> callback) override;
  [[nodiscard]] TimerHandle whenReadable(int fd, std::function<void()> callback) override;

  [[nodiscard]] Instant now() const { return clock_.now(); }
  void runUntilIdle();  // posted callbacks and those they post; timers due now
  void advance(Nanos duration);
  // One non-blocking poll of the watched descriptors, then runUntilIdle(); with a timeout, waits up to it for the first one. True if any was
  // readable.
  bool pollDescriptors(Millis timeout = Millis{0});
  [[nodiscard]] std::size_t pendingTimers() const;
  [[nodiscard]] std::size_t callbacksRun() const { return callbacksRun_; }

 private:
  struct State;
  bool runOnePosted();
  bool runOneTimer(Instant until);

  ManualClock clock_;
  std::shared_ptr<State> state_;  // shared with handles, which may outlive the loop
  std::mutex postedMutex_;
  std::deque<std::function<void()>> posted_;
  std::size_t callbacksRun_{0};
};

}  // namespace coterie::testing
