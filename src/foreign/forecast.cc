#include "foreign/forecast.h"

#include <algorithm>
#include <cmath>

namespace coterie::foreign {

namespace {

constexpr double kHelps = 0.5;
constexpr MilliCpu kAtWork{20};  // less than a fiftieth of a CPU is nothing to judge by

// A server's threads, and how many such threads there are for each CPU of so many.
struct Team {
  double threads{1};
  double contention{1};
  double cpus{1};
};

// The part of its CPU time that does work, if the helpers' counts so much.
double working(const Team& team, double helps) {
  const double threads = std::max(1.0, team.threads);
  const double others = team.cpus * std::max(1.0, team.contention) - 1;
  const double beside = others > 0 ? std::clamp((team.cpus - 1) / others, 0.0, 1.0) : 0.0;
  return (1 + (threads - 1) * beside * helps) / threads;
}

// CPU time afterwards per now: if those of no group keep theirs, and if each of their threads takes a thread's part.
struct Shares {
  double kept, byThread;
};

// relief: contention now per afterwards.
Gain gainOf(const Shares& shares, double relief, const Team& now, const Team& then) {
  const auto ratio = [&](double helps) { return working(then, helps) / working(now, helps); };
  const auto [low, high] = std::minmax({1.0, relief, ratio(0), ratio(1)});
  return {std::min(shares.kept, shares.byThread) * low, shares.kept * ratio(kHelps), std::max(shares.kept, shares.byThread) * high};
}

void fold(Gain& into, const Gain& one) {
  into.low += std::log(one.low);
  into.likely += std::log(one.likely);
  into.high += std::log(one.high);
}

Gain meanOf(const Gain& logs, double count) { return {std::exp(logs.low / count), std::exp(logs.likely / count), std::exp(logs.high / count)}; }

}  // namespace

Forecast forecast(const Use& use, const Placement& placement) {
  Forecast result;
  if (!use.known() || use.used < kAtWork || placement.owned.value <= 0 || placement.containers <= 0) return result;
  const auto used = static_cast<double>(use.used.value) / 1000 / placement.containers;
  const auto wanted = std::max(used, static_cast<double>(use.wanted.value) / 1000 / placement.containers);
  const auto has = static_cast<double>(placement.owned.value) / 1000 / placement.containers;
  result.known = true;
  result.contentionNow = wanted / used;
  const Team now{wanted, result.contentionNow, placement.cpusNow};
  const double others = std::max(0.0, placement.outside);
  const double rest = std::max(0.01, 1 - others / result.contentionNow);  // that those of no group leave of a CPU
  const double among = std::max(1.0, result.contentionNow - others);      // those others hold up a run before and after alike
  const auto gain = [&](double threads, double& contention) {
    const double kept = std::min(threads, has * rest);
    const double byThread = std::min(threads, has * threads / (threads + has * others));
    contention = std::max(1.0, threads / kept);
    return gainOf({kept / used, byThread / used}, among / std::max(1.0, threads / has), now, {threads, contention, placement.cpusThen});
  };
  double contentionWithHint = 1;
  result.sets = gain(wanted, result.contentionWithSets);
  result.withHint = gain(std::min(wanted, std::max(1.0, placement.threadsThen)), contentionWithHint);
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
