#include "foreign/forecast.h"

#include <algorithm>
#include <cmath>

namespace coterie::foreign {

namespace {

constexpr double kLikely = 0.75;
constexpr MilliCpu kAtWork{20};  // less than a fiftieth of a CPU is nothing to judge by

Gain gainOf(double share, double relief) {
  const double at[] = {share, share * std::pow(relief, kLikely), share * relief};
  return {std::min(at[0], at[2]), at[1], std::max(at[0], at[2])};
}

void fold(Gain& into, const Gain& one) {
  into.low += std::log(one.low);
  into.likely += std::log(one.likely);
  into.high += std::log(one.high);
}

Gain meanOf(const Gain& logs, double count) { return {std::exp(logs.low / count), std::exp(logs.likely / count), std::exp(logs.high / count)}; }

}  // namespace

Forecast forecast(const Use& use, MilliCpu owned, double outside) {
  Forecast result;
  if (!use.known() || use.used < kAtWork || owned.value <= 0) return result;
  const auto used = static_cast<double>(use.used.value);
  const auto wanted = std::max(used, static_cast<double>(use.wanted.value));
  const auto has = static_cast<double>(owned.value);
  result.known = true;
  result.contentionNow = wanted / used;
  // What so many threads get of the CPUs owned, beside those of no group there.
  const double others = std::max(0.0, outside);
  const auto left = [&](double threads) { return std::min(threads, has * threads / (threads + has * others)); };
  const double among = std::max(1.0, result.contentionNow - others);
  const auto gain = [&](double threads, double& contention) {
    contention = std::max(1.0, threads / left(threads));
    return gainOf(left(threads) / used, among / std::max(1.0, threads / has));
  };
  double contentionWithHint = 1;
  result.sets = gain(wanted, result.contentionWithSets);
  result.withHint = gain(std::min(wanted, has), contentionWithHint);
  return result;
}

Forecast overall(const std::vector<Forecast>& groups) {
  Forecast sum;
  sum.contentionNow = sum.contentionWithSets = 0;
  sum.sets = sum.withHint = {0, 0, 0};
  double count = 0;
  for (const Forecast& group : groups) {
    if (!group.known) continue;
    ++count;
    sum.contentionNow += std::log(group.contentionNow);
    sum.contentionWithSets += std::log(group.contentionWithSets);
    fold(sum.sets, group.sets);
    fold(sum.withHint, group.withHint);
  }
  if (count == 0) return {};
  return {true, std::exp(sum.contentionNow / count), std::exp(sum.contentionWithSets / count), meanOf(sum.sets, count), meanOf(sum.withHint, count)};
}

}  // namespace coterie::foreign
