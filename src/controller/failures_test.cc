// What becomes of a service whose instances end by themselves.
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using Failures = ControllerStory;

TEST_F(Failures, AModelThatDoesNotLoadLeavesTheOldOneServing) {
  putService("a");
  settle();
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  runtime.end(InstanceId(2), EndReason::LoadFailed, "b.onnx is not an ONNX file");
  loop.runUntilIdle();
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/LoadFailed");
  EXPECT_NE(message("a", "ModelLoaded").find("not an ONNX file"), std::string::npos);
  EXPECT_EQ(condition("a", "Ready"), "True/ServingOldSpec");
}

TEST_F(Failures, CrashesBackOffUpToAMinuteAndTellTheReason) {
  putService("a");
  settle();
  std::vector<std::int64_t> waits;
  for (int i = 1; i <= 8; ++i) {
    const Instant crashed = loop.now();
    runtime.end(InstanceId(i), EndReason::Crashed, "killed by signal 11");
    loop.runUntilIdle();
    EXPECT_EQ(condition("a", "Ready"), "False/CrashLoopBackOff");
    EXPECT_NE(message("a", "Ready").find("signal 11"), std::string::npos);
    EXPECT_TRUE(gateway.serving.empty());
    while (runtime.running.empty()) loop.advance(Millis(100));
    waits.push_back(std::chrono::duration_cast<Seconds>(loop.now() - crashed).count());
    runtime.ready(InstanceId(i + 1));
    loop.runUntilIdle();
  }
  EXPECT_EQ(waits, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 60, 60}));
  EXPECT_EQ(status("a", "restarts"), 8);
  loop.advance(Seconds(601));
  runtime.end(InstanceId(9), EndReason::Crashed, "again");
  loop.advance(Millis(1100));
  EXPECT_FALSE(runtime.running.empty()) << "ten good minutes are a clean slate";
  EXPECT_TRUE(happened("a", "Crashed"));
}

// Nothing of a start needs the disk: what cannot be written is only what became of it.
TEST_F(Failures, AStartOnAFullDiskServesAndDoesNotSpin) {
  putService("a");
  putService("b");
  settle();
  store.full = true;
  restart();
  settle();
  EXPECT_EQ(gateway.serving.size(), 2u);
  const int before = store.refusals;
  loop.advance(Seconds(60));
  EXPECT_LE(store.refusals - before, 2 * (60 / 5 + 1)) << "each status once in five seconds";
  runtime.end(instancesOf("a").front(), EndReason::Crashed, "killed by signal 9");
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(gateway.serving.size(), 2u) << "a crashed one comes back";
  store.full = false;
  loop.advance(Seconds(6));
  EXPECT_EQ(status("a", "restarts"), 1) << "written as soon as there is room";
}

// It served within what somebody wrote, and was refused after its first crash: its own figures count pages that it shares.
TEST_F(Failures, WhatLoadedWithinItsLimitIsLetInAgain) {
  const auto limited = [](ModelServiceSpec& s) { s.memory = Bytes(320 << 20); };
  putService("a", limited);
  runtime.ready(InstanceId(1), Bytes(370 << 20), Bytes(393 << 20));
  loop.runUntilIdle();
  ASSERT_EQ(condition("a", "Ready"), "True/Serving");
  runtime.end(InstanceId(1), EndReason::Crashed, "killed by signal 9");
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  restart();
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(319 << 20); });
  settle();
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/InsufficientMemory") << "less than what it is known to run in";
}

