// An event loop whose clock leaves out the time in which its process was frozen.
//
// Timers are the inner loop's: one that was due during a freeze runs late once, right after it. Thread rule: as the inner loop's.
#pragma once

#include <functional>
#include <utility>

#include "ports/clock.h"
#include "shared_page.h"

namespace coterie::in_node {

class ActiveLoop final : public EventLoop {
 public:
  ActiveLoop(EventLoop& inner, const SharedPage& page) : inner_(inner), clock_(inner.clock(), page) {}
  [[nodiscard]] const Clock& clock() const override { return clock_; }
  [[nodiscard]] TimerHandle after(Nanos delay, std::function<void()> callback) override { return inner_.after(delay, std::move(callback)); }
  void post(std::function<void()> callback) override { inner_.post(std::move(callback)); }
  [[nodiscard]] TimerHandle whenReadable(int fd, std::function<void()> callback) override { return inner_.whenReadable(fd, std::move(callback)); }

 private:
  class ActiveClock final : public Clock {
   public:
    ActiveClock(const Clock& inner, const SharedPage& page) : inner_(inner), page_(page) {}
    [[nodiscard]] Instant now() const override { return inner_.now() - Nanos(page_.frozenNanos.load(std::memory_order_relaxed)); }
    [[nodiscard]] WallTime wall() const override { return inner_.wall(); }

   private:
    const Clock& inner_;
    const SharedPage& page_;
  };

  EventLoop& inner_;
  ActiveClock clock_;
};

}  // namespace coterie::in_node
