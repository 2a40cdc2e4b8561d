// The reconcilers under a manual clock: each test is a story of objects, workers and the conditions that tell of it.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

class Controller : public ::testing::Test, public ControllerFixture {
 protected:
  void SetUp() override {
    files.put("a.onnx", "sum-a");
    files.put("b.onnx", "sum-b");
    putTenant("team", {"n"});
    start();
  }
  void TearDown() override {
    EXPECT_EQ(gateway.errors, 0);
    EXPECT_EQ(allocation.errors, 0);
    EXPECT_LT(gateway.removed, 100);
  }
  [[nodiscard]] std::vector<std::string> reasons(const std::string& name) {
    std::vector<std::string> all;
    for (const Event& event : events.last({std::string(kModelServiceKind), "n", name}, 100)) all.push_back(event.reason);
    return all;
  }
  [[nodiscard]] bool happened(const std::string& name, const std::string& reason) {
    const std::vector<std::string> all = reasons(name);
    return std::find(all.begin(), all.end(), reason) != all.end();
  }
};

TEST_F(Controller, FromAnObjectToAServingInstance) {
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

TEST_F(Controller, AnIdleControllerDoesNothing) {
  putService("a");
  settle();
  EXPECT_EQ(loop.pendingTimers(), 0u);
  const std::uint64_t version = store.list("ModelService", std::nullopt)->resourceVersion;
  services->lookAgain();
  loop.advance(Seconds(60));
  EXPECT_EQ(store.list("ModelService", std::nullopt)->resourceVersion, version);
  EXPECT_EQ(runtime.starts.size(), 1u);
}

TEST_F(Controller, ScaleUpDownAndStop) {
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

TEST_F(Controller, AutomationMovesWithinTheRangeAndTheUsersWordSuspendsIt) {
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

TEST_F(Controller, ADrainThatTakesTooLongIsCut) {
  putService("a");
  settle();
  remove("a");
  EXPECT_TRUE(runtime.stops.empty());
  loop.advance(Seconds(31));
  EXPECT_EQ(runtime.stops.size(), 1u);
}

TEST_F(Controller, ADeletedServiceIsUnknownAtOnceAndDrained) {
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

TEST_F(Controller, AChangedModelIsLoadedBesideTheOldOneThenSwitched) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  const std::string oldVersion = gateway.serving.begin()->second;
  putService("a", [](ModelServiceSpec& s) { s.instances = 2, s.modelUri = "file:b.onnx"; });
  ASSERT_EQ(runtime.running.size(), 4u);
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
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
}

TEST_F(Controller, AChangedWeightRestartsNothing) {
  putService("a");
  settle();
  putService("a", [](ModelServiceSpec& s) { s.weight = 300; });
  settle();
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_EQ(allocation.groups.begin()->second.weight, 300);
  EXPECT_EQ(status("a", "observedGeneration"), 2);
}

TEST_F(Controller, AChangeWhileLoadingEndsNoLoad) {
  putService("a");
  putService("a", [](ModelServiceSpec& s) { s.weight = 300; });
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_TRUE(runtime.stops.empty());
}

TEST_F(Controller, AModelThatDoesNotFitBesideTheOldOneIsRefusedByItsMissingBytes) {
  files.put("a.onnx", "sum-a", Bytes(600'000'000));
  files.put("b.onnx", "sum-b", Bytes(1'300'000'000));
  putService("a");
  settle();
  ASSERT_EQ(condition("a", "Ready"), "True/Serving");
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  settle();
  EXPECT_EQ(runtime.starts.size(), 1u) << "refused before loading";
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_EQ(condition("a", "Ready"), "True/PartlyServing");
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/InsufficientMemory");
  const std::int64_t old = (2 * 600'000'000LL + 128'000'000) * 6 / 5;
  const std::int64_t wanted = (2 * 1'300'000'000LL + 128'000'000) * 6 / 5;
  const std::int64_t missing = wanted - ((4LL << 30) - (256LL << 20) - old);
  EXPECT_NE(message("a", "ModelLoaded").find(std::to_string(missing) + " bytes"), std::string::npos) << message("a", "ModelLoaded");
  EXPECT_NE(message("a", "ModelLoaded").find("keeps serving"), std::string::npos);
  putService("a");
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving") << "taken back";
}

TEST_F(Controller, AModelThatDoesNotLoadLeavesTheOldOneServing) {
  putService("a");
  settle();
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  runtime.end(InstanceId(2), EndReason::LoadFailed, "b.onnx is not an ONNX file");
  loop.runUntilIdle();
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/LoadFailed");
  EXPECT_NE(message("a", "ModelLoaded").find("not an ONNX file"), std::string::npos);
  EXPECT_EQ(condition("a", "Ready").substr(0, 5), "True/");
}

TEST_F(Controller, AWrongChecksumIsNeverLoaded) {
  const std::string other(64, 'a');
  putService("a", [&](ModelServiceSpec& s) { s.sha256 = other; });
  EXPECT_TRUE(runtime.starts.empty());
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/ChecksumMismatch");
  EXPECT_EQ(condition("a", "Ready"), "False/ChecksumMismatch");
  EXPECT_NE(message("a", "Ready").find("sum-a"), std::string::npos) << "both sums are named";
  files.put("a.onnx", other);
  loop.advance(Seconds(16));
  EXPECT_EQ(runtime.starts.size(), 1u) << "the file was put right";
}

TEST_F(Controller, AMissingFileIsFoundWhenItComes) {
  putService("c");
  EXPECT_EQ(condition("c", "Ready"), "False/ModelNotFound");
  const int asked = files.asked;
  loop.advance(Seconds(60));
  EXPECT_LE(files.asked - asked, 5) << "looked for now and then";
  files.put("c.onnx", "sum-c");
  loop.advance(Seconds(16));
  EXPECT_EQ(runtime.starts.size(), 1u);
}

TEST_F(Controller, CrashesBackOffUpToAMinuteAndTellTheReason) {
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

TEST_F(Controller, AChangedSpecIsTriedAtOnce) {
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

TEST_F(Controller, OneOfTwoCrashesAndTheOtherServesOn) {
  putService("a", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  runtime.end(InstanceId(1), EndReason::OutOfMemory, "used more than its limit");
  loop.runUntilIdle();
  EXPECT_EQ(condition("a", "Ready"), "True/PartlyServing");
  runtime.ready(InstanceId(2));  // said twice: nothing happens
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(Controller, AfterLackOfMemoryTheNextLimitIsLarger) {
  putService("a");
  const Bytes first = runtime.starts[0].memoryLimit;
  runtime.end(InstanceId(1), EndReason::OutOfMemory, "used more than its limit");
  loop.advance(Seconds(2));
  ASSERT_EQ(runtime.starts.size(), 2u);
  EXPECT_GT(runtime.starts[1].memoryLimit.value, first.value * 3 / 2);
}

TEST_F(Controller, MeasuredMemoryIsKeptByChecksum) {
  putService("a");
  runtime.ready(InstanceId(1), Bytes(300 << 20), Bytes(310 << 20));
  loop.runUntilIdle();
  services.reset();
  tenants.reset();
  runtime.running.clear();
  gateway = {};
  allocation.groups.clear();
  allocation.instances.clear();
  make();
  start();
  ASSERT_EQ(runtime.starts.size(), 2u);
  EXPECT_EQ(runtime.starts[1].memoryLimit, Bytes(((300LL << 20) + 4 * (8LL << 20)) * 6 / 5)) << "steady and four lanes";
}

TEST_F(Controller, TooLittleMemoryIsPendingBeforeLoading) {
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(64 << 20); });
  EXPECT_TRUE(runtime.starts.empty());
  EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory");
  EXPECT_NE(message("a", "Ready").find("Raise spec.memory"), std::string::npos);
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(200 << 20); });
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_EQ(runtime.starts[0].memoryLimit, Bytes(200 << 20));
}

TEST_F(Controller, AFullMachineKeepsANewcomerWaitingAndTouchesNobody) {
  files.put("a.onnx", "sum-a", Bytes(1'200'000'000));
  files.put("b.onnx", "sum-b", Bytes(1'200'000'000));
  putService("a");
  settle();
  putService("b");
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/InsufficientMemory");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  remove("a");
  settle();
  EXPECT_EQ(condition("b", "Ready"), "True/Serving") << "room came";
}

TEST_F(Controller, AFloorThatDoesNotFitIsPendingAndTouchesNobody) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1500); });
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/InsufficientCpu");
  EXPECT_EQ(condition("b", "Allocated"), "False/InsufficientCpu");
  EXPECT_NE(message("b", "Ready").find("500m CPU missing"), std::string::npos) << message("b", "Ready");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_EQ(allocation.groups.size(), 1u);
  remove("a");
  settle();
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
}

TEST_F(Controller, WhoWaitsForMemoryKeepsNoCpusFromOthers) {
  files.put("a.onnx", "sum-a", Bytes(9'000'000'000));
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(4000); });
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(4000); });
  settle();
  EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory");
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
}

TEST_F(Controller, TwoNewcomersInOneTurnAreCountedTogether) {
  for (const char* name : {"a", "b"}) {
    StoredObject object;
    object.key = {std::string(kModelServiceKind), "n", name};
    ModelServiceSpec spec;
    spec.modelUri = std::string("file:") + name + ".onnx";
    spec.minCpus = MilliCpu(3000);
    object.spec = objects::encodeSpec(spec);
    ASSERT_TRUE(store.create(object).ok());
  }
  settle();
  EXPECT_EQ(runtime.starts.size(), 1u);
}

TEST_F(Controller, ARaisedFloorThatDoesNotFitLeavesTheOldOneInForce) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(2000); });
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1000); });
  settle();
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/InsufficientCpu");
  EXPECT_EQ(condition("b", "Ready"), "True/PartlyServing");
  EXPECT_NE(message("b", "Allocated").find("keeps its floor of 1"), std::string::npos);
  EXPECT_EQ(gateway.serving.size(), 2u);
}

