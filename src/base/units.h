// Quantities whose unit is in the type, so that no naked number crosses a header. Integers only: decisions must be exact and repeatable.
// Durations are std::chrono (Micros, Nanos below); instants are Instant: nanoseconds on a monotonic clock whose zero means nothing.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace coterie {

template <typename Tag>
struct Quantity {
  std::int64_t value{0};

  constexpr Quantity() = default;
  constexpr explicit Quantity(std::int64_t v) : value(v) {}
  friend constexpr auto operator<=>(const Quantity&, const Quantity&) = default;
  constexpr Quantity& operator+=(Quantity other) { return value += other.value, *this; }
  constexpr Quantity& operator-=(Quantity other) { return value -= other.value, *this; }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, std::int64_t k) { return Quantity(a.value * k); }
};

using MilliCpu = Quantity<struct MilliCpuTag>;  // thousandths of one CPU
using MilliRps = Quantity<struct MilliRpsTag>;  // thousandths of a request per second
using Bytes = Quantity<struct BytesTag>;

using Nanos = std::chrono::nanoseconds;
using Micros = std::chrono::microseconds;
using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;

struct MonotonicEpoch {
  using duration = Nanos;
  using rep = Nanos::rep;
  using period = Nanos::period;
  using time_point = std::chrono::time_point<MonotonicEpoch, Nanos>;
  static constexpr bool is_steady = true;
};
using Instant = MonotonicEpoch::time_point;

// Wall-clock seconds since 1970, for timestamps that people read.
struct WallTime {
  std::int64_t micros{0};
  friend constexpr auto operator<=>(const WallTime&, const WallTime&) = default;
};

}  // namespace coterie
