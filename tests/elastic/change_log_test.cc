#include "change_log.h"

#include <gtest/gtest.h>

namespace coterie::elastic {
namespace {

Instant at(double ms) { return Instant{} + Seconds(10) + Nanos(static_cast<std::int64_t>(ms * 1e6)); }
CpuSet cpus(std::initializer_list<int> ids) {
  CpuSet set;
  for (const int id : ids) set.add(id);
  return set;
}

Change grow() { return {at(0), at(100), cpus({0}), cpus({0, 1})}; }
Change shrink() { return {at(0), at(100), cpus({0, 1}), cpus({0})}; }
RunSeen run(int lane, double dispatched, double answered, double cpu) {
  return {lane, at(dispatched), at(answered), Nanos(static_cast<std::int64_t>(cpu * 1e6))};
}

TEST(ChangeLog, ALaneStartsWhenItsFirstRunBeganAndTheNewCpuIsInUse) {
  ChangeLog log{{}, {{at(-1), ThreadKind::OwnLane, 1}, {at(4), ThreadKind::OwnLane, 1}}, {run(0, 0, 1, 1), run(1, 2, 6, 1)}};
  EXPECT_DOUBLE_EQ(laneStarted(log, grow()).both().value_or(-1), 5);  // by its CPU time it may have begun as late as 5
  log.runs.back().cpu = Millis(4);
  EXPECT_DOUBLE_EQ(laneStarted(log, grow()).both().value_or(-1), 4);  // the CPU was seen in use at 4
  log.samples.back().kind = ThreadKind::Other;
  EXPECT_FALSE(laneStarted(log, grow()).both());
}

TEST(ChangeLog, ARunDispatchedBeforeTheDecisionOrAnsweredAfterTheNextIsNoStart) {
  ChangeLog log{{}, {{at(1), ThreadKind::OwnLane, 1}}, {run(1, -2, 1, 1), run(1, 99, 101, 1)}};
  EXPECT_FALSE(laneStarted(log, grow()).both());
}

TEST(ChangeLog, ACpuIsLeftAtTheLastSampleOnIt) {
  ChangeLog log{
      {}, {{at(-5), ThreadKind::OwnLane, 1}, {at(2), ThreadKind::Other, 1}, {at(3), ThreadKind::OwnLane, 0}, {at(110), ThreadKind::OwnLane, 1}}, {}};
  EXPECT_DOUBLE_EQ(cpuLeft(log, shrink()), 2);
  log.samples.erase(log.samples.begin() + 1);
  EXPECT_DOUBLE_EQ(cpuLeft(log, shrink()), 0);
}

TEST(ChangeLog, TheRateFollowsAtTheEndOfTheFirstFullWindow) {
  ChangeLog log;
  for (int ms = -50; ms < 100; ++ms) {  // one a millisecond, from the decision on two
    log.runs.push_back(run(0, ms - 1, ms, 1));
    if (ms >= 0) log.runs.push_back(run(1, ms - 1, ms, 1));
  }
  EXPECT_DOUBLE_EQ(settledRate(log, grow(), Millis(50)), 2000);
  const auto followed = rateFollowed(log, grow(), {2000, Millis(20)});  // 36 in 20 ms
  ASSERT_TRUE(followed);
  EXPECT_NEAR(*followed, 15.5, 1);
  EXPECT_FALSE(rateFollowed(log, grow(), {3000, Millis(20)}));
}

TEST(ChangeLog, AHoldIsJudgedAsIfTheRateHadBeenLowerBefore) {
  ChangeLog log;
  for (int ms = -50; ms < 100; ++ms) log.runs.insert(log.runs.end(), {run(0, ms - 1, ms, 1), run(1, ms - 1, ms, 1)});
  const Change hold{at(0), at(100), cpus({0, 1}), cpus({0, 1})};
  EXPECT_NEAR(rateFollowed(log, hold, {2000, Millis(20)}).value_or(-1), 0, 1);
  EXPECT_NEAR(rateFollowed(log, hold, {2000, Millis(20), Unit::Answers, 0.5}).value_or(-1), 15.5, 1);
  log.runs.erase(log.runs.begin() + 100, log.runs.begin() + 180);  // the machine gives nothing for 40 ms
  EXPECT_NEAR(rateFollowed(log, hold, {2000, Millis(20), Unit::Answers, 0.5}).value_or(-1), 57.5, 1);
}

TEST(ChangeLog, ASlowCpuGivesFewerAnswersAndAsMuchTime) {
  ChangeLog log;
  for (int ms = -50; ms < 0; ++ms) log.runs.push_back(run(0, ms - 1, ms, 1));
  for (int ms = 0; ms < 60; ms += 2) log.runs.insert(log.runs.end(), {run(0, ms - 2, ms, 2), run(1, ms - 2, ms, 2)});
  for (int ms = 60; ms < 100; ++ms) log.runs.insert(log.runs.end(), {run(0, ms - 1, ms, 1), run(1, ms - 1, ms, 1)});
  EXPECT_NEAR(rateFollowed(log, grow(), {settledRate(log, grow(), Millis(70)), Millis(20)}).value_or(-1), 76, 2);
  EXPECT_NEAR(settledRate(log, grow(), Millis(70), Unit::CpuSeconds), 2, 0.01);
  EXPECT_NEAR(rateFollowed(log, grow(), {2, Millis(20), Unit::CpuSeconds}).value_or(-1), 16, 2);
}

}  // namespace
}  // namespace coterie::elastic
