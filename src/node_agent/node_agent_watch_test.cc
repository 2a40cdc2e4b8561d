// What the agent does about quotas, pressure and rest, and what it sees of hints: its reading of containers between scans.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "node_agent/node_agent.h"
#include "node_agent/node_agent_rig.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

// Kernel rule: a pinned container with a CFS quota is still throttled.
TEST(NodeAgentTest, AQuotaThatThrottlesWhoOwnsMoreCpusIsMatchedAndSaidWhoseItIs) {
  AgentRig rig;
  rig.beginContained("red", kRedCgroup);
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId id = rig.container(0).id;
  rig.kernel.setQuota(id, MilliCpu(500));
  rig.meter.cgroup(kRedCgroup).quota.cpus = MilliCpu(500);
  rig.loop.advance(2s);
  EXPECT_EQ(rig.kernel.quota(id), MilliCpu(500)) << "it throttles nobody yet";
  rig.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 2;
  rig.loop.advance(1s);
  EXPECT_EQ(rig.kernel.quota(id), MilliCpu(2000)) << "as many CPUs as it owns";
  EXPECT_NE(rig.reasons(0).find("quota of 0.50 CPUs, which docker set: raised"), std::string::npos) << rig.reasons(0);
  EXPECT_EQ(rig.container(0).quotaRaised, MilliCpu(2000));
  rig.meter.cgroup(kRedCgroup).quota.cpus = MilliCpu(2000);
  const int blue = rig.begin("blue 2");
  rig.end(blue);
  rig.loop.advance(1s);
  rig.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 2;  // now by what is above it
  rig.loop.advance(1s);
  EXPECT_NE(rig.reasons(0).find("raised while it owns them"), std::string::npos) << rig.reasons(0);
  EXPECT_EQ(rig.reasons(1).find("throttled"), std::string::npos);
}

TEST(NodeAgentTest, ARaisedQuotaFollowsTheCpusThatAreOwned) {
  AgentRig rig;
  rig.beginContained("red", kRedCgroup);
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId id = rig.container(0).id;
  rig.kernel.setQuota(id, MilliCpu(1500));
  rig.meter.cgroup(kRedCgroup).quota.cpus = MilliCpu(1500);
  rig.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 1;
  rig.loop.advance(1s);
  EXPECT_EQ(rig.kernel.quota(id), MilliCpu(4000));
  rig.begin("blue");
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("red").count(), 2);
  EXPECT_EQ(rig.kernel.quota(id), MilliCpu(2000));
}

