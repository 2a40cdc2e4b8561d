// The loop on a machine, a kernel and processes that are not there: what it says while observing, what it does while enforcing.
#include "node_agent/node_agent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "node_agent/node_agent_rig.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

// Two nodes of 16 GiB, and two servers of 10 GiB: they are planned for a node each, and nothing is said of memory nodes: there is room.
TEST(NodeAgentTest, ServersWithMemoryGetANodeEachAndNothingIsSaidOfMemoryNodes) {
  for (const Mode mode : {Mode::Observe, Mode::Enforce}) {
    AgentRig rig;
    rig.machine.set(testing::regularMachine("two nodes", {2, 1, 0, 2, 1}));
    const int red = rig.begin("red");
    const int blue = rig.begin("blue");
    for (const int pid : {red, blue}) rig.processes.setResident(pid, Bytes(std::int64_t{10} << 30));
    rig.start(kTwo, mode);
    const auto homes = rig.homes();
    ASSERT_EQ(homes.size(), 2U);
    EXPECT_FALSE(homes.at("red").intersects(homes.at("blue")));
    const AgentReport report = rig.node->report();
    for (const GroupReport& group : report.groups) {
      for (const std::string& reason : group.reasons) EXPECT_EQ(reason.find("memory node"), std::string::npos) << reason;
    }
  }
}

TEST(NodeAgentTest, ObservingChangesNothingAndForetells) {
  AgentRig rig;
  const int red = rig.begin("red");
  const int blue = rig.begin("blue");
  rig.start(kTwo, Mode::Observe);
  rig.live(10s, {{red, {50, 50}}, {blue, {50, 50}}});  // 8 threads on 4 CPUs
  const AgentReport report = rig.node->report();
  EXPECT_EQ(report.mode, Mode::Observe);
  ASSERT_EQ(report.groups.size(), 2U);
  const GroupReport& first = report.groups[0];
  EXPECT_EQ(first.name, "red/s");
  EXPECT_EQ(first.use.used, MilliCpu(2000));
  EXPECT_EQ(first.use.wanted, MilliCpu(4000));
  EXPECT_EQ(first.entitlement, MilliCpu(2000));
  EXPECT_EQ(first.demand, MilliCpu(4000)) << "at its limit: twice what it uses";
  EXPECT_EQ(first.containers[0].planned.count(), 2);
  EXPECT_EQ(first.containers[0].threads, 2);
  EXPECT_DOUBLE_EQ(first.forecast.contentionNow, 2);
  EXPECT_NEAR(first.forecast.sets.likely, 0.91, 0.01) << "it keeps its four threads, on fewer CPUs";
  EXPECT_NEAR(report.overall.withHint.likely, 1.83, 0.01);
  EXPECT_FALSE(first.reasons.empty());
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  EXPECT_TRUE(rig.log.empty());
  EXPECT_EQ(report.elsewhere, MilliCpu(0));
  EXPECT_TRUE(rig.kernel.system().empty()) << "nor is the agent itself placed";
}

TEST(NodeAgentTest, AnObservedPlanIsSteady) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kTwo, Mode::Observe);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.homes().at("red").count(), 4);
  EXPECT_EQ(rig.node->report().absent, (std::vector<std::string>{"blue/s"}));
  const int blue = rig.begin("blue");
  rig.loop.advance(1s);
  const auto shared = rig.homes();
  EXPECT_FALSE(shared.at("red").intersects(shared.at("blue")));
  const int changes = rig.node->changes();
  rig.loop.advance(5s);
  EXPECT_EQ(rig.node->changes(), changes);
  EXPECT_EQ(rig.homes(), shared);
  rig.end(blue);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.homes().at("red").count(), 4);
}

TEST(NodeAgentTest, EnforcingGivesCpusAndTellsThreads) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(rig.held("red").count(), 2);
  EXPECT_FALSE(rig.held("red").intersects(rig.held("blue")));
  EXPECT_EQ(rig.threads.at(red), 2);
  EXPECT_EQ(rig.homes().at("red"), rig.held("red"));
  EXPECT_FALSE(rig.node->report().overall.known) << "it is in force: there is nothing to foretell";
}

// Who loses CPUs must not run more threads than it has for even one run; who gains may begin when it has them.
TEST(NodeAgentTest, LosersAreToldFirstAndGainersAfterwards) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  ASSERT_EQ(rig.threads.at(red), 4);
  rig.log.clear();
  const int blue = rig.begin("blue");
  rig.loop.advance(1s);
  EXPECT_EQ(rig.threads.at(red), 2);
  EXPECT_EQ(rig.threads.at(blue), 2);
  const auto at = [&](const std::string& begin) {
    return std::find_if(rig.log.begin(), rig.log.end(), [&](const std::string& line) { return line.starts_with(begin); }) - rig.log.begin();
  };
  EXPECT_LT(at("hint red 2"), at("write"));
  EXPECT_LT(at("write"), at("hint blue 2"));
  EXPECT_LT(static_cast<std::size_t>(at("hint blue 2")), rig.log.size());
}

