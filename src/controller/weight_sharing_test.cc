// Which instances run over one copy of their model's weights, and what memory that is counted as.
#include <gtest/gtest.h>

#include <string>

#include "controller/width_story.h"

namespace coterie::controller {
namespace {

constexpr Bytes kForm{100LL << 20};

class SharingStory : public WidthStory {
 protected:
  void SetUp() override {
    WidthStory::SetUp();
    runtime.form = kForm;
  }
  // The instance that serves becomes ready with so much memory of its own.
  void replaceWith(Bytes own) {
    ASSERT_EQ(instancesOf("a").size(), 2U);
    runtime.ready(newest().id, own, own);
    settle();
  }
  [[nodiscard]] Bytes shared() const { return width().shared; }
  [[nodiscard]] std::size_t holders() const {
    return static_cast<std::size_t>(
        std::count_if(runtime.running.begin(), runtime.running.end(), [](const auto& entry) { return entry.second.prepared != nullptr; }));
  }
};

TEST_F(SharingStory, WhoMeasuresPreparesAndFromThenOnNarrowAndWideShare) {
  serveA(Millis(60));
  const InstanceId first = instancesOf("a").front();
  EXPECT_EQ(runtime.running.at(first).prepared, nullptr) << "it does not wait for anything to start";
  const Bytes limit = services->summary({"n", "a"})->measuredMemory;
  loop.advance(Seconds(4));
  ASSERT_TRUE(runtime.running.at(measuring()).prepare && runtime.running.at(measuring()).judge);
  EXPECT_EQ(runtime.running.at(measuring()).memoryLimit, limit + Bytes(4LL << 20)) << "four times the file beside what an instance needs";
  measure();
  EXPECT_TRUE(happened("a", "WeightsShared"));
  EXPECT_EQ(shared(), kForm);
  ASSERT_EQ(instancesOf("a").size(), 2U);
  EXPECT_NE(newest().prepared, nullptr);
  EXPECT_EQ(newest().width, 1);
  EXPECT_EQ(newest().memoryLimit, limit) << "not known yet: like one with a copy";
  EXPECT_TRUE(gateway.serving.contains(first));
  EXPECT_FALSE(allocation.instances.contains(newest().id)) << "what serves keeps its CPUs until the other is ready";
  replaceWith(Bytes(30LL << 20));
  ASSERT_EQ(instancesOf("a").size(), 1U);
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");

  busy(1, 12.5);
  loop.advance(Seconds(41));
  ASSERT_EQ(instancesOf("a").size(), 2U);
  EXPECT_EQ(newest().width, 2);
  EXPECT_EQ(newest().prepared, runtime.running.at(instancesOf("a").front()).prepared) << "the same";
  EXPECT_LT(newest().memoryLimit, limit) << "its own part only";
  settle();
  EXPECT_EQ(instancesOf("a").size(), 1U);
  EXPECT_EQ(holders(), 1U);
}

TEST_F(SharingStory, WhereRunsOverItAreNotWorthItNothingChanges) {
  runtime.form = Bytes(0);
  serveA(Millis(60));
  const std::size_t starts = runtime.starts.size();
  measure();
  busy(8, 25);
  loop.advance(Seconds(120));
  settle();
  EXPECT_EQ(runtime.starts.size(), starts + 1) << "the one that measured";
  EXPECT_EQ(shared(), Bytes(0));
  EXPECT_FALSE(happened("a", "WeightsShared"));
}

TEST_F(SharingStory, TheSharedPartIsCountedOnceAndAsLongAsAnybodyHoldsIt) {
  TearDown();
  config.machineMemory = Bytes((256LL + 500) << 20);
  restart();
  serveA(Millis(60));
  measure();
  replaceWith(Bytes(20LL << 20));
  ASSERT_EQ(shared(), kForm);
  putService("b");
  settle();
  ASSERT_EQ(condition("b", "Ready"), "True/Serving") << "beside the form and what is left of a";
  putService("c");
  files.put("c.onnx", "sum-c", Bytes(60LL << 20));
  loop.advance(Seconds(20));
  settle();
  EXPECT_EQ(condition("c", "ModelLoaded"), "False/InsufficientMemory") << "298 MB: more than is free while the form is held";
  remove("a");
  settle();
  loop.advance(Seconds(6));
  settle();
  EXPECT_EQ(condition("c", "Ready"), "True/Serving") << "it went with the last who held it";
}

TEST_F(SharingStory, WithoutRoomToPrepareItIsMeasuredAsEver) {
  TearDown();
  files.put("a.onnx", "sum-a", Bytes(100LL << 20));
  config.machineMemory = Bytes((256LL + 900) << 20);
  restart();
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.memory = Bytes(400LL << 20); });
  idle();
  loop.advance(Seconds(4));
  ASSERT_TRUE(measuring().valid());
  EXPECT_FALSE(runtime.running.at(measuring()).prepare) << "400 + 400 MB and 400 that serve are more than 900";
  measure();
  EXPECT_EQ(width().curve.size(), 2U);
  EXPECT_EQ(shared(), Bytes(0));
}

