// Who is let in: memory, CPU floors and quotas.
#include <gtest/gtest.h>

#include "controller/controller_fixture.h"

namespace coterie::controller {
namespace {

using Admission = ControllerStory;

TEST_F(Admission, AModelThatDoesNotFitBesideTheOldOneIsRefusedByItsMissingBytes) {
  files.put("a.onnx", "sum-a", Bytes(600'000'000));
  files.put("b.onnx", "sum-b", Bytes(1'300'000'000));
  putService("a");
  settle();
  ASSERT_EQ(condition("a", "Ready"), "True/Serving");
  putService("a", [](ModelServiceSpec& s) { s.modelUri = "file:b.onnx"; });
  settle();
  EXPECT_EQ(runtime.starts.size(), 1u) << "refused before loading";
  EXPECT_EQ(gateway.serving.size(), 1u);
  EXPECT_EQ(condition("a", "Ready"), "True/ServingOldSpec");
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

TEST_F(Admission, MeasuredMemoryIsKeptByChecksum) {
  putService("a");
  runtime.ready(InstanceId(1), Bytes(300 << 20), Bytes(310 << 20));
  loop.runUntilIdle();
  restart();
  ASSERT_EQ(runtime.starts.size(), 2u);
  EXPECT_EQ(runtime.starts[1].memoryLimit, Bytes(((300LL << 20) + 4 * (8LL << 20)) * 6 / 5)) << "steady and four lanes";
}

TEST_F(Admission, TooLittleMemoryIsPendingBeforeLoading) {
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(64 << 20); });
  EXPECT_TRUE(runtime.starts.empty());
  EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory");
  EXPECT_NE(message("a", "Ready").find("Raise spec.memory"), std::string::npos);
  putService("a", [](ModelServiceSpec& s) { s.memory = Bytes(200 << 20); });
  EXPECT_EQ(runtime.starts.size(), 1u);
  EXPECT_EQ(runtime.starts[0].memoryLimit, Bytes(200 << 20));
  EXPECT_EQ(allocation.expected.at(runtime.starts[0].id), Bytes(200 << 20)) << "that is what its memory nodes are to have room for";
}

TEST_F(Admission, AFullMachineKeepsANewcomerWaitingAndTouchesNobody) {
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

TEST_F(Admission, AFloorThatDoesNotFitIsPendingAndTouchesNobody) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1500); });
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/InsufficientCpu");
  EXPECT_EQ(condition("b", "Allocated"), "False/InsufficientCpu");
  EXPECT_NE(message("b", "Ready").find("1 CPU missing"), std::string::npos) << message("b", "Ready");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  EXPECT_EQ(allocation.groups.size(), 1u);
  remove("a");
  settle();
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
}

TEST_F(Admission, WhoWaitsForMemoryKeepsNoCpusFromOthers) {
  files.put("a.onnx", "sum-a", Bytes(9'000'000'000));
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(4000); });
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(4000); });
  settle();
  EXPECT_EQ(condition("a", "Ready"), "False/InsufficientMemory");
  EXPECT_EQ(condition("b", "Ready"), "True/Serving");
}

TEST_F(Admission, TwoNewcomersInOneTurnAreCountedTogether) {
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

TEST_F(Admission, ARaisedFloorThatDoesNotFitLeavesTheOldOneInForce) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(2000); });
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(1000); });
  settle();
  putService("b", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/InsufficientCpu");
  EXPECT_EQ(condition("b", "Ready"), "True/ServingOldSpec");
  EXPECT_NE(message("b", "Allocated").find("keeps its floor of 1"), std::string::npos);
  EXPECT_EQ(gateway.serving.size(), 2u);
}

TEST_F(Admission, WhenCpusGoTheYoungestGivesWayAndComesBackWithThem) {
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

TEST_F(Admission, QuotasRefuseByName) {
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

TEST_F(Admission, AMemoryQuotaBindsItsTenantOnly) {
  TenantQuota quota;
  quota.memory = Bytes(240LL << 20);
  putTenant("team", {"n"}, quota);
  putTenant("other", {"m"});
  putService("a", [](ModelServiceSpec& s) { s.instances = 3; });
  putService("m/b", [](ModelServiceSpec& s) { s.instances = 2; });
  settle();
  EXPECT_EQ(status("a", "readyInstances"), 1);
  EXPECT_EQ(condition("a", "Ready"), "False/PartlyServing");
  EXPECT_NE(message("a", "Ready").find("quota.memory of tenant team"), std::string::npos) << message("a", "Ready");
  EXPECT_EQ(instancesOf("b").size(), 2u);
}

// The fake's machine: four CPUs in two cores of one node.
const auto kIsolated = [](Isolation level, std::int64_t floor = 0) {
  return [level, floor](ModelServiceSpec& spec) {
    spec.isolation = level;
    spec.minCpus = MilliCpu(floor);
  };
};

TEST_F(Admission, AnIsolatedServiceSaysWhatItCostsAndWhatItDoesNotGet) {
  putService("a", kIsolated(Isolation::Core, 2500));
  settle();
  EXPECT_EQ(condition("a", "Allocated"), "True/Isolated");
  EXPECT_EQ(message("a", "Allocated"),
            "isolation core: it owns whole cores of 2 CPU, 4 CPU at least for minCpus 2500m; memory bandwidth stays shared");
  EXPECT_EQ(allocation.groups.begin()->second.isolation, Isolation::Core);
}

TEST_F(Admission, AnIsolatedNewcomerThatDoesNotFitNamesWhatIsMissing) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  putService("b", kIsolated(Isolation::Core));
  settle();
  EXPECT_EQ(condition("b", "Ready"), "False/IsolationImpossible");
  EXPECT_EQ(
      message("b", "Allocated"),
      "isolation core cannot be had: it needs 1 core to itself, and of the 2 here the guarantees of others leave none; n/a is guaranteed 3 CPUs; "
      "without isolation it would fit; what else would help: guarantees of others (minCpus, isolation) that are 1 CPU less, or a larger machine. "
      "1 CPU missing beside the floors of the services that run");
  EXPECT_EQ(allocation.groups.size(), 1U);
  putService("b", kIsolated(Isolation::Node));
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/IsolationImpossible");
  EXPECT_NE(message("b", "Allocated").find("this machine is a single NUMA node, and nobody else could run beside it"), std::string::npos)
      << message("b", "Allocated");
  EXPECT_EQ(condition("a", "Ready"), "True/Serving") << "it is the newcomer who is refused";
  remove("a");
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "True/Isolated") << "alone it may have the machine";
}

