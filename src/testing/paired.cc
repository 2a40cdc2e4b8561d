#include "testing/paired.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace coterie::testing {

namespace {
// Integral of cos^(n-1) from 0 to angle, by Simpson's rule: with x = sqrt(n) tan(u) the density of t becomes cos^(n-1)(u), up to a factor.
double cosinePower(double angle, double n) {
  constexpr int kSteps = 200;
  const double h = angle / kSteps;
  double sum = 1 + std::pow(std::cos(angle), n - 1);
  for (int i = 1; i < kSteps; ++i) sum += (i % 2 == 1 ? 4 : 2) * std::pow(std::cos(h * i), n - 1);
  return sum * h / 3;
}
}  // namespace

double studentT(double confidence, std::size_t degreesOfFreedom) {
  const double n = static_cast<double>(std::max<std::size_t>(degreesOfFreedom, 1));
  const double wanted = confidence * cosinePower(std::numbers::pi / 2, n);
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (cosinePower(middle, n) < wanted ? low : high) = middle;
  }
  return std::sqrt(n) * std::tan(low);
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

Decision decide(std::span<const double> logRatios, double bound, Look look) {
  constexpr double kNarrow = 0.03;
  constexpr double kConfidence = 0.99;
  constexpr std::size_t kFewest = 4;
  const std::size_t blocks = logRatios.size();
  const bool last = look == Look::Last || blocks >= kLooks.back();
  if (!last && std::find(kLooks.begin(), kLooks.end(), blocks) == kLooks.end()) return {};
  Decision decision{last ? Verdict::Inconclusive : Verdict::Open, pairedRatio(logRatios, kConfidence)};
  if (blocks < kFewest) return decision;
  if (decision.ratio.halfWidth() <= kNarrow) {
    decision.verdict = decision.ratio.high >= bound ? Verdict::Holds : Verdict::Fails;
    return decision;
  }
  const Ratio widened = pairedRatio(logRatios, 1 - (1 - kConfidence) / static_cast<double>(kLooks.size()));
  if (widened.low < bound && widened.high >= bound) return decision;
  return {widened.low >= bound ? Verdict::Holds : Verdict::Fails, widened};
}

}  // namespace coterie::testing