TEST(NodeAgentTest, WhoComesOrGoesIsNoticedWithinASecond) {
  AgentRig rig;
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(3s);
  EXPECT_TRUE(rig.node->report().groups.empty());
  const int red = rig.begin("red");
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("red").count(), 4);
  rig.end(red);
  rig.loop.advance(1s);
  EXPECT_TRUE(rig.node->report().groups.empty());
  EXPECT_EQ(rig.threads.at(red), 0) << "its hint is nobody's any more";
}

TEST(NodeAgentTest, ThePoolSharesAndRunsOneThreadEach) {
  AgentRig rig;
  const std::string yaml =
      "tenants: [{name: a, weight: 700}, {name: b, weight: 50}, {name: c, weight: 50}]\n"
      "groups:\n  - {name: a, tenant: a, members: [{command: a}], hints: {file: \"/r/{pid}\"}}\n"
      "  - {name: b, tenant: b, members: [{command: b}], hints: {file: \"/r/{pid}\"}}\n"
      "  - {name: c, tenant: c, members: [{command: c}], hints: {file: \"/r/{pid}\"}}\n";
  const int a = rig.begin("a");
  const int b = rig.begin("b");
  const int c = rig.begin("c");
  rig.start(yaml, Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("a").count(), 3);
  EXPECT_EQ(rig.held("b"), rig.held("c"));
  EXPECT_EQ(rig.threads, (std::map<int, int>{{a, 3}, {b, 1}, {c, 1}}));
}

// Entitlements of 0.375 and 0.125 CPUs put both into a pool of one; there each has half of it, or all while the other rests.
TEST(NodeAgentTest, AForecastForThePoolKnowsThatTheKernelDividesItAlike) {
  const std::string yaml =
      "tenants: [{name: a, weight: 700}, {name: b, weight: 75}, {name: c, weight: 25}]\n"
      "groups:\n  - {name: a, tenant: a, members: [{command: a}]}\n  - {name: b, tenant: b, members: [{command: b}]}\n"
      "  - {name: c, tenant: c, members: [{command: c}]}\n";
  for (const bool both : {true, false}) {
    AgentRig rig;
    const int a = rig.begin("a");
    const int b = rig.begin("b");
    const int c = rig.begin("c");
    rig.start(yaml, Mode::Observe);
    rig.live(10s, {{a, {50, 50}}, {b, {12, 88}}, {c, {both ? 13 : 0, both ? 87 : 0}}});
    const AgentReport report = rig.node->report();
    ASSERT_TRUE(report.groups.at(1).inPool && report.groups.at(2).inPool);
    EXPECT_NEAR(report.groups.at(1).forecast.withHint.low, (both ? 0.5 : 1) / 0.48, 1e-3);
    EXPECT_EQ(report.groups.at(2).forecast.known, both);
    if (both) {
      EXPECT_NEAR(report.groups.at(2).forecast.withHint.low, 0.5 / 0.52, 1e-3);
    }
  }
}

// The only node is red's: blue is told that, in words, while observing and while enforcing.
TEST(NodeAgentTest, IsolationThatCannotBeHadIsSaidAsThatAndNotAsAFloor) {
  const std::string yaml =
      "groups:\n  - {name: red/s, tenant: red, isolation: core, minCpus: 1, members: [{command: \"red*\"}]}\n"
      "  - {name: blue/s, tenant: blue, isolation: node, members: [{command: \"blue*\"}]}\n";
  for (const Mode mode : {Mode::Observe, Mode::Enforce}) {
    AgentRig rig;
    rig.begin("red");
    rig.begin("blue");
    rig.start(yaml, mode);
    rig.loop.advance(1s);
    const AgentReport report = rig.node->report();
    ASSERT_EQ(report.groups.size(), 2U);
    EXPECT_FALSE(report.groups[0].pending);
    EXPECT_TRUE(report.groups[1].pending);
    EXPECT_EQ(report.groups[1].waitsFor, Isolation::Node);
    const std::string said = rig.reasons(1);
    for (const char* words : {"this machine is a single NUMA node", "red/s is guaranteed 1 CPU (isolation core)", "isolation core would fit"})
      EXPECT_NE(said.find(words), std::string::npos) << words << "\n" << said;
    EXPECT_EQ(said.find("minCpus needs"), std::string::npos) << said;
    EXPECT_NE(reportText(report, false).find("waits (isolation node)"), std::string::npos);
    EXPECT_EQ(*reportValue(report).find("groups")->asList()->at(1).find("waitsForIsolation")->asString(), "node");
  }
}

