// How many requests of a service may go to a second instance after the first went away: a tenth of its requests of the last ten seconds, and ten in
// any case. So a crash loop adds at most a tenth to the load of the instances that are left.
//
// A ring of ten counts, one a second; the window is ten seconds, exact to one. O(1), no allocation. Time is an argument and does not go back.
// Thread-compatible. Source: design note "dispatch", "Retry ... Budget"; the idea is Finagle's retry budget.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace coterie::gateway {

class RetryBudget {
 public:
  static constexpr std::int64_t kFloor = 10;
  static constexpr std::int64_t kRequestsPerRetry = 10;

  void request(Instant now) { ++at(now).requests; }
  // True: this one may be tried again, and is counted.
  [[nodiscard]] bool take(Instant now) {
    Second& current = at(now);
    std::int64_t requests = 0;
    std::int64_t retries = 0;
    for (const Second& second : ring_) {
      requests += second.requests;
      retries += second.retries;
    }
    if (retries >= std::max(kFloor, requests / kRequestsPerRetry)) return false;
    ++current.retries;
    return true;
  }

 private:
  struct Second {
    std::int64_t requests{0};
    std::int64_t retries{0};
  };
  Second& at(Instant now) {
    const std::int64_t second = now.time_since_epoch() / Nanos(Seconds(1));
    // What the ring has not seen since its last turn is empty.
    const std::int64_t passed = std::clamp<std::int64_t>(second - latest_, 0, static_cast<std::int64_t>(ring_.size()));
    latest_ = std::max(latest_, second);
    for (std::int64_t i = 0; i < passed; ++i) ring_[static_cast<std::size_t>(latest_ - i) % ring_.size()] = {};
    return ring_[static_cast<std::size_t>(latest_) % ring_.size()];
  }

  std::array<Second, 10> ring_{};
  std::int64_t latest_{0};
};

}  // namespace coterie::gateway
