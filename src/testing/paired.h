// Throughput of two subjects compared in pairs on a noisy machine.
//
// Subjects A and B run alternately in slices, ordered A B B A within a block, so that a drift that is linear over a block cancels. A block yields one
// log ratio, log(B work per second / A work per second). pairedRatio() gives the geometric mean and its 99 % interval by Student's t over the blocks
// (blocks are taken as independent). kLooks are the block counts at which an interval may be read; reading it more often would narrow it by luck.
//
// decide() ends a comparison early. By width: once the half-width is at most 3 %. How wide an interval is says nothing about which way its middle
// errs, so it stays a 99 % interval (Chow & Robbins, 1965). By bound: once the interval lies on one side of the bound; that does depend on the
// middle, so at each of the at most three looks the interval is widened to 1 - .01/3, and all of them together err at most once in a hundred
// (Bonferroni); the interval that it then reports is the widened one. t quantiles by bisection on the integrated density (relative error < 1e-6);
// meant for a handful of calls, ~0.3 ms each. Pure. Thread-compatible.
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

enum class Verdict {
  Open,          // go on
  Holds,         // the interval is above the bound, or reaches it and is narrow
  Fails,         // the interval is below the bound
  Inconclusive,  // no more blocks, and neither
};
struct Decision {
  Verdict verdict{Verdict::Open};
  Ratio ratio;
};
enum class Look { Planned, Last };  // Last: time is up

// Open, and without a ratio, unless the number of blocks is one of kLooks or the look is the last. Fewer than 4 blocks decide nothing.
[[nodiscard]] Decision decide(std::span<const double> logRatios, double bound, Look look = Look::Planned);

}  // namespace coterie::testing