// A condition is read by the tenant: who else holds the machine is not its business.
TEST_F(Admission, AnotherTenantsServiceIsNotNamedInACondition) {
  putTenant("rival", {"m"});
  putService("m/a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(3000); });
  settle();
  putService("b", kIsolated(Isolation::Core));
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/IsolationImpossible");
  EXPECT_EQ(message("b", "Allocated").find("m/a"), std::string::npos) << message("b", "Allocated");
  EXPECT_NE(message("b", "Allocated").find("another group is guaranteed 3 CPUs"), std::string::npos) << message("b", "Allocated");
}

TEST_F(Admission, TheLevelOfARunningServiceChangesWithoutARestart) {
  putService("a");
  settle();
  const std::vector<InstanceId> before = instancesOf("a");
  for (const Isolation level : {Isolation::Core, Isolation::Node, Isolation::None, Isolation::Core}) {
    putService("a", kIsolated(level));
    settle();
    EXPECT_EQ(allocation.groups.begin()->second.isolation, level);
    EXPECT_EQ(condition("a", "Ready"), "True/Serving");
    EXPECT_EQ(condition("a", "Allocated"), level == Isolation::None ? "True/Allocated" : "True/Isolated");
    EXPECT_EQ(instancesOf("a"), before);
  }
  EXPECT_EQ(runtime.starts.size(), 1U);
}

TEST_F(Admission, ARaisedLevelThatDoesNotFitLeavesTheOldOneInForce) {
  putService("a", [](ModelServiceSpec& s) { s.minCpus = MilliCpu(2000); });
  putService("b", kIsolated(Isolation::Core));
  settle();
  const GroupId b = services->summary({"n", "b"})->group;
  putService("b", kIsolated(Isolation::Core, 2500));
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/InsufficientCpu");
  EXPECT_EQ(condition("b", "Ready"), "True/ServingOldSpec");
  EXPECT_NE(message("b", "Allocated").find("2 CPU missing beside the floors of the services that run; it keeps its floor of 0. "), std::string::npos)
      << message("b", "Allocated");
  putService("b", kIsolated(Isolation::Node));
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "False/IsolationImpossible");
  EXPECT_NE(message("b", "Allocated").find("it keeps its floor of 0 and isolation core"), std::string::npos) << message("b", "Allocated");
  EXPECT_EQ(allocation.groups.at(b).isolation, Isolation::Core);
  putService("b", kIsolated(Isolation::None, 2000));
  settle();
  EXPECT_EQ(condition("b", "Allocated"), "True/Allocated") << "two CPUs are what it owned";
  EXPECT_EQ(instancesOf("b").size(), 1U);
}

TEST_F(Admission, AQuotaOfCpusIsChargedInUnits) {
  TenantQuota quota;
  quota.cpus = MilliCpu(1500);
  putTenant("team", {"n"}, quota);
  putService("a", kIsolated(Isolation::Core));
  settle();
  EXPECT_EQ(condition("a", "Ready"), "False/QuotaExceeded");
  EXPECT_NE(message("a", "Allocated").find("wants 2 CPU (isolation core owns whole units of 2 CPU"), std::string::npos) << message("a", "Allocated");
  quota.cpus = MilliCpu(2000);
  putTenant("team", {"n"}, quota);
  settle();
  EXPECT_EQ(condition("a", "Ready"), "True/Serving");
  quota.cpus = MilliCpu(1000);
  putTenant("team", {"n"}, quota);
  settle();
  EXPECT_NE(condition("team", "WithinQuota", std::string(kTenantKind)), "True/WithinQuota") << "lowered below what it owns: said, nothing is taken";
  EXPECT_EQ(instancesOf("a").size(), 1U);
}

TEST_F(Admission, WhatIsIsolatedStaysSoOverARestart) {
  putService("a", kIsolated(Isolation::Core));
  settle();
  restart();
  settle();
  EXPECT_EQ(condition("a", "Allocated"), "True/Isolated");
  EXPECT_EQ(allocation.groups.begin()->second.isolation, Isolation::Core);
}

}  // namespace
}  // namespace coterie::controller