// The runtime's weights are left alone, and whoever counts on a share of the pool is told so.
TEST(NodeAgentTest, UnequalSharesOfThePoolAreRemarked) {
  const auto remarksOf = [](const std::string& weights) {
    AgentRig rig;
    for (const char* name : {"a", "b", "c"}) rig.begin(name);
    rig.start("tenants: [" + weights +
                  "]\ngroups:\n  - {name: a, tenant: a, members: [{command: a}]}\n"
                  "  - {name: b, tenant: b, members: [{command: b}]}\n  - {name: c, tenant: c, members: [{command: c}]}\n",
              Mode::Observe);
    rig.loop.advance(1s);
    return rig.node->report().remarks;
  };
  EXPECT_TRUE(remarksOf("{name: a, weight: 700}, {name: b, weight: 50}, {name: c, weight: 50}").empty()) << "alike";
  const std::vector<std::string> remarks = remarksOf("{name: a, weight: 700}, {name: b, weight: 75}, {name: c, weight: 25}");
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(remarks[0].find("(b 0.38, c 0.12), are not enforced"), std::string::npos) << remarks[0];
}

// Servers of others cannot yield as our lanes do: a loan is given late, is told as threads, and ends within a tenth of a second.
// A pod with its init and its pause, beside a small server: the pause goes to the pool, is told nothing, and the init's CPUs become the app's.
TEST(NodeAgentTest, PauseContainersFollowThePoolAndAnInitsCpusBecomeTheApps) {
  AgentRig rig;
  const std::string pod = "/kubepods/burstable/pod8d4c0a8e-5b7f-4d6c-9e1a-2f3b4c5d6e7f/";
  const auto inPod = [&](const std::string& command, char id) {
    const int pid = rig.kernel.spawn(InstanceId(1), 0, 0).pid;
    rig.processes.begin(command, 1, pod + std::string(64, id), pid);
    return pid;
  };
  const int pause = inPod("/pause", 'a');
  const int init = inPod("fetch", 'b');
  rig.begin("blue");
  rig.start(R"(
groups:
  - name: red/s
    tenant: red
    minCpus: 1
    members: [{command: fetch, role: init, minCpus: 2}, {command: "red*"}]
    hints: {file: "/run/{pid}"}
  - {name: blue/s, tenant: blue, maxCpus: 500m, members: [{command: "blue*"}]}
)",
            Mode::Enforce);
  const CpuSet before = rig.held("fetch");
  EXPECT_GE(before.count(), 2);
  EXPECT_EQ(rig.threads.count(pause) + rig.threads.count(init), 0U) << "no servers";
  inPod("red", 'c');
  rig.loop.advance(600ms);
  EXPECT_EQ(rig.held("red"), before);
  rig.end(init);
  rig.loop.advance(600ms);
  const CpuSet pool = rig.node->report().pool;
  EXPECT_FALSE(pool.empty());
  EXPECT_TRUE(rig.held("red").isSubsetOf(before));
  int pauses = 0;
  for (int id = 1; id < 10; ++id) {
    const foreign::FoundContainer* found = rig.node->member(InstanceId(id));
    if (found == nullptr || found->pid() != pause) continue;
    ++pauses;
    EXPECT_EQ(rig.kernel.observe(InstanceId(id))->home, pool);
  }
  EXPECT_EQ(pauses, 1);
  EXPECT_EQ(rig.threads.count(pause), 0U);
}

TEST(NodeAgentTest, IdleCpusAreLentLateAndTakenBackSoon) {
  AgentRig rig;
  const int red = rig.begin("red");
  const int blue = rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const CpuSet own = rig.held("red");
  rig.live(1s, {{red, {50, 50}}});
  EXPECT_EQ(rig.threads.at(red), 2) << "a need must last";
  rig.live(2s, {{red, {50, 50}}});
  const auto report = rig.node->report();
  EXPECT_EQ(report.groups[0].containers[0].loans, rig.held("blue"));
  EXPECT_EQ(rig.kernel.observe(report.groups[0].containers[0].id)->loans, rig.held("blue"));
  EXPECT_EQ(rig.threads.at(red), 4);
  EXPECT_EQ(rig.held("red"), own) << "no home moves for a load";
  rig.processes.run(blue, 80ms, 20ms);
  rig.processes.run(red, 100ms, 0ms);
  rig.loop.advance(100ms);
  EXPECT_TRUE(rig.node->report().groups[0].containers[0].loans.empty()) << "its owner is awake";
  EXPECT_EQ(rig.threads.at(red), 2);
}