TEST_F(Failures, ACrashedServicesMemoryIsNotGivenToThoseThatWait) {
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(256 << 20); });
  putService("b", [](ModelServiceSpec& s) {
    s.memory = Bytes(256 << 20);
    s.instances = 1000;
  });
  settle();
  const std::size_t others = instancesOf("b").size();
  EXPECT_EQ(others, 14u) << "all the rest of the machine";
  runtime.end(instancesOf("a").front(), EndReason::Crashed, "killed by signal 9");
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "False/CrashLoopBackOff");
  EXPECT_EQ(instancesOf("b").size(), others);
  loop.advance(Millis(1100));
  EXPECT_EQ(instancesOf("a").size(), 1u);
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  runtime.end(instancesOf("a").front(), EndReason::Crashed, "killed by signal 9");
  loop.runUntilIdle();
  putService("a", [](ModelServiceSpec& s) {
    s.memory = Bytes(256 << 20);
    s.instances = 0;
  });
  settle();
  EXPECT_EQ(instancesOf("b").size(), others + 1) << "who gives up gives it back";
}

TEST_F(Failures, AFileThatIsRepairedWhileItsServiceWaitsIsTriedSoon) {
  putService("a");
  for (int i = 1; i <= 7; ++i) {
    runtime.end(InstanceId(i), EndReason::LoadFailed, "bad");
    if (i < 7) loop.advance(Seconds(60));
  }
  loop.runUntilIdle();
  ASSERT_TRUE(runtime.running.empty());
  files.put("a.onnx", "sum-repaired");
  loop.advance(Seconds(16));  // of the 60 that it would have waited
  EXPECT_EQ(runtime.running.size(), 1u);
  EXPECT_EQ(runtime.starts.back().sha256, "sum-repaired") << "and not refused for the checksum of the other one";
  runtime.end(InstanceId(8), EndReason::LoadFailed, "still bad");
  loop.advance(Millis(1100));
  EXPECT_EQ(runtime.running.size(), 1u) << "it was the other file that failed so often";
}

TEST_F(Failures, WhatIsStartedAfterAPauseIsWhatLiesThereThen) {
  putService("a");
  runtime.end(InstanceId(1), EndReason::LoadFailed, "bad");
  loop.runUntilIdle();
  files.put("a.onnx", "sum-repaired");
  loop.advance(Millis(1100));
  ASSERT_EQ(runtime.starts.size(), 2u);
  EXPECT_EQ(runtime.starts.back().sha256, "sum-repaired");
}

TEST_F(Failures, AChangedSpecIsTriedAtOnce) {
  putService("a");
  for (int i = 1; i <= 5; ++i) {
    runtime.end(InstanceId(i), EndReason::LoadFailed, "bad");
    loop.advance(Seconds(60));
  }
  runtime.end(InstanceId(6), EndReason::LoadFailed, "bad");
  loop.runUntilIdle();
  EXPECT_TRUE(runtime.running.empty());
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  EXPECT_EQ(runtime.running.size(), 1u);
}

TEST_F(Failures, OneOfTwoCrashesAndTheOtherServesOn) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  runtime.end(InstanceId(1), EndReason::OutOfMemory, "used more than its limit");
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "False/PartlyServing");
  EXPECT_NE(message("a", "Ready").find("1 of 2 instances serve; the last instance ended: OutOfMemory"), std::string::npos) << message("a", "Ready");
  EXPECT_TRUE(gateway.services.begin()->second.notReadyReason.empty()) << "requests are taken";
  runtime.ready(InstanceId(2));  // said twice: nothing happens
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(Failures, AfterLackOfMemoryTheNextLimitIsLarger) {
  putService("a");
  const Bytes first = runtime.starts[0].memoryLimit;
  runtime.end(InstanceId(1), EndReason::OutOfMemory, "used more than its limit");
  loop.advance(Seconds(2));
  ASSERT_EQ(runtime.starts.size(), 2u);
  EXPECT_GT(runtime.starts[1].memoryLimit.value, first.value * 3 / 2);
}

TEST_F(Failures, ASpawnThatFailsIsAFailureLikeOthers) {
  runtime.refuse = true;
  putService("a");
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/SpawnFailed");
  EXPECT_EQ(condition("a", "Ready"), "False/CrashLoopBackOff");
  runtime.refuse = false;
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

}  // namespace
}  // namespace coterie::controller
