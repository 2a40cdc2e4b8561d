// The event loop of real components: one thread runs it, sockets, timers and posted work call back on that thread. Boost.Asio underneath (epoll).
//
// Real time lives here: clock().now() is CLOCK_MONOTONIC, clock().wall() the system clock. Cost: post and after allocate once; whenReadable keeps one
// epoll registration. Callbacks must not throw. Thread rule: run() on one thread; post() and stop() from any thread; everything else on the loop's
// thread, or before run().
#pragma once

#include <functional>
#include <memory>

#include "base/units.h"
#include "ports/clock.h"

namespace coterie::http {

// The same real clock, for code without a loop.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] Instant now() const override;
  [[nodiscard]] WallTime wall() const override;
};

class AsioLoop final : public EventLoop {
 public:
  AsioLoop();
  ~AsioLoop() override;
  AsioLoop(const AsioLoop&) = delete;
  AsioLoop& operator=(const AsioLoop&) = delete;

  // Runs callbacks until stop(); waits also while there is nothing to do. May be called again afterwards.
  void run();
  // Runs what is ready now without waiting; returns how many callbacks ran.
  std::size_t poll();
  // Runs until `done` returns true (asked after each callback) or `limit` has passed; returns done().
  bool runUntil(const std::function<bool()>& done, Nanos limit);
  void stop();

  [[nodiscard]] const Clock& clock() const override { return clock_; }
  [[nodiscard]] TimerHandle after(Nanos delay, std::function<void()> callback) override;
  void post(std::function<void()> callback) override;
  [[nodiscard]] TimerHandle whenReadable(int fd, std::function<void()> callback) override;

  struct Impl;  // asio_loop_impl.h, for this folder's sources
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  SystemClock clock_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie::http