TEST(NodeAgentTest, AThrottledMemberOfThePoolKeepsItsQuotaAndObservingWritesNone) {
  AgentRig rig;
  const std::string yaml =
      "tenants: [{name: a, weight: 700}, {name: b, weight: 50}]\n"
      "groups:\n  - {name: a, tenant: a, members: [{command: a}]}\n  - {name: b, tenant: b, members: [{command: b}]}\n";
  rig.begin("a");
  rig.beginContained("b", kRedCgroup);
  rig.meter.cgroup(kRedCgroup).quota.cpus = MilliCpu(100);
  rig.start(yaml, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId id = rig.container(1).id;
  rig.kernel.setQuota(id, MilliCpu(100));
  rig.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 5;
  rig.loop.advance(1s);
  EXPECT_EQ(rig.kernel.quota(id), MilliCpu(100));
  EXPECT_NE(rig.reasons(1).find("no CPUs of its own, so the quota stays"), std::string::npos) << rig.reasons(1);

  AgentRig observed;
  observed.beginContained("red", kRedCgroup);
  observed.meter.cgroup(kRedCgroup).quota.cpus = MilliCpu(500);
  observed.start(kTwo, Mode::Observe);
  observed.loop.advance(1s);
  observed.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 5;
  observed.loop.advance(1s);
  EXPECT_NE(observed.reasons(0).find("enforcing would raise it"), std::string::npos) << observed.reasons(0);
  EXPECT_TRUE(observed.kernel.takeOperations().empty());
}

TEST(NodeAgentTest, AThrottleWithoutAQuotaOfItsOwnIsBlamedOnWhatIsAbove) {
  AgentRig rig;
  rig.beginContained("red", kRedCgroup);
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  rig.meter.cgroup(kRedCgroup).cpu.throttledPeriods += 5;
  rig.loop.advance(1s);
  EXPECT_NE(rig.reasons(0).find("by a limit above its own cgroup"), std::string::npos) << rig.reasons(0);
}

// Threads' times show no waiting where a runtime's helper threads come and go; the kernel's pressure does.
TEST(NodeAgentTest, PressureMakesABorrower) {
  AgentRig rig;
  const int red = rig.beginContained("red", kRedCgroup, 2);
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const auto busy = [&](Seconds seconds) {
    for (int tenth = 0; tenth < 10 * seconds.count(); ++tenth) {
      rig.meter.cgroup(kRedCgroup).cpu.used += 140ms;
      rig.processes.run(red, 70ms, 0ms);
      rig.loop.advance(100ms);
    }
  };
  busy(5s);
  EXPECT_TRUE(rig.container(0).loans.empty()) << "1.4 of its 2 CPUs";
  rig.meter.cgroup(kRedCgroup).pressure->somePermille = 200;
  busy(4s);
  EXPECT_FALSE(rig.container(0).loans.empty());
}

TEST(NodeAgentTest, ThreadsOfContainersAtRestAreLookedAtSeldom) {
  AgentRig rig;
  rig.beginContained("red", kRedCgroup);
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(2s);
  rig.processes.threadLooks = 0;
  rig.loop.advance(20s);
  EXPECT_LE(rig.processes.threadLooks, 5) << "every 5 s, not each half second";
  EXPECT_EQ(rig.container(0).use.used, MilliCpu(0));
}

TEST(NodeAgentTest, WhetherAHintWasTakenUpIsSeen) {
  AgentRig rig;
  const int red = rig.begin("red");
  const int blue = rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.container(0).hint, HintSeen::Told) << "it does nothing";
  rig.live(4s, {{red, {50, 50}}, {blue, {90, 10}}});
  EXPECT_EQ(rig.container(0).threads, 2);
  EXPECT_EQ(rig.container(0).hint, HintSeen::NotTakenUp) << "four threads at work";
}

// A cgroup above that is narrower than the machine: the plan stayed shown as if it were in force, and the server was told CPUs that it cannot have.
TEST(NodeAgentLimits, WhoCannotHaveItsPlanIsMarkedAndToldWhatIsInForce) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(Seconds(2));
  const InstanceId id = idOf(rig, "red");
  const CpuSet had = rig.held("red");
  ASSERT_EQ(had.count(), 2);
  rig.kernel.limit(id, had);
  rig.processes.setCpus(red, had);
  rig.reload(kEnforced + kRed);
  rig.loop.advance(Seconds(5));
  const ContainerReport limited = rig.container(0);
  EXPECT_TRUE(limited.contested);
  EXPECT_EQ(limited.planned.count(), 4);
  EXPECT_EQ(limited.limit, "cgroup /docker allows only " + had.toString());
  EXPECT_EQ(limited.threads, 2);
  EXPECT_EQ(rig.threads.at(red), 2);
  EXPECT_NE(rig.reasons(0).find("cannot have CPUs 0-3: cgroup /docker allows only " + had.toString()), std::string::npos) << rig.reasons(0);
  EXPECT_NE(reportText(rig.node->report(), false).find("0-3, not allowed"), std::string::npos);
  rig.kernel.limit(id, std::nullopt);
  rig.processes.setCpus(red, CpuSet::range(0, 3));
  rig.loop.advance(Seconds(5));
  EXPECT_EQ(rig.container(0).limit, "");
  EXPECT_EQ(rig.threads.at(red), 4);
}

TEST(NodeAgentLimits, WhatIsForetoldSaysWhichSetAboveIsInTheWay) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.limits[red] = CpuSet{3};
  rig.start(kTwo, Mode::Observe);
  rig.loop.advance(Seconds(2));
  EXPECT_EQ(rig.container(0).limit, "cgroup /docker allows only 3");
  EXPECT_NE(rig.reasons(0).find("could not be given CPUs 0-3: cgroup /docker allows only 3"), std::string::npos) << rig.reasons(0);
}

}  // namespace
}  // namespace coterie::node_agent