TEST_F(Controller, WhenCpusGoTheYoungestGivesWayAndComesBackWithThem) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(2000); });
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(2000); });
  settle();
  const GroupId b = services->summary({"n", "b"})->group;
  allocation.capacity = MilliCpu(2000);
  services->floorLost(b);
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/InsufficientCpu");
  EXPECT_EQ(instancesOf("b").size(), 0u);
  EXPECT_FALSE(allocation.groups.contains(b)) << "a group that waits keeps no floor";
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  allocation.capacity = MilliCpu(4000);
  loop.advance(Seconds(6));
  settle();
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
}

TEST_F(Controller, QuotasRefuseByName) {
  TenantQuota quota;
  quota.services = 1;
  quota.cpus = MilliCpu(2000);
  putTenant("team", {"n"}, quota);
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1000); });
  settle();
  putService("b");
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/QuotaExceeded");
  EXPECT_NE(message("b", "Ready").find("quota.services"), std::string::npos);
  EXPECT_EQ(allocation.groups.begin()->second.tenantCap, MilliCpu(2000)) << "what the tenant's services own together";
  EXPECT_EQ(allocation.groups.begin()->second.ceiling, MilliCpu(0)) << "each by itself may borrow: only maxCpus ends that";
  quota.services = 2;
  putTenant("team", {"n"}, quota);
  settle();
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1500); });
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/QuotaExceeded");
  EXPECT_EQ(gateway.serving.size(), 2u) << "what runs goes on";
}

