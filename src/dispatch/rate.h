// Arrival rate as an exponentially weighted moving average with a time constant of 1 s, event-driven: no timer, exact to the tick (1/64 s).
//
// Each arrival adds 1/tau; between events the rate decays by 63/64 a tick: (63/64)^64 = 0.365 (e^-1 = 0.368). O(log ticks) per call. Integers.
// Pure. Thread-compatible.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "dispatch/wide.h"

namespace coterie::dispatch {

class ArrivalRate {
 public:
  void arrive(Instant now) {
    decayTo(now);
    microRps_ += 1'000'000;
  }
  [[nodiscard]] MilliRps at(Instant now) const {
    ArrivalRate copy = *this;
    copy.decayTo(now);
    return MilliRps((copy.microRps_ + 500) / 1000);
  }

 private:
  static constexpr std::int64_t kTick = 1'000'000'000 / 64;
  static constexpr std::int64_t kForgotten = std::int64_t{40} * 64;  // after 40 s nothing is left
  static constexpr std::int64_t kOne = std::int64_t{1} << 40;

  void decayTo(Instant now) {
    const std::int64_t tick = now.time_since_epoch().count() / kTick;
    std::int64_t ticks = tick - tick_;
    if (ticks <= 0) return;
    tick_ = tick;
    if (microRps_ == 0 || ticks >= kForgotten) {
      microRps_ = 0;
      return;
    }
    std::int64_t factor = kOne / 64 * 63;
    std::int64_t scale = kOne;
    for (; ticks > 0; ticks >>= 1) {
      if ((ticks & 1) != 0) scale = mulDiv(scale, factor, kOne);
      factor = mulDiv(factor, factor, kOne);
    }
    microRps_ = mulDiv(microRps_, scale, kOne);
  }

  std::int64_t tick_{0};
  std::int64_t microRps_{0};
};

}  // namespace coterie::dispatch
