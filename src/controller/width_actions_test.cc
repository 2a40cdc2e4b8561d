// By how many threads a request is run: from what was measured and seen to a roll-out, under a manual clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "controller/width_story.h"

namespace coterie::controller {
namespace {

TEST_F(WidthStory, AStreamOfSingleRequestsThatOneThreadServesTooSlowlyGetsTwo) {
  serveA(Millis(60));
  const InstanceId narrow = instancesOf("a").front();
  EXPECT_EQ(runtime.running.at(narrow).ownLanes, 2);
  measure();
  EXPECT_TRUE(happened("a", "RunTimesMeasured"));
  ASSERT_EQ(width().curve.size(), 2U);
  busy(1, 12.5);
  loop.advance(Seconds(41));
  ASSERT_EQ(instancesOf("a").size(), 2U) << "one is loaded beside the other";
  const InstanceId wide = instancesOf("a").back();
  EXPECT_EQ(runtime.running.at(wide).width, 2);
  EXPECT_EQ(runtime.running.at(wide).ownLanes, 1);
  EXPECT_EQ(runtime.running.at(wide).loanLanes, 0);
  EXPECT_TRUE(gateway.serving.contains(narrow));
  EXPECT_FALSE(allocation.instances.contains(wide)) << "what serves keeps its CPUs until the other is ready";
  loop.advance(Seconds(60));
  EXPECT_EQ(instancesOf("a").size(), 2U);
  runtime.ready(wide);
  EXPECT_TRUE(allocation.instances.contains(wide));
  settle();
  EXPECT_TRUE(gateway.serving.contains(wide));
  EXPECT_EQ(instancesOf("a"), std::vector<InstanceId>{wide});
  EXPECT_EQ(status("a", "threadsPerRun"), 2);
  EXPECT_TRUE(happened("a", "WidthChanged"));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

// One client fills whatever serves it; the rate follows the width in force, and must not drive it.
TEST_F(WidthStory, AClosedLoopNeverFlaps) {
  serveA(Millis(60));
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  for (int minute = 0; minute < 20; ++minute) {
    busy(1, minute % 2 == 0 ? 22.2 : 22.6);  // a little more than the measured time allows
    loop.advance(Seconds(60));
    settle();
  }
  EXPECT_EQ(runtime.starts.size(), 3U) << "narrow, measuring, wide";
  EXPECT_EQ(width().inForce, 2);
}

TEST_F(WidthStory, ManyRequestsAtOnceKeepManyNarrowLanes) {
  serveA(Millis(60));
  measure();
  busy(8, 25);
  loop.advance(Seconds(120));
  settle();
  EXPECT_EQ(width().inForce, 1);
  EXPECT_EQ(runtime.starts.size(), 2U);
  ASSERT_TRUE(width().choice);
  EXPECT_EQ(width().choice->reason, allocation::WidthReason::ObjectiveNotMet);
}

TEST_F(WidthStory, WhenTheStreamBecomesACrowdTheLanesComeBack) {
  serveA(Millis(100));
  runtime.runTimes = {{1, Millis(120)}, {2, Millis(70)}};
  runtime.end(instancesOf("a").front(), EndReason::Crashed, "x");
  loop.advance(Seconds(5));
  settle();
  measure();
  busy(1, 8);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  busy(6, 14);
  loop.advance(Seconds(41));
  settle();
  EXPECT_EQ(width().inForce, 1) << "no width meets the objective, and two servers answer sooner than one";
  EXPECT_EQ(newest().ownLanes, 2);
}

TEST_F(WidthStory, NothingIsMeasuredWhereItCannotHelp) {
  struct Row {
    const char* what;
    Nanos objective;
    std::optional<GroupLoad> load;
    std::function<void(ModelServiceSpec&)> edit;
  };
  const GroupLoad two{2, {}, 1, MilliRps(0), 0, 0};
  const Row rows[] = {
      {"no objective", Nanos(0), two, {}},
      {"one thread meets it", Millis(100), two, {}},
      {"one CPU", Millis(60), GroupLoad{1, {}, 1, MilliRps(0), 0, 0}, {}},
      {"a member of the pool", Millis(60), GroupLoad{0, MilliCpu(500), 1, MilliRps(0), 0, 0}, {}},
      {"not more than one CPU is allowed", Millis(60), two, [](ModelServiceSpec& s) { s.maxCpus = MilliCpu(1000); }},
      {"a fixed number is the user's word", Millis(60), two, [](ModelServiceSpec& s) { s.instances = 1; }},
      {"never idle", Millis(60), GroupLoad{2, {}, 1, MilliRps(12'000), 0, 1}, {}},
      {"requests wait", Millis(60), GroupLoad{2, {}, 1, MilliRps(12'000), 3, 0}, {}},
      {"no place yet", Millis(60), std::nullopt, {}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    allocation.load = row.load;
    serveA(row.objective, row.edit);
    const std::size_t starts = runtime.starts.size();
    loop.advance(Seconds(120));
    settle();
    EXPECT_EQ(runtime.starts.size(), starts);
    EXPECT_EQ(width().inForce, 1);
    remove("a");
    settle();
  }
}

TEST_F(WidthStory, ARequestThatComesEndsTheMeasuring) {
  serveA(Millis(60));
  loop.advance(Seconds(4));
  const InstanceId first = measuring();
  ASSERT_TRUE(first.valid());
  busy(1, 1);
  loop.advance(Seconds(1));
  EXPECT_EQ(runtime.stops, std::vector<InstanceId>{first});
  endStopped();
  EXPECT_TRUE(width().curve.size() == 1) << "what was interrupted is not believed";
  idle();
  loop.advance(Seconds(4));
  EXPECT_TRUE(measuring().valid()) << "when it is quiet again";
  EXPECT_NE(measuring(), first);
}

TEST_F(WidthStory, OneMeasuresAtATimeAndItsMemoryIsCounted) {
  serveA(Millis(60));
  putService("b", [](ModelServiceSpec& spec) { spec.objective = Objective{Millis(60), 99}; });
  settle();
  loop.advance(Seconds(10));
  const auto measure = [this] {
    return std::count_if(runtime.running.begin(), runtime.running.end(), [](const auto& entry) { return !entry.second.measureWidths.empty(); });
  };
  EXPECT_EQ(measure(), 1);
  EXPECT_EQ(runtime.running.at(measuring()).measureWidths, (std::vector<int>{1, 2}));
  runtime.ready(measuring());
  endStopped();
  loop.advance(Seconds(2));
  EXPECT_EQ(measure(), 1) << "the other's turn";
}

TEST_F(WidthStory, AFailureToMeasureIsSaidAndNotRepeatedAtOnce) {
  serveA(Millis(60));
  loop.advance(Seconds(4));
  runtime.end(measuring(), EndReason::OutOfMemory, "no memory");
  loop.advance(Seconds(30));
  EXPECT_FALSE(measuring().valid());
  EXPECT_TRUE(happened("a", "MeasuringFailed"));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  loop.advance(Seconds(60));
  EXPECT_TRUE(measuring().valid());
}

TEST_F(WidthStory, WhatWasDisturbedIsNotKept) {
  serveA(Millis(60));
  loop.advance(Seconds(4));
  runtime.runTimes.erase(2);
  runtime.ready(measuring());
  loop.runUntilIdle();
  endStopped();
  EXPECT_NE(width().held.find("other programs used the CPUs"), std::string::npos) << width().held;
  EXPECT_EQ(width().curve.size(), 1U);
  loop.advance(Seconds(30));
  EXPECT_FALSE(measuring().valid()) << "not at once";
  loop.advance(Seconds(40));
  EXPECT_TRUE(measuring().valid());
}

TEST_F(WidthStory, RunTimesAndWidthAreRememberedAcrossARestart) {
  serveA(Millis(60));
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  const std::size_t starts = runtime.starts.size();
  restart();
  settle();
  ASSERT_EQ(runtime.starts.size(), starts + 1);
  EXPECT_EQ(newest().width, 2) << "as it was, without a roll-out";
  idle();
  loop.advance(Seconds(20));
  settle();
  EXPECT_EQ(runtime.starts.size(), starts + 1) << "and nothing is measured again";

  services.reset();
  config.machineShape = "another machine";
  make();
  restart();
  settle();
  EXPECT_EQ(newest().width, 1) << "elsewhere it is another model's time";
}

TEST_F(WidthStory, AnotherModelIsMeasuredAnew) {
  serveA(Millis(60));
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.modelUri = "file:b.onnx"; });
  settle();
  EXPECT_EQ(newest().width, 1);
  EXPECT_EQ(width().inForce, 1);
}

TEST_F(WidthStory, AWideInstanceThatDoesNotComeUpLeavesTheNarrowOneServing) {
  serveA(Millis(60));
  const InstanceId narrow = instancesOf("a").front();
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  ASSERT_EQ(newest().width, 2);
  runtime.end(newest().id, EndReason::OutOfMemory, "no memory");
  loop.advance(Seconds(300));
  settle();
  EXPECT_EQ(instancesOf("a"), std::vector<InstanceId>{narrow});
  EXPECT_TRUE(gateway.serving.contains(narrow));
  EXPECT_NE(width().held.find("did not come up"), std::string::npos) << width().held;
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(WidthStory, WithoutMemoryForBothTheOldWidthStaysAndThatIsSaid) {
  TearDown();
  config.machineMemory = Bytes((256LL + 200) << 20);
  restart();
  serveA(Millis(60));
  ASSERT_EQ(instancesOf("a").size(), 1U);
  loop.advance(Seconds(4));
  EXPECT_FALSE(measuring().valid());
  EXPECT_NE(width().held.find("no memory"), std::string::npos) << width().held;
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(WidthStory, LosingTheObjectiveOrTheCpusNarrowsAgain) {
  serveA(Millis(60));
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  allocation.load->cpus = 1;
  loop.advance(Seconds(12));
  settle();
  EXPECT_EQ(width().inForce, 1) << "one CPU: at once";
  allocation.load->cpus = 2;
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  serveA(Nanos(0));
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(width().inForce, 1);
  EXPECT_EQ(newest().width, 1);
}

// The pool's answer was shown for a while to who had a CPU of its own, and for ever to who may have one CPU only.
TEST_F(WidthStory, TheProposalIsOfTheCpusThatItHasNow) {
  allocation.load = GroupLoad{0, MilliCpu(500), 1, MilliRps(0), 0, 0};
  serveA(Millis(60));
  busy(1, 2);
  loop.advance(Seconds(25));
  settle();
  ASSERT_TRUE(width().choice);
  ASSERT_EQ(width().choice->reason, allocation::WidthReason::PoolMember);
  allocation.load->cpus = 1;  // isolated: CPU 0 is its own
  allocation.load->poolShare = MilliCpu(0);
  ASSERT_TRUE(width().choice);
  EXPECT_EQ(width().question->cpus, 1);
  EXPECT_EQ(width().choice->reason, allocation::WidthReason::ObjectiveNotMet) << "80 ms by one thread";
  allocation.load->cpus = 0;
  allocation.load->poolShare = MilliCpu(400);
  EXPECT_EQ(width().choice->reason, allocation::WidthReason::PoolMember);
  EXPECT_EQ(width().question->poolShare, MilliCpu(400));
  allocation.load->cpus = 1;
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.maxCpus = MilliCpu(1000); });
  EXPECT_FALSE(width().choice) << "there is nothing to choose";
}

TEST_F(WidthStory, WideServersAreAsManyAsInstancesMayBe) {
  services.reset();
  config.machineCpus = 4;
  make();
  restart();
  runtime.runTimes = {{1, Millis(80)}, {2, Millis(45)}, {4, Millis(44)}};
  allocation.load = GroupLoad{4, {}, 1, MilliRps(0), 0, 0};
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.maxInstances = 3; });
  measure();
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  EXPECT_EQ(instancesOf("a").size(), 2U) << "two servers of two threads on four CPUs";
  for (const InstanceId id : instancesOf("a")) EXPECT_EQ(runtime.running.at(id).width, 2);
}

}  // namespace
}  // namespace coterie::controller