TEST_F(Controller, AMemoryQuotaBindsItsTenantOnly) {
  TenantQuota quota;
  quota.memory = Bytes(240LL << 20);
  putTenant("team", {"n"}, quota);
  putTenant("other", {"m"});
  putService("a", [](ModelServiceSpec& s) { s.instances = 3; });
  putService("m/b", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 1);
  EXPECT_EQ(condition("a", "Ready"), "True/PartlyServing");
  EXPECT_NE(message("a", "Ready").find("quota.memory of tenant team"), std::string::npos) << message("a", "Ready");
  EXPECT_EQ(instancesOf("b").size(), 2u);
}

TEST_F(Controller, ANamespaceWithoutTenantRunsNothing) {
  put({std::string(kTenantKind), "", "team"}, objects::encodeSpec([] {
        TenantSpec spec;
        spec.namespaces = {"elsewhere"};
        return spec;
      }()));
  putService("a");
  EXPECT_EQ(condition("a", "Ready"), "False/NamespaceNotOwned");
  EXPECT_TRUE(gateway.services.empty());
  putTenant("team", {"n"});
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  ASSERT_TRUE(store.remove({std::string(kTenantKind), "", "team"}, 0).ok());
  settle();
  EXPECT_TRUE(runtime.running.empty()) << "nobody pays for it any more";
  EXPECT_TRUE(gateway.tenants.empty());
}