TEST(NodeAgentTest, LoansEndBeforeAPlanIsMade) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  rig.live(3s, {{red, {50, 50}}});
  ASSERT_FALSE(rig.node->report().groups[0].containers[0].loans.empty());
  rig.log.clear();
  rig.begin("blue");  // a second one
  rig.live(1s, {{red, {50, 50}}});
  ASSERT_FALSE(rig.log.empty());
  EXPECT_EQ(rig.log.front().substr(0, 10), "hint red 2") << "taken back first";
}

TEST(NodeAgentTest, SomebodyElsesChangeIsRepaired) {
  AgentRig rig;
  rig.begin("red");
  rig.begin("blue");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const CpuSet home = rig.held("red");
  const InstanceId id = rig.node->report().groups[0].containers[0].id;
  rig.kernel.disturb(id, CpuSet::range(0, 3));
  rig.loop.advance(1500ms);
  EXPECT_EQ(rig.held("red"), home);
}

TEST(NodeAgentTest, LeavingGivesBackAndWithdrawsHints) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId id = rig.node->report().groups[0].containers[0].id;
  ASSERT_TRUE(rig.kernel.observe(id).ok());
  bool done = false;
  rig.node->stop([&] { done = true; });
  rig.loop.advance(1s);
  EXPECT_TRUE(done);
  EXPECT_FALSE(rig.kernel.observe(id).ok()) << "restored";
  EXPECT_EQ(rig.threads.at(red), 0);
  EXPECT_EQ(rig.loop.pendingTimers(), 0U);
}

TEST(NodeAgentTest, LeavingWaitsForNoWriteThatHangs) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  rig.kernel.hang(rig.node->report().groups[0].containers[0].id, CpuChangeKind::HomeCpus);
  rig.begin("blue");
  rig.loop.advance(600ms);
  bool done = false;
  rig.node->stop([&] { done = true; });
  rig.loop.advance(1100ms);
  EXPECT_TRUE(done);
  rig.applier.release(EINTR);
  rig.loop.runUntilIdle();
}

TEST(NodeAgentTest, AScanThatFailsChangesNothing) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(1s);
  rig.processes.unreadable = true;
  rig.loop.advance(2s);
  EXPECT_EQ(rig.held("red").count(), 4);
  rig.processes.unreadable = false;
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("red").count(), 4);
}

TEST(NodeAgentTest, TheMachineChangesUnderAnObservedPlan) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kTwo, Mode::Observe);
  rig.machine.set(testing::withOnline(agent::flatMachine(4), CpuSet{0, 2}, CpuSet{0, 2}));
  rig.loop.advance(1s);
  EXPECT_EQ(rig.homes().at("red"), (CpuSet{0, 2}));
}

TEST(NodeAgentTest, TheReportIsWhole) {
  AgentRig rig;
  const int red = rig.begin("red --port 1");
  rig.start(kTwo, Mode::Observe);
  rig.live(3s, {{red, {50, 50}}});
  const AgentReport report = rig.node->report();
  const std::string text = reportText(report, false);
  for (const char* words :
       {"observing: nothing is changed", "red/s", "red --port 1", "CPU SETS ALONE", "nothing was found of blue/s", "entitled to 4.00 CPUs"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  const Value value = reportValue(report);
  EXPECT_EQ(*value.find("mode")->asString(), "observe");
  ASSERT_EQ(value.find("groups")->asList()->size(), 1U);
  const Value& group = value.find("groups")->asList()->front();
  EXPECT_EQ(*group.find("entitlementMilliCpu")->asInt(), 4000);
  EXPECT_NE(group.find("forecast")->find("cpuSetsAndThreads")->find("likely")->asDouble(), nullptr);
}

// A rollout of a hundred containers is one change of the machine, not a hundred.
TEST(NodeAgentTest, ABurstOfAHundredContainersCostsAtMostTwoPlans) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kTwo, Mode::Enforce);
  rig.loop.advance(2s);
  const std::int64_t before = rig.node->controllerView()->plans;
  for (int i = 0; i < 100; ++i) rig.begin("blue " + std::to_string(i), 1);
  rig.loop.advance(700ms);
  EXPECT_EQ(rig.node->report().groups.at(1).containers.size(), 100U);
  EXPECT_LE(rig.node->controllerView()->plans, before + 2);
  const std::int64_t then = rig.node->controllerView()->plans;
  rig.begin("red 2");
  rig.loop.advance(550ms);
  EXPECT_EQ(rig.node->controllerView()->plans, then + 1) << "one comes alone";
}

}  // namespace
}  // namespace coterie::node_agent
