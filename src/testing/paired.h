// Throughput of two subjects compared in pairs on a noisy machine.
//
// Subjects A and B run alternately in slices, ordered A B B A within a block, so that a drift that is linear over a block cancels. A block yields one
// log ratio, log(B work per second / A work per second). pairedRatio() gives the geometric mean and its 99 % interval by Student's t over the blocks
// (blocks are taken as independent). looks() are the block counts at which an interval may be read; reading it more often would narrow it by luck. t
// quantiles by bisection on the integrated density (relative error < 1e-6); meant for a handful of calls, ~4 ms each. Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace coterie::testing {

struct Ratio {
  double value{1};
  double low{0};
  double high{0};
  std::size_t blocks{0};
  // Half-width of the interval relative to the value: above .03 a comparison is inconclusive.
  [[nodiscard]] double halfWidth() const { return value > 0 ? (high - low) / 2 / value : 1; }
};

// Upper (1 + confidence) / 2 quantile of Student's t.
[[nodiscard]] double studentT(double confidence, std::size_t degreesOfFreedom);

[[nodiscard]] Ratio pairedRatio(std::span<const double> logRatios, double confidence = 0.99);

inline constexpr std::array<std::size_t, 3> kLooks{12, 24, 48};

}  // namespace coterie::testing