TEST_F(Controller, ANamespaceClaimedTwiceBelongsToTheOldest) {
  putTenant("upstart", {"x", "n"});
  EXPECT_EQ(condition("upstart", "Ready", std::string(kTenantKind)), "False/NamespaceConflict");
  EXPECT_EQ(condition("team", "Ready", std::string(kTenantKind)), "True/Accepted");
  EXPECT_EQ(gateway.tenants.at("upstart").namespaces, std::vector<std::string>{"x"});
  putService("a");
  EXPECT_EQ(runtime.starts.at(0).tenant.value, "team");
  settle();
  ASSERT_TRUE(store.remove({std::string(kTenantKind), "", "team"}, 0).ok());
  settle();
  EXPECT_EQ(condition("upstart", "Ready", std::string(kTenantKind)), "True/Accepted");
  EXPECT_EQ(runtime.starts.back().tenant.value, "upstart") << "a worker of the old tenant is replaced, not handed over";
  EXPECT_EQ(gateway.services.begin()->second.tenant.value, "upstart");
}

TEST_F(Controller, ASpecThatDoesNotDecodeStopsNothing) {
  putService("a");
  settle();
  Value broken = Value::emptyMap();
  broken.set("weight", "heavy");
  put({std::string(kModelServiceKind), "n", "a"}, broken);
  EXPECT_EQ(condition("a", "Ready"), "True/PartlyServing");
  EXPECT_EQ(gateway.serving.size(), 1u);
  put({std::string(kTenantKind), "", "odd"}, broken);
  EXPECT_EQ(condition("odd", "Ready", std::string(kTenantKind)), "False/InvalidSpec");
}

TEST_F(Controller, ASpawnThatFailsIsAFailureLikeOthers) {
  runtime.refuse = true;
  putService("a");
  EXPECT_EQ(condition("a", "ModelLoaded"), "False/SpawnFailed");
  EXPECT_EQ(condition("a", "Ready"), "False/CrashLoopBackOff");
  runtime.refuse = false;
  loop.advance(Seconds(2));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
}

