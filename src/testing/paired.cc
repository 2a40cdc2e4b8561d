#include "testing/paired.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coterie::testing {

double studentT(double confidence, std::size_t degreesOfFreedom) {
  const double p = 1 - confidence;  // both tails together
  const double n = static_cast<double>(std::max<std::size_t>(degreesOfFreedom, 1));
  if (degreesOfFreedom <= 1) return 1 / std::tan(p * std::numbers::pi / 2);
  if (degreesOfFreedom == 2) return std::sqrt(2 / (p * (2 - p)) - 2);
  const double a = 1 / (n - 0.5);
  const double b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  const double d = ((94.5 / (b + c) - 3) / b + 1) * std::sqrt(a * std::numbers::pi / 2) * n;
  double y = std::pow(d * p, 2 / n);
  if (y > 0.05 + a) {
    // The normal quantile by bisection: this branch is rare and needs no speed.
    double low = 0, high = 40;
    for (int i = 0; i < 100; ++i) {
      const double middle = (low + high) / 2;
      (std::erfc(middle / std::numbers::sqrt2) > p ? low : high) = middle;
    }
    const double x = -low;
    y = x * x;
    if (degreesOfFreedom < 5) c += 0.3 * (n - 4.5) * (x + 0.6);
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x;
    y = std::expm1(a * y * y);
  } else {
    y = ((1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1) * (n + 1) / (n + 2) + 1 / y;
  }
  return std::sqrt(n * y);
}

Ratio pairedRatio(std::span<const double> logRatios, double confidence) {
  Ratio ratio;
  ratio.blocks = logRatios.size();
  if (logRatios.empty()) return ratio;
  double mean = 0;
  for (const double x : logRatios) mean += x / static_cast<double>(logRatios.size());
  ratio.value = ratio.low = ratio.high = std::exp(mean);
  if (logRatios.size() < 2) {
    ratio.low = 0;
    ratio.high = HUGE_VAL;
    return ratio;
  }
  double squares = 0;
  for (const double x : logRatios) squares += (x - mean) * (x - mean);
  const double n = static_cast<double>(logRatios.size());
  const double half = studentT(confidence, logRatios.size() - 1) * std::sqrt(squares / (n - 1) / n);
  ratio.low = std::exp(mean - half);
  ratio.high = std::exp(mean + half);
  return ratio;
}

}  // namespace coterie::testing
