// How the instances of a service come, serve, are scaled, replaced and go.
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using Lifecycle = ControllerStory;

TEST_F(Lifecycle, FromAnObjectToAServingInstance) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(500), s.probeShapes = {{"x", {1, 3}}}; });
  ASSERT_EQ(runtime.starts.size(), 1u);
  const InstanceSpec& spec = runtime.starts[0];
  EXPECT_EQ(spec.modelPath, "/models/a.onnx");
  EXPECT_EQ(spec.sha256, "sum-a");
  EXPECT_EQ(spec.tenant.value, "team");
  EXPECT_EQ(spec.ownLanes, 2);
  EXPECT_EQ(spec.loanLanes, 2);
  EXPECT_EQ(spec.memoryLimit, Bytes((2 * (1 << 20) + 128'000'000) * 6 / 5));
  EXPECT_EQ(spec.probe.at(0).input, "x");
  EXPECT_EQ(condition("a", "Ready"), "False/Loading");
  EXPECT_EQ(condition("a", "Allocated"), "True/Allocated");
  EXPECT_EQ(gateway.services.begin()->second.notReadyReason, "Loading");
  EXPECT_EQ(allocation.groups.begin()->second.floor, MilliCpu(500));
  runtime.missingSandbox = {"Landlock"};
  runtime.ready(spec.id);
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_EQ(condition("a", "ModelLoaded"), "True/Loaded");
  EXPECT_EQ(condition("a", "Sandboxed"), "False/Incomplete");
  EXPECT_NE(message("a", "Sandboxed").find("Landlock"), std::string::npos);
  EXPECT_EQ(status("a", "readyInstances"), 1);
  EXPECT_EQ(status("a", "desiredInstances"), 1);
  EXPECT_EQ(status("a", "observedGeneration"), 1);
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_TRUE(gateway.services.begin()->second.notReadyReason.empty());
  EXPECT_TRUE(happened("a", "Serving"));
}

TEST_F(Lifecycle, WhatAModelCannotDoTogetherIsSaidAndOnlyWhereItWasAskedFor) {
  runtime.signature = {{{"x", ElementType::Fp32, {1, 3}, false}}, {{"y", ElementType::Fp32, {kDynamic, 3}, false}}};
  putService("a");
  settle();
  EXPECT_EQ(condition("a", "Batched"), "none");
  putService("a", [](ModelServiceSpec& s) { s.maxBatch = 8; });
  settle();
  EXPECT_EQ(condition("a", "Batched"), "False/NotBatchable");
  EXPECT_NE(message("a", "Batched").find("input \"x\" has a fixed first dimension, 1"), std::string::npos) << message("a", "Batched");
  EXPECT_TRUE(happened("a", "NotBatchable"));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving") << "it serves, one by one";
  putService("a");
  settle();
  EXPECT_EQ(condition("a", "Batched"), "none");
}

TEST_F(Lifecycle, HowManyMayRunAsOneIsSaid) {
  runtime.signature = {{{"x", ElementType::Fp32, {kDynamic, 3}, false}}, {{"y", ElementType::Fp32, {kDynamic, 3}, false}}};
  putService("a", [](ModelServiceSpec& s) { s.maxBatch = 64; });
  EXPECT_EQ(condition("a", "Batched"), "Unknown/Waiting");
  settle();
  EXPECT_EQ(condition("a", "Batched"), "True/Batched");
  for (int i = 0; i < 7; ++i) runtime.signature.inputs.push_back({"more", ElementType::Int64, {kDynamic}, false});
  putService("b", [](ModelServiceSpec& s) { s.maxBatch = 64; });
  settle();
  EXPECT_EQ(condition("b", "Batched"), "True/SmallerBatches");
  EXPECT_NE(message("b", "Batched").find("up to 32 requests"), std::string::npos) << message("b", "Batched");
}

TEST_F(Lifecycle, AnIdleControllerDoesNothing) {
  putService("a");
  settle();
  EXPECT_EQ(loop.pendingTimers(), 0u);
  const std::uint64_t version = store.list("ModelService", std::nullopt)->resourceVersion;
  services->lookAgain();
  loop.advance(Seconds(60));
  EXPECT_EQ(store.list("ModelService", std::nullopt)->resourceVersion, version);
  EXPECT_EQ(runtime.starts.size(), 1u);
}

TEST_F(Lifecycle, ScaleUpDownAndStop) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 3; });
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 3);
  putService("a", [](ModelServiceSpec& s) { s.instances = 1; });
  EXPECT_EQ(gateway.draining.size(), 2u);
  EXPECT_TRUE(gateway.serving.contains(InstanceId(1))) << "the oldest stays";
  settle();
  EXPECT_EQ(instancesOf("a"), std::vector<InstanceId>{InstanceId(1)});
  putService("a", [](ModelServiceSpec& s) { s.instances = 0; });
  settle();
  EXPECT_EQ(condition("a", "Ready"), "False/Stopped");
  EXPECT_TRUE(runtime.running.empty());
  EXPECT_TRUE(allocation.groups.empty()) << "a stopped service keeps no floor";
}

TEST_F(Lifecycle, AutomationMovesWithinTheRangeAndTheUsersWordSuspendsIt) {
  putService("a", [](ModelServiceSpec& s) { s.minInstances = 1, s.maxInstances = 3; });
  settle();
  EXPECT_EQ(status("a", "desiredInstances"), 1);
  services->proposeInstances({"n", "a"}, 9);
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 3);
  putService("a", [](ModelServiceSpec& s) { s.minInstances = 1, s.maxInstances = 3, s.instances = 2; });
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 2);
}

