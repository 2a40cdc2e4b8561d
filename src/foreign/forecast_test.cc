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

TEST(ForecastTest, TheDesignNotesMeasurements) {
  // Two services on two CPUs, each saturated by so many threads that wait busily.
  const Forecast two = forecast(using_(1000, 2000), MilliCpu(1000));
  EXPECT_DOUBLE_EQ(two.contentionNow, 2);
  EXPECT_DOUBLE_EQ(two.contentionWithSets, 2);
  EXPECT_DOUBLE_EQ(two.sets.likely, 1) << "measured 1.17, within noise";
  EXPECT_NEAR(two.withHint.likely, 1.68, 0.01) << "measured 1.74, 1.32 and 1.58";
  EXPECT_LE(two.withHint.low, 1.32);
  EXPECT_GE(two.withHint.high, 1.74);
  const Forecast four = forecast(using_(1000, 4000), MilliCpu(1000));
  EXPECT_NEAR(four.withHint.likely, 2.83, 0.01) << "measured 4.0, 2.6 and 2.9";
  EXPECT_LE(four.withHint.low, 2.6);
  EXPECT_GE(four.withHint.high, 4.0);
  // Two threads that do not spin are seldom two at once.
  const Forecast calm = forecast(using_(1000, 1150), MilliCpu(1000));
  EXPECT_LE(calm.withHint.low, 1.03);
  EXPECT_NEAR(calm.withHint.likely, 1.11, 0.01) << "measured 1.17, 1.11 and 1.03";
}

TEST(ForecastTest, ChangesOfTheShareCount) {
  const Forecast grows = forecast(using_(500, 2000), MilliCpu(2000));  // alone on its CPUs from then on
  EXPECT_DOUBLE_EQ(grows.sets.low, 4);
  EXPECT_DOUBLE_EQ(grows.sets.high, 16);
  EXPECT_DOUBLE_EQ(grows.sets.likely, grows.withHint.likely) << "it runs no more threads than CPUs already";
  const Forecast shrinks = forecast(using_(2000, 2000), MilliCpu(1000));
  EXPECT_DOUBLE_EQ(shrinks.sets.low, 0.25);
  EXPECT_DOUBLE_EQ(shrinks.sets.high, 0.5);
  EXPECT_DOUBLE_EQ(shrinks.withHint.likely, 0.5);
  const Forecast unhurt = forecast(using_(300, 300), MilliCpu(1000));
  EXPECT_DOUBLE_EQ(unhurt.sets.likely, 1);
  EXPECT_DOUBLE_EQ(unhurt.withHint.likely, 1);
}

TEST(ForecastTest, LoadOfNoGroupIsNoGain) {
  // One thread has half a CPU, because there is one of somebody else for each CPU: on a CPU of its own there will be, too.
  const Forecast one = forecast(using_(500, 1000), MilliCpu(1000), 1);
  EXPECT_DOUBLE_EQ(one.sets.likely, 1);
  EXPECT_DOUBLE_EQ(one.withHint.likely, 1);
  EXPECT_DOUBLE_EQ(forecast(using_(500, 1000), MilliCpu(1000)).withHint.low, 2) << "what it would be without";
  // Four threads get four fifths of a CPU beside one of somebody else; a single one gets half: then the hint may cost.
  const Forecast four = forecast(using_(800, 4000), MilliCpu(1000), 1);
  EXPECT_DOUBLE_EQ(four.sets.low, 1);
  EXPECT_DOUBLE_EQ(four.withHint.low, 0.625);
  // Three servers of two threads that wait busily, on two CPUs beside a compiler of low priority: measured 1.61 with the hint.
  const auto together = [](MilliCpu owned) { return forecast(using_(510, 2000), owned, 0.9); };
  const Forecast mean = overall({together(MilliCpu(1000)), together(MilliCpu(500)), together(MilliCpu(500))});
  EXPECT_NEAR(mean.withHint.likely, 1.61, 0.15 * 1.61);
}

TEST(ForecastTest, OfWhatDoesNotWorkNothingIsSaid) {
  EXPECT_FALSE(forecast({}, MilliCpu(1000)).known);
  EXPECT_FALSE(forecast(using_(19, 40), MilliCpu(1000)).known);
  EXPECT_FALSE(forecast(using_(1000, 1000), MilliCpu(0)).known);
}

TEST(ForecastTest, TheLikelyValueLiesWithinTheInterval) {
  for (std::int64_t used = 50; used <= 4000; used += 350) {
    for (std::int64_t wanted = used; wanted <= 16000; wanted += 900) {
      for (std::int64_t owned = 250; owned <= 8000; owned += 750) {
        const Forecast one = forecast(using_(used, wanted), MilliCpu(owned));
        for (const Gain& gain : {one.sets, one.withHint}) {
          EXPECT_LE(gain.low, gain.likely * 1.000001);
          EXPECT_LE(gain.likely, gain.high * 1.000001);
        }
        EXPECT_LE(one.sets.likely, one.withHint.likely * 1.000001) << "alone on the machine the hint never costs";
      }
    }
  }
}

TEST(ForecastTest, OverallIsTheGeometricMeanOfThoseAtWork) {
  const Forecast one = forecast(using_(500, 2000), MilliCpu(1000));
  const Forecast other = forecast(using_(1000, 1000), MilliCpu(1000));
  const Forecast all = overall({one, {}, other});
  EXPECT_TRUE(all.known);
  EXPECT_NEAR(all.withHint.likely, std::sqrt(one.withHint.likely * other.withHint.likely), 1e-9);
  EXPECT_FALSE(overall({{}, {}}).known);
}

}  // namespace
}  // namespace coterie::foreign