TEST_F(SharingStory, IfPreparingFailsItIsMeasuredWithoutIt) {
  serveA(Millis(60));
  loop.advance(Seconds(4));
  ASSERT_TRUE(runtime.running.at(measuring()).prepare);
  runtime.end(measuring(), EndReason::OutOfMemory, "no memory");
  EXPECT_TRUE(happened("a", "MeasuringFailed"));
  loop.advance(Seconds(70));
  ASSERT_TRUE(measuring().valid());
  EXPECT_FALSE(runtime.running.at(measuring()).prepare);
  measure();
  EXPECT_EQ(width().curve.size(), 2U);
}

TEST_F(SharingStory, IfAnInstanceOverItDoesNotComeUpTheFileIsLoadedAgain) {
  serveA(Millis(60));
  const InstanceId first = instancesOf("a").front();
  measure();
  ASSERT_NE(newest().prepared, nullptr);
  runtime.end(newest().id, EndReason::Crashed, "a fault of the library");
  busy(8, 25);  // for which one thread is right
  loop.advance(Seconds(30));
  settle();
  EXPECT_TRUE(happened("a", "WeightsNotShared"));
  EXPECT_EQ(instancesOf("a"), std::vector<InstanceId>{first}) << "it is of the wanted version again, and serves";
  EXPECT_TRUE(gateway.serving.contains(first));
  EXPECT_EQ(shared(), Bytes(0));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(SharingStory, AfterARestartItIsMadeAgainWhenIdleAndNothingIsMeasured) {
  serveA(Millis(60));
  measure();
  replaceWith(Bytes(30LL << 20));
  busy(1, 12.5);
  loop.advance(Seconds(41));
  settle();
  ASSERT_EQ(width().inForce, 2);
  restart();
  settle();
  ASSERT_EQ(instancesOf("a").size(), 1U);
  EXPECT_EQ(newest().width, 2);
  EXPECT_EQ(newest().prepared, nullptr) << "it serves at once";
  idle();
  loop.advance(Seconds(4));
  ASSERT_TRUE(newest().prepare);
  EXPECT_FALSE(newest().judge) << "it was worth it";
  EXPECT_TRUE(newest().measureWidths.empty());
  runtime.ready(newest().id);
  loop.runUntilIdle();
  endStopped();
  ASSERT_NE(newest().prepared, nullptr);
  EXPECT_EQ(newest().width, 2);
  settle();
  EXPECT_EQ(instancesOf("a").size(), 1U);
  EXPECT_EQ(holders(), 1U);
}

TEST_F(SharingStory, AnotherModelOrExternalDataThatWasReplacedSharesNothingWithTheOld) {
  serveA(Millis(60));
  measure();
  replaceWith(Bytes(30LL << 20));
  ASSERT_EQ(shared(), kForm);
  files.put("a.onnx", "sum-a", Bytes(1 << 20), 7);
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.weight = 2; });
  settle();
  EXPECT_TRUE(happened("a", "ModelChanged"));
  EXPECT_EQ(holders(), 0U);
  EXPECT_EQ(shared(), Bytes(0));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(SharingStory, WhatIsMadeOfAFileThatChangedMeanwhileIsNotTaken) {
  serveA(Millis(60));
  loop.advance(Seconds(4));
  const InstanceId preparing = measuring();
  ASSERT_TRUE(preparing.valid());
  files.put("a.onnx", "sum-a2");
  serveA(Millis(60), [](ModelServiceSpec& spec) { spec.weight = 2; });
  if (runtime.running.contains(preparing)) runtime.ready(preparing);
  endStopped();
  settle();
  EXPECT_EQ(holders(), 0U);
  EXPECT_EQ(shared(), Bytes(0));
}

}  // namespace
}  // namespace coterie::controller