TEST_F(Lifecycle, ReadyMeansAsManyAsTheSpecDemands) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  runtime.ready(InstanceId(1));
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "False/PartlyServing") << "one of two";
  runtime.ready(InstanceId(2));
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  putService("a", [](ModelServiceSpec& s) { s.instances = 3; });
  EXPECT_EQ(condition("a", "Ready"), "False/PartlyServing");
  putService("a", [](ModelServiceSpec& s) { s.minInstances = 2, s.maxInstances = 4; });
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  services->proposeInstances({"n", "a"}, 3);
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "True/PartlyServing") << "its minimum serves, automation wants more";
}

TEST_F(Lifecycle, ADrainThatTakesTooLongIsCut) {
  putService("a");
  settle();
  remove("a");
  EXPECT_TRUE(runtime.stops.empty());
  loop.advance(Seconds(31));
  EXPECT_EQ(runtime.stops.size(), 1u);
}

TEST_F(Lifecycle, ADeletedServiceIsUnknownAtOnceAndDrained) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  remove("a");
  EXPECT_TRUE(gateway.services.empty());
  EXPECT_EQ(gateway.draining.size(), 2u);
  EXPECT_FALSE(services->summary({"n", "a"}).has_value());
  settle();
  EXPECT_TRUE(runtime.running.empty());
  EXPECT_TRUE(allocation.groups.empty());
  putService("a");
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving") << "the same name again is a new service";
}

TEST_F(Lifecycle, AChangedModelIsLoadedBesideTheOldOneThenSwitched) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  const std::string oldVersion = gateway.serving.begin()->second;
  putService("a", [](ModelServiceSpec& s) { s.instances = 2, s.modelUri = "file:b.onnx"; });
  ASSERT_EQ(runtime.running.size(), 4u);
  EXPECT_EQ(condition("a", "Ready"), "True/RollingOut");
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/Loading");
  runtime.ready(InstanceId(3));
  loop.runUntilIdle();
  for (const auto& [id, version] : gateway.serving) EXPECT_EQ(version, oldVersion) << "no switch with half of the new ones";
  runtime.ready(InstanceId(4));
  loop.runUntilIdle();
  EXPECT_EQ(gateway.serving.size(), 2u);
  for (const auto& [id, version] : gateway.serving) EXPECT_NE(version, oldVersion);
  EXPECT_EQ(gateway.draining.size(), 2u);
  settle();
  EXPECT_EQ(instancesOf("a"), (std::vector<InstanceId>{InstanceId(3), InstanceId(4)}));
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_FALSE(happened("a", "RollingOut")) << "that a change is under way is no news";
}

// A deploy script that applied and waited was told Ready before anybody had looked at the new model.
TEST_F(Lifecycle, AChangeThatIsNotJudgedYetIsNotServed) {
  putService("a");
  settle();
  files.held = true;
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  EXPECT_EQ(condition("a", "Ready"), "True/RollingOut");
  EXPECT_NE(message("a", "Ready").find("former spec"), std::string::npos);
  files.release();
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(Lifecycle, AChangedWeightRestartsNothing) {
  putService("a");
  settle();
  putService("a", [](ModelServiceSpec& s) { s.weight = 300; });
  settle();
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_EQ(allocation.groups.begin()->second.weight, 300);
  EXPECT_EQ(status("a", "observedGeneration"), 2);
}

TEST_F(Lifecycle, AChangeWhileLoadingEndsNoLoad) {
  putService("a");
  putService("a", [](ModelServiceSpec& s) { s.weight = 300; });
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_TRUE(runtime.stops.empty());
}

TEST_F(Lifecycle, ASpecThatDoesNotDecodeStopsNothing) {
  putService("a");
  settle();
  Value broken = Value::emptyMap();
  broken.set("weight", "heavy");
  put({std::string(kModelServiceKind), "n", "a"}, broken);
  EXPECT_EQ(condition("a", "Ready"), "True/ServingOldSpec");
  EXPECT_EQ(gateway.serving.size(), 1u);
  put({std::string(kTenantKind), "", "odd"}, broken);
  EXPECT_EQ(condition("odd", "Ready", std::string(kTenantKind)), "False/InvalidSpec");
}

TEST_F(Lifecycle, PlacesAreReported) {
  putService("a");
  settle();
  const GroupId group = services->summary({"n", "a"})->group;
  services->placed(group, InstanceId(1), CpuSet{0, 1}, CpuSet{3});
  loop.runUntilIdle();
  const StoredObject object = *store.get({std::string(kModelServiceKind), "n", "a"});
  const Value& instance = object.status.find("instances")->asList()->at(0);
  EXPECT_EQ(*instance.find("cpus"), Value("0-1"));
  EXPECT_EQ(*instance.find("loans"), Value("3"));
}

TEST_F(Lifecycle, ShutDownDrainsEverything) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  putService("b");
  settle();
  bool stopped = false;
  services->shutDown([&] { stopped = true; });
  loop.runUntilIdle();
  EXPECT_FALSE(stopped);
  settle();
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(runtime.running.empty());
}

}  // namespace
}  // namespace coterie::controller
