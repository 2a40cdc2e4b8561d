// Time as components see it. now() is monotonic and never goes back; wall() is for timestamps that people read and may jump. Timers run callbacks on
// the component's own event loop. Real adapter: src/http (Asio loop); fake: ManualClock below, which tests step by hand. Thread rule: all calls from
// the loop's thread; post() from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/units.h"

namespace coterie {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() const = 0;
  [[nodiscard]] virtual WallTime wall() const = 0;
};

// Cancelled when destroyed. Movable.
class TimerHandle {
 public:
  TimerHandle() = default;
  explicit TimerHandle(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
  TimerHandle(TimerHandle&& other) noexcept : cancel_(std::exchange(other.cancel_, nullptr)) {}
  TimerHandle& operator=(TimerHandle&& other) noexcept {
    if (this != &other) {
      reset();
      cancel_ = std::exchange(other.cancel_, nullptr);
    }
    return *this;
  }
  ~TimerHandle() { reset(); }
  void reset() {
    if (auto cancel = std::exchange(cancel_, nullptr)) cancel();
  }

 private:
  std::function<void()> cancel_;
};

class EventLoop {
 public:
  virtual ~EventLoop() = default;
  [[nodiscard]] virtual const Clock& clock() const = 0;
  [[nodiscard]] virtual TimerHandle after(Nanos delay, std::function<void()> callback) = 0;
  virtual void post(std::function<void()> callback) = 0;  // any thread
  // Calls back each time fd is readable (level-triggered) until the handle is reset. fd stays owned by the caller and must outlive the handle.
  [[nodiscard]] virtual TimerHandle whenReadable(int fd, std::function<void()> callback) = 0;
};

}  // namespace coterie
