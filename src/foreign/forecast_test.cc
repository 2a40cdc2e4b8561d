// What threads' times say, and what is foretold from them; the measured figures of the design note are the table.
#include "foreign/forecast.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <vector>

namespace coterie::foreign {
namespace {

using namespace std::chrono_literals;

Use using_(std::int64_t used, std::int64_t wanted) { return {1s, MilliCpu(used), MilliCpu(wanted), 8, 4}; }

TEST(UseMeterTest, AddsUpRunAndWaitOfThreads) {
  UseMeter meter(10s);
  const Instant start{5s};
  meter.look(start, {{1, 100s, 7s}, {2, 3s, 0s}});
  EXPECT_FALSE(meter.use().known()) << "one look says nothing";
  meter.look(start + 1s, {{1, 100s + 500ms, 7s + 500ms}, {2, 3s + 250ms, 0s}});
  EXPECT_EQ(meter.use().used, MilliCpu(750));
  EXPECT_EQ(meter.use().wanted, MilliCpu(1250));
  EXPECT_EQ(meter.use().threads, 2);
  EXPECT_EQ(meter.use().busyThreads, 2);
  meter.look(start + 2s, {{1, 101s + 500ms, 7s + 500ms}, {2, 3s + 250ms, 0s}});
  EXPECT_EQ(meter.last().used, MilliCpu(1000));
  EXPECT_EQ(meter.last().busyThreads, 1);
  EXPECT_EQ(meter.use().used, MilliCpu(875)) << "of both intervals";
  EXPECT_EQ(meter.use().span, 2s);
}

TEST(UseMeterTest, NewThreadsCountFromTheirBirthAndEndedOnesAreGone) {
  UseMeter meter(10s);
  meter.look(Instant{1s}, {{1, 9s, 0s}});
  meter.look(Instant{2s}, {{1, 9s, 0s}, {2, 400ms, 100ms}});
  EXPECT_EQ(meter.last().used, MilliCpu(400));
  EXPECT_EQ(meter.last().wanted, MilliCpu(500));
  meter.look(Instant{3s}, {{2, 400ms, 100ms}});
  EXPECT_EQ(meter.last().used, MilliCpu(0));
  meter.look(Instant{4s}, {{2, 0s, 0s}});
  EXPECT_EQ(meter.last().used, MilliCpu(0)) << "a reused id never counts below nothing";
}

TEST(UseMeterTest, ForgetsWhatIsOlderThanItsWindow) {
  UseMeter meter(3s);
  Nanos run{};
  for (int second = 0; second <= 10; ++second) {
    meter.look(Instant{Seconds(second + 1)}, {{1, run, 0s}});
    run += second < 5 ? 1s : 0s;
  }
  EXPECT_EQ(meter.use().used, MilliCpu(0));
  EXPECT_EQ(meter.use().span, 3s);
}

TEST(UseMeterTest, TimeThatStandsStillIsNoInterval) {
  UseMeter meter(3s);
  meter.look(Instant{1s}, {{1, 0s, 0s}});
  meter.look(Instant{1s}, {{1, 1s, 0s}});
  EXPECT_FALSE(meter.use().known());
}

TEST(ForeignDemand, DoublesAtTheLimitElseAFifthMore) {
  struct Case {
    const char* name;
    Use use;
    std::int64_t granted, demand;
  };
  const std::vector<Case> cases = {{"idle", using_(0, 0), 1000, 0},
                                   {"half used", using_(500, 500), 1000, 600},
                                   {"exactly nine tenths", using_(900, 900), 1000, 1080},
                                   {"more than nine tenths", using_(901, 901), 1000, 1802},
                                   {"waits a tenth of the time", using_(500, 600), 1000, 600},
                                   {"waits more", using_(500, 601), 1000, 1000},
                                   {"nothing was granted", using_(300, 300), 0, 600}};
  for (const Case& one : cases) EXPECT_EQ(foreignDemand(one.use, MilliCpu(one.granted)).value, one.demand) << one.name;
}

// One container, that may run on so many CPUs now, and is to own so much of so many.
Placement on(double cpusNow, std::int64_t owned, double cpusThen, double threads, double outside = 0) {
  return {MilliCpu(owned), 1, cpusNow, cpusThen, threads, outside};
}
Placement alone(double cpusNow = 2) { return on(cpusNow, 1000, 1, 1); }  // on a CPU of its own

// What was delivered where servers of ONNX Runtime, each saturated, ran on two CPUs; geometric means over the servers.
TEST(ForecastTest, WhatWasMeasured) {
  struct Row {
    const char* name;
    std::int64_t used, wanted;  // of each
    std::vector<Placement> servers;
    double sets, hint;  // delivered; 0: was not measured
    double tolerance;
  };
  const std::vector<Placement> three{alone(), on(2, 500, 1, 1), on(2, 500, 1, 1)};  // one has a CPU, two share one
  std::vector<Placement> beside = three;
  for (Placement& one : beside) one.outside = 0.9;
  const std::vector<Row> rows = {
      {"two servers of two threads: three pairs of models, 1.74, 1.32, 1.58", 1000, 2000, {alone(), alone()}, 0, 1.54, 0.15},
      {"two servers of four threads: 4.0, 2.6, 2.9", 1000, 4000, {alone(), alone()}, 0, 3.11, 0.15},
      {"two servers of two threads that do not spin and are seldom two at once: 1.17, 1.11, 1.03", 1000, 1150, {alone(), alone()}, 0, 1.10, 0.15},
      {"three servers of two threads (docs/figures.md)", 667, 2000, three, 0.868, 1.834, 0.15},
      {"the same beside a compiler of low priority", 510, 2000, beside, 0, 1.61, 0.15},
  };
  for (const Row& row : rows) {
    std::vector<Forecast> forecasts;
    for (const Placement& one : row.servers) forecasts.push_back(forecast(using_(row.used, row.wanted), one));
    const Forecast all = overall(forecasts);
    if (row.sets > 0) {
      EXPECT_NEAR(all.sets.likely / row.sets, 1, row.tolerance) << row.name;
    }
    EXPECT_NEAR(all.withHint.likely / row.hint, 1, row.tolerance) << row.name;
    EXPECT_LE(all.withHint.low, row.hint) << row.name;
    EXPECT_GE(all.withHint.high, row.hint) << row.name;
  }
}

TEST(ForecastTest, OfATeamTheCarrierAlwaysWorksAndAHelperOnlyBesideIt) {
  // Two threads each on two CPUs: in a third of the carrier's time its helper has the other CPU, and helps by half.
  const double now = (1 + 1.0 / 3 * 0.5) / 2;
  const Forecast two = forecast(using_(1000, 2000), alone());
  EXPECT_DOUBLE_EQ(two.contentionNow, 2);
  EXPECT_DOUBLE_EQ(two.contentionWithSets, 2);
  EXPECT_DOUBLE_EQ(two.sets.likely, 0.5 / now) << "on one CPU nobody helps";
  EXPECT_DOUBLE_EQ(two.withHint.likely, 1 / now);
  // Where it may use one CPU already, nothing changes; with the hint nobody burns the half of it.
  const Forecast same = forecast(using_(1000, 2000), alone(1));
  EXPECT_DOUBLE_EQ(same.sets.low, 1);
  EXPECT_DOUBLE_EQ(same.sets.high, 1);
  EXPECT_DOUBLE_EQ(same.withHint.likely, 2);
  // On a large machine the carrier leaves the others' chances as they are.
  EXPECT_NEAR(forecast(using_(1000, 2000), alone(4096)).withHint.likely, 2 / 1.25, 1e-3);
  // A group of two such servers on twice as many CPUs is foretold the same as each of them.
  Placement both = alone();
  both.owned = MilliCpu(2000);
  both.containers = 2;
  EXPECT_DOUBLE_EQ(forecast(using_(2000, 4000), both).withHint.likely, 1 / now);
  EXPECT_DOUBLE_EQ(forecast(using_(2000, 4000), both).sets.likely, 0.5 / now);
}

TEST(ForecastTest, ChangesOfTheShareCount) {
  const Forecast grows = forecast(using_(500, 2000), on(1, 2000, 2, 2));  // alone on its CPUs from then on
  EXPECT_DOUBLE_EQ(grows.sets.low, 4);
  EXPECT_DOUBLE_EQ(grows.sets.likely, 6) << "and its helper helps by half";
  EXPECT_DOUBLE_EQ(grows.sets.high, 16);
  EXPECT_DOUBLE_EQ(grows.sets.likely, grows.withHint.likely) << "it runs no more threads than CPUs already";
  const Forecast shrinks = forecast(using_(2000, 2000), alone());
  EXPECT_DOUBLE_EQ(shrinks.sets.low, 0.25);
  EXPECT_DOUBLE_EQ(shrinks.sets.likely, 1.0 / 3);
  EXPECT_DOUBLE_EQ(shrinks.sets.high, 0.5);
  EXPECT_DOUBLE_EQ(shrinks.withHint.low, 0.5) << "two threads that did twice the work of one";
  EXPECT_DOUBLE_EQ(shrinks.withHint.likely, 2.0 / 3);
  EXPECT_DOUBLE_EQ(shrinks.withHint.high, 1) << "that did no more than one";
  const Forecast unhurt = forecast(using_(300, 300), alone());
  EXPECT_DOUBLE_EQ(unhurt.sets.likely, 1);
  EXPECT_DOUBLE_EQ(unhurt.withHint.likely, 1);
}

TEST(ForecastTest, LoadOfNoGroupIsNoGain) {
  // One thread has half a CPU, because there is one of somebody else for each CPU: on a CPU of its own there will be, too.
  const Forecast one = forecast(using_(500, 1000), on(1, 1000, 1, 1, 1));
  EXPECT_DOUBLE_EQ(one.sets.likely, 1);
  EXPECT_DOUBLE_EQ(one.withHint.likely, 1);
  EXPECT_DOUBLE_EQ(forecast(using_(500, 1000), alone(1)).withHint.low, 2) << "what it would be without";
  // Four threads get four fifths of a CPU beside one of somebody else; a single one gets half: then the hint may cost.
  const Forecast four = forecast(using_(800, 4000), on(1, 1000, 1, 1, 1));
  EXPECT_DOUBLE_EQ(four.sets.low, 1);
  EXPECT_DOUBLE_EQ(four.withHint.low, 0.625);
  EXPECT_DOUBLE_EQ(four.withHint.likely, 4) << "they keep to their fifth, as cgroups and sessions do";
  // A member of the pool has its part of what is left, though it runs one thread.
  const Forecast member = forecast(using_(250, 1000), on(1, 500, 1, 1, 2));
  EXPECT_DOUBLE_EQ(member.withHint.likely, 1);
  EXPECT_DOUBLE_EQ(member.withHint.low, 1) << "on half a CPU beside two threads for each one: a quarter";
}

TEST(ForecastTest, OfWhatDoesNotWorkNothingIsSaid) {
  EXPECT_FALSE(forecast({}, alone()).known);
  EXPECT_FALSE(forecast(using_(19, 40), alone()).known);
  EXPECT_FALSE(forecast(using_(1000, 1000), on(2, 0, 0, 0)).known);
}

TEST(ForecastTest, TheLikelyValueLiesWithinTheInterval) {
  for (std::int64_t used = 50; used <= 4000; used += 350) {
    for (std::int64_t wanted = used; wanted <= 16000; wanted += 900) {
      for (std::int64_t owned = 250; owned <= 8000; owned += 750) {
        const double cpus = std::ceil(static_cast<double>(owned) / 1000);
        const double threads = std::max(1.0, std::floor(static_cast<double>(owned) / 1000));
        for (const double cpusNow : {1.0, 2.0, 16.0}) {
          const Forecast one = forecast(using_(used, wanted), on(cpusNow, owned, cpus, threads));
          for (const Gain& gain : {one.sets, one.withHint}) {
            EXPECT_LE(gain.low, gain.likely * 1.000001);
            EXPECT_LE(gain.likely, gain.high * 1.000001);
          }
        }
        const Forecast whole = forecast(using_(used, wanted), on(8, 1000 * static_cast<std::int64_t>(cpus), cpus, cpus));
        EXPECT_LE(whole.sets.likely, whole.withHint.likely * 1.000001) << "alone on whole CPUs the hint never costs";
      }
    }
  }
}

TEST(ForecastTest, OverallIsTheGeometricMeanOfThoseAtWork) {
  const Forecast one = forecast(using_(500, 2000), alone());
  const Forecast other = forecast(using_(1000, 1000), alone());
  const Forecast all = overall({one, {}, other});
  EXPECT_TRUE(all.known);
  EXPECT_NEAR(all.withHint.likely, std::sqrt(one.withHint.likely * other.withHint.likely), 1e-9);
  EXPECT_FALSE(overall({{}, {}}).known);
}

}  // namespace
}  // namespace coterie::foreign
