// When to start again after a failure: 1 s, doubling to 60 s; an instance that served for 10 minutes wipes the slate. Pure.
#pragma once

#include <algorithm>

#include "base/units.h"

namespace coterie::controller {

class Backoff {
 public:
  static constexpr Seconds kFirst{1};
  static constexpr Seconds kLongest{60};
  static constexpr Seconds kHealthy{600};

  // servedFor: how long the instance that ended had served. Returns the delay.
  Nanos failed(Instant now, Nanos servedFor) {
    failures_ = servedFor >= kHealthy ? 1 : failures_ + 1;
    const Nanos delay = std::min<Nanos>(Nanos(kFirst) * (1LL << std::min(failures_ - 1, 10)), kLongest);
    until_ = now + delay;
    delay_ = delay;
    return delay;
  }
  void reset() { *this = Backoff(); }
  [[nodiscard]] bool waits(Instant now) const { return failures_ > 0 && now < until_; }
  [[nodiscard]] Instant until() const { return until_; }
  [[nodiscard]] Nanos delay() const { return delay_; }
  [[nodiscard]] int failures() const { return failures_; }

 private:
  int failures_{0};
  Instant until_{};
  Nanos delay_{};
};

}  // namespace coterie::controller