TEST_F(Controller, PlacesAreReported) {
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

TEST_F(Controller, ShutDownDrainsEverything) {
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

TEST(ControllerStart, NothingStartsBeforeEveryFileWasLookedAt) {
  ControllerFixture c;
  c.files.held = true;
  c.files.put("a.onnx", "sum-a");
  c.files.put("b.onnx", "sum-b");
  c.putTenant("team", {"n"});
  c.putService("a");
  c.putService("b");
  c.start();
  std::function<void()> first = c.files.waiting.front();
  c.files.waiting.erase(c.files.waiting.begin());
  first();
  c.loop.runUntilIdle();
  EXPECT_TRUE(c.runtime.starts.empty()) << "the allocator shall hear of all instances in one turn";
  EXPECT_EQ(c.allocation.sets, 0);
  c.files.release();
  c.loop.runUntilIdle();
  EXPECT_EQ(c.runtime.starts.size(), 2u);
}

TEST(ControllerStart, TheBarrierFallsAfterTenSeconds) {
  ControllerFixture c;
  c.files.held = true;
  c.files.put("a.onnx", "sum-a");
  c.files.put("b.onnx", "sum-b");
  c.putTenant("team", {"n"});
  c.putService("a");
  c.putService("b");
  c.start();
  std::function<void()> first = c.files.waiting.front();
  c.files.waiting.erase(c.files.waiting.begin());
  first();
  c.loop.advance(Seconds(11));
  EXPECT_EQ(c.runtime.starts.size(), 1u);
}

// Random histories of objects, workers and capacity; after each step no call was out of order and no memory is promised twice, and at the end, left alone, all is
// served that fits.
RC_GTEST_PROP(ControllerHistory, KeepsItsPromisesAndConverges, ()) {
  ControllerFixture c(Bytes(2LL << 30), MilliCpu(4000));
  for (const char* name : {"a", "b", "c"}) c.files.put(std::string(name) + ".onnx", std::string("sum-") + name, Bytes(50'000'000));
  c.putTenant("team", {"n"});
  c.start();
  const std::vector<std::string> names = {"a", "b", "c"};
  for (int step = *rc::gen::inRange(1, 60); step > 0; --step) {
    const std::string name = *rc::gen::elementOf(names);
    const std::vector<InstanceId> ids = c.instancesOf(name);
    switch (*rc::gen::inRange(0, 9)) {
      case 0:
      case 1: {
        const int instances = *rc::gen::inRange(0, 4);
        const std::string model = *rc::gen::elementOf(names);
        const std::int64_t floor = *rc::gen::inRange(0, 3000);
        c.putService(name, [&](ModelServiceSpec& s) { s.instances = instances, s.modelUri = "file:" + model + ".onnx", s.minCpus = MilliCpu(floor); });
        break;
      }
      case 2: c.remove(name); break;
      case 3:
      case 4:
        if (!ids.empty()) c.runtime.ready(ids.back());
        break;
      case 5:
        if (!ids.empty()) c.runtime.end(ids.front(), EndReason::Crashed, "crash");
        break;
      case 6:
        if (!c.gateway.draining.empty()) c.gateway.drained(c.gateway.draining.begin()->first);
        break;
      case 7:
        for (const InstanceId id : std::exchange(c.runtime.stops, {})) {
          if (c.runtime.running.contains(id)) c.runtime.end(id);
        }
        break;
      default: c.loop.advance(Millis(*rc::gen::inRange(1, 5000))); break;
    }
    c.loop.runUntilIdle();
    Bytes promised = c.config.systemMemory;
    for (const auto& [id, spec] : c.runtime.running) promised += spec.memoryLimit;
    RC_ASSERT(promised <= c.config.machineMemory);
    MilliCpu floors;
    for (const auto& [id, group] : c.allocation.groups) floors += group.floor;
    RC_ASSERT(floors <= c.allocation.capacity);
    RC_ASSERT(c.gateway.errors == 0 && c.allocation.errors == 0 && c.gateway.removed < 100);
  }
  for (int i = 0; i < 20; ++i) {
    c.settle();
    c.loop.advance(Seconds(61));
  }
  c.settle();
  for (const ServiceSummary& summary : c.services->summaries()) {
    const bool refused = !summary.obstacles.empty();
    if (!refused) RC_ASSERT(summary.serving == summary.desired);
    for (const InstanceSummary& instance : summary.instances) RC_ASSERT(instance.state == InstanceState::Serving);
  }
}

}  // namespace
}  // namespace coterie::controller
