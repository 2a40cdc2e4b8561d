// What is read when, and what is told of it.
#include "node_agent/container_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>

#include "testing/fake_container_meter.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

struct WatchRig {
  testing::FakeContainerMeter meter;
  ContainerWatch watch{meter, ContainerWatch::Sets::Read};
  Instant now{1s};
  std::vector<InstanceId> throttled, pressed;

  void open(int id) {
    static_cast<void>(meter.cgroup("/c" + std::to_string(id)));
    watch.open(InstanceId(id), 100 + id, "/c" + std::to_string(id), now);
  }
  testing::FakeContainerMeter::Figures& figures(int id) { return meter.cgroup("/c" + std::to_string(id)); }
  // Looks every 100 ms; each tenth of a second the container runs so long.
  void live(Millis time, int id, Millis ran, const std::set<InstanceId>& closely = {}) {
    for (const Instant end = now + time; now < end; now += 100ms) {
      figures(id).cpu.used += ran;
      const auto events = watch.look(now, closely);
      throttled.insert(throttled.end(), events.throttled.begin(), events.throttled.end());
      pressed.insert(pressed.end(), events.pressed.begin(), events.pressed.end());
    }
  }
};

TEST(ContainerWatchTest, WhoRunsIsReadEachTenthOfASecondAndWhoRestsEachSecond) {
  WatchRig rig;
  rig.open(1);
  rig.live(10s, 1, 50ms);
  EXPECT_GE(rig.meter.cpuReadings, 98);
  rig.meter.cpuReadings = 0;
  rig.live(1s, 1, 0ms);
  rig.meter.cpuReadings = 0;
  rig.live(20s, 1, 0ms);
  EXPECT_LE(rig.meter.cpuReadings, 21);
  rig.meter.cpuReadings = 0;
  rig.live(2s, 1, 50ms);
  EXPECT_GE(rig.meter.cpuReadings, 10) << "who wakes is noticed within a second";
}

// Version 1 with cpu and without cpuacct: throttling is counted, CPU time is not, so it is looked for among the threads.
TEST(ContainerWatchTest, ThrottlingIsNoticedWhereCpuTimeIsNotCounted) {
  WatchRig rig;
  rig.open(1);
  rig.figures(1).cpu.timed = false;
  rig.live(5s, 1, 0ms);
  EXPECT_EQ(rig.watch.takeRan(InstanceId(1)), std::nullopt) << "nobody knows that it rested";
  EXPECT_TRUE(rig.throttled.empty());
  rig.figures(1).cpu.throttledPeriods += 3;
  rig.live(200ms, 1, 0ms);
  EXPECT_EQ(rig.throttled, std::vector<InstanceId>{InstanceId(1)});
  EXPECT_EQ(rig.watch.seen(InstanceId(1))->throttledLately, 3);
}

TEST(ContainerWatchTest, WhoIsWatchedCloselyIsReadOftenAlsoAtRest) {
  WatchRig rig;
  rig.open(1);
  rig.live(5s, 1, 0ms);
  rig.meter.cpuReadings = 0;
  rig.live(5s, 1, 0ms, {InstanceId(1)});
  EXPECT_GE(rig.meter.cpuReadings, 48);
}

TEST(ContainerWatchTest, SlowFiguresAreReadSeldom) {
  WatchRig rig;
  rig.open(1);
  rig.live(60s, 1, 50ms);
  EXPECT_GE(rig.meter.pressureReadings, 54);
  EXPECT_LE(rig.meter.pressureReadings, 61);
  EXPECT_LE(rig.meter.memoryReadings, 13);
  EXPECT_GE(rig.meter.memoryReadings, 11);
  EXPECT_LE(rig.meter.nodeReadings, 2);
  rig.live(3s, 1, 0ms);
  rig.meter.pressureReadings = 0;
  rig.live(40s, 1, 0ms);
  EXPECT_LE(rig.meter.pressureReadings, 11);
}

TEST(ContainerWatchTest, ThrottlingIsToldWhenItHappensAndForgottenAfterTenSeconds) {
  WatchRig rig;
  rig.open(1);
  rig.figures(1).cpu.throttledPeriods = 40;  // before anybody looked
  rig.live(1s, 1, 20ms);
  EXPECT_TRUE(rig.throttled.empty());
  rig.figures(1).cpu.throttledPeriods += 3;
  rig.live(1s, 1, 20ms);
  EXPECT_EQ(rig.throttled, std::vector<InstanceId>{InstanceId(1)});
  EXPECT_EQ(rig.watch.seen(InstanceId(1))->throttledLately, 3);
  rig.live(11s, 1, 20ms);
  EXPECT_EQ(rig.watch.seen(InstanceId(1))->throttledLately, 0);
}

TEST(ContainerWatchTest, PressureIsToldOnceEachTime) {
  WatchRig rig;
  rig.open(1);
  rig.figures(1).pressure->somePermille = 101;
  rig.live(5s, 1, 50ms);
  EXPECT_EQ(rig.pressed.size(), 1U);
  rig.figures(1).pressure->somePermille = 50;
  rig.live(2s, 1, 50ms);
  rig.figures(1).pressure->somePermille = 900;
  rig.live(2s, 1, 50ms);
  EXPECT_EQ(rig.pressed.size(), 2U);
}

TEST(ContainerWatchTest, WhatRanIsTakenOnceAndACounterThatBeganAnewIsNoWork) {
  WatchRig rig;
  rig.open(1);
  rig.live(2s, 1, 50ms);
  const auto ran = rig.watch.takeRan(InstanceId(1));
  ASSERT_TRUE(ran);
  EXPECT_EQ(*ran, 19 * 50ms) << "since the first look";
  EXPECT_EQ(rig.watch.takeRan(InstanceId(1)), Nanos{0});
  rig.figures(1).cpu.used = {};
  rig.live(200ms, 1, 10ms);
  EXPECT_LE(*rig.watch.takeRan(InstanceId(1)), 20ms);
  EXPECT_FALSE(rig.watch.takeRan(InstanceId(9))) << "nobody";
}

TEST(ContainerWatchTest, WhoIsNotCountedCostsOneReadingASecond) {
  WatchRig rig;
  rig.watch.open(InstanceId(5), 7, "", rig.now);
  rig.open(1);
  rig.live(2s, 1, 0ms);
  rig.meter.cpuReadings = 0;
  rig.live(10s, 1, 0ms);
  EXPECT_LE(rig.meter.cpuReadings, 22);
  EXPECT_FALSE(rig.watch.seen(InstanceId(5))->cpu);
  rig.watch.close(InstanceId(5));
  rig.watch.close(InstanceId(1));
  EXPECT_FALSE(rig.watch.nextDue());
}

}  // namespace
}  // namespace coterie::node_agent
