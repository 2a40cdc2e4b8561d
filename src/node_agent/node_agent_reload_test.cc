// Another configuration for an agent that runs: each kind of change, on a machine, a kernel and processes that are not there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "node_agent/node_agent_rig.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

// A process of each, enforced by a file that names both.
struct RedAndBlue : AgentRig {
  RedAndBlue() {
    start(kEnforced + kRed + kBlue, Mode::Enforce);
    loop.advance(1s);
  }
  const int red = begin("red");
  const int blue = begin("blue");
};

TEST(NodeAgentReloadTest, AGroupIsAddedAndTheOthersOnlyMakeRoom) {
  AgentRig rig;
  rig.begin("red");
  const int blue = rig.begin("blue");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId red = idOf(rig, "red");
  EXPECT_EQ(rig.held("red").count(), 4);
  rig.reload(kEnforced + kBlue + kRed);
  EXPECT_EQ(idOf(rig, "red"), red);
  EXPECT_EQ(rig.held("red").count(), 2);
  EXPECT_EQ(rig.held("blue").count(), 2);
  EXPECT_FALSE(rig.held("red").intersects(rig.held("blue")));
  EXPECT_EQ(rig.threads.at(blue), 2);
  EXPECT_EQ(rig.node->report().groups.at(0).name, "blue/s") << "as the file has it now";
  EXPECT_EQ(rig.node->report().configuration.reloads, 1);
}

TEST(NodeAgentReloadTest, AGroupIsRemovedAndItsContainersAreGivenBack) {
  RedAndBlue rig;
  const int red = rig.red;
  const InstanceId gone = idOf(rig, "red");
  const InstanceId stays = idOf(rig, "blue");
  const CpuSet before = rig.held("blue");
  ASSERT_TRUE(rig.kernel.observe(gone).ok());
  rig.reload(kEnforced + kBlue);
  EXPECT_FALSE(rig.kernel.observe(gone).ok()) << "not the controller's any more";
  EXPECT_EQ(rig.node->member(gone), nullptr);
  EXPECT_EQ(rig.threads.at(red), 0) << "its hint is withdrawn";
  EXPECT_EQ(idOf(rig, "blue"), stays);
  EXPECT_TRUE(before.isSubsetOf(rig.held("blue")));
  EXPECT_EQ(rig.held("blue").count(), 4);
  rig.loop.advance(3s);
  EXPECT_FALSE(rig.kernel.observe(gone).ok());
  EXPECT_TRUE(rig.node->report().absent.empty());
  rig.reload(kEnforced + kBlue + kRed);
  EXPECT_EQ(rig.held("red").count(), 2) << "and back again";
  EXPECT_EQ(rig.threads.at(red), 2);
}

// The kernel, and what a controller that asks where a container is gets told while that is given back.
class Asking final : public CpuController {
 public:
  explicit Asking(AgentRig& rig) : rig_(rig) {}
  [[nodiscard]] const CpuControllerTraits& traits() const override { return rig_.kernel.traits(); }
  [[nodiscard]] Status add(const ContainerRegistration& container) override { return rig_.kernel.add(container); }
  void remove(InstanceId id) override {
    std::string pids;
    if (const foreign::FoundContainer* found = rig_.node->member(id)) {
      for (const SeenProcess& process : found->processes) pids += " " + std::to_string(process.pid);
    }
    removed.push_back(pids);
    rig_.kernel.remove(id);
  }
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override { return rig_.kernel.prepare(change); }
  [[nodiscard]] Result<PreparedChange> prepareQuota(InstanceId id, MilliCpu least) override { return rig_.kernel.prepareQuota(id, least); }
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int lane, LanePlace place) override {
    return rig_.kernel.prepareLaneMove(id, lane, place);
  }
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override { return rig_.kernel.observe(id); }
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int thread) const override { return rig_.kernel.threadUse(id, thread); }
  [[nodiscard]] ContainerMemory memoryOf(InstanceId id) const override { return rig_.kernel.memoryOf(id); }
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override { return rig_.kernel.placeSystem(cpus); }
  void sweep() override { rig_.kernel.sweep(); }
  void restore() override { rig_.kernel.restore(); }
  Names removed;

 private:
  AgentRig& rig_;
};

// Threads that it has begun since they were last noted would have kept our set: only who is asked for its processes can see them.
TEST(NodeAgentReloadTest, WhoLeavesIsGivenBackByTheProcessesThatItHasNow) {
  AgentRig rig;
  Asking asking(rig);
  rig.controller = &asking;
  const int first = rig.beginContained("red", kRedCgroup);
  const int second = rig.beginContained("red helper", kRedCgroup);
  rig.begin("blue");
  rig.start(kEnforced + kRed + kBlue, Mode::Enforce);
  rig.loop.advance(1s);
  rig.end(second);
  rig.reload(kEnforced + kBlue);
  EXPECT_EQ(asking.removed, Names{" " + std::to_string(first)}) << "who has ended is not among them";
  rig.end(rig.container(0).pid);
  rig.loop.advance(1s);
  EXPECT_EQ(asking.removed.back(), "") << "of one that has gone there is nothing to give back";
}

TEST(NodeAgentReloadTest, AReorderedFileChangesNothing) {
  AgentRig rig;
  for (const char* command : {"red", "blue", "green"}) rig.begin(command);
  rig.start(kEnforced + kRed + kBlue + kGreen, Mode::Enforce);
  rig.loop.advance(1s);
  const auto homes = rig.homes();
  const InstanceId red = idOf(rig, "red");
  static_cast<void>(rig.kernel.takeOperations());
  rig.log.clear();
  rig.reload(kEnforced + kGreen + kRed + kBlue);
  rig.loop.advance(2s);
  EXPECT_EQ(rig.homes(), homes);
  EXPECT_EQ(idOf(rig, "red"), red);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  EXPECT_TRUE(rig.log.empty()) << rig.log.front();
}

TEST(NodeAgentReloadTest, WeightsBoundsAndIsolationArePlannedAnew) {
  struct Row {
    std::string what, red, tenants;
    int cpusOfRed;
  };
  const std::string begin = "  - {name: red/s, tenant: red, members: [{command: \"red*\"}]";
  const std::vector<Row> rows{
      {"the weight of a tenant", begin + "}\n", "tenants: [{name: red, weight: 300}, {name: blue, weight: 100}]\n", 3},
      {"a floor", begin + ", minCpus: 3}\n", "", 3},
      {"a ceiling", begin + ", maxCpus: 1}\n", "", 1},
      {"a quota", begin + "}\n", "tenants: [{name: red, quota: {cpus: 1}}, {name: blue}]\n", 1},
      {"nothing", begin + "}\n", "", 2},
  };
  for (const Row& row : rows) {
    RedAndBlue rig;
    const InstanceId red = idOf(rig, "red");
    rig.reload(row.tenants + kEnforced + row.red + kBlue);
    EXPECT_EQ(rig.held("red").count(), row.cpusOfRed) << row.what;
    EXPECT_EQ(idOf(rig, "red"), red) << row.what;
  }
  AgentRig rig;
  rig.machine.set(testing::regularMachine("siblings", {1, 1, 0, 2, 2}));
  rig.begin("red");
  rig.begin("blue");
  rig.start(kEnforced + kRed + kBlue, Mode::Enforce);
  rig.reload(kEnforced + begin + ", isolation: core, maxCpus: 1}\n" + kBlue);
  EXPECT_FALSE(rig.reasons(0).empty());
  const Machine machine = *rig.machine.read();
  std::set<int> cores;
  for (const int cpu : rig.held("red")) cores.insert(machine.findCpu(cpu)->core);
  ASSERT_FALSE(cores.empty());
  for (const int cpu : rig.held("blue")) EXPECT_EQ(cores.count(machine.findCpu(cpu)->core), 0U) << "no other tenant in its core";
}

TEST(NodeAgentReloadTest, ARenamedGroupIsAnotherOne) {
  RedAndBlue rig;
  const int red = rig.red;
  const InstanceId before = idOf(rig, "red");
  rig.reload(kEnforced + "  - {name: crimson/s, tenant: red, members: [{command: \"red*\"}], hints: {file: \"/run/{pid}\"}}\n" + kBlue);
  const InstanceId now = idOf(rig, "red");
  EXPECT_NE(now, before);
  EXPECT_FALSE(rig.kernel.observe(before).ok());
  EXPECT_EQ(rig.held("red").count(), 2);
  EXPECT_FALSE(rig.held("red").intersects(rig.held("blue")));
  EXPECT_EQ(rig.node->report().groups.at(0).name, "crimson/s");
  EXPECT_EQ(rig.threads.at(red), 2);
}

TEST(NodeAgentReloadTest, OtherMembers) {
  AgentRig rig;
  rig.begin("red 1");
  rig.begin("red 2");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId one = idOf(rig, "red 1");
  const InstanceId two = idOf(rig, "red 2");
  rig.reload(kEnforced + "  - {name: red/s, tenant: red, members: [{command: \"red 1\"}]}\n");
  EXPECT_EQ(idOf(rig, "red 1"), one);
  EXPECT_EQ(rig.held("red 1").count(), 4);
  EXPECT_FALSE(rig.kernel.observe(two).ok());
  const std::string sidecar = "  - {name: red/s, tenant: red, members: [{command: \"red 1\"}, {command: \"red 2\", role: sidecar, minCpus: 1}]}\n";
  rig.reload(kEnforced + sidecar);
  EXPECT_EQ(idOf(rig, "red 1"), one);
  EXPECT_EQ(rig.held("red 2").count(), 1);
  const InstanceId side = idOf(rig, "red 2");
  rig.reload(kEnforced + kRed);
  EXPECT_EQ(idOf(rig, "red 2"), side) << "another role in the same group";
  EXPECT_EQ(rig.held("red 1").count(), 2);
  EXPECT_EQ(rig.held("red 2").count(), 2);
  rig.reload(kEnforced + sidecar);
  EXPECT_EQ(rig.held("red 2").count(), 1);
}

TEST(NodeAgentReloadTest, HintsAreWithdrawnWhereTheyWereAndToldWhereTheyAreHeardNow) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.hintedBy.at(red), "/run/{pid}");
  rig.log.clear();
  rig.reload(kEnforced + "  - {name: red/s, tenant: red, members: [{command: \"red*\"}], hints: {file: \"/other/{pid}\"}}\n");
  EXPECT_EQ(rig.log, (Names{"hint red 0 ", "hint red 4 0-3"}));
  EXPECT_EQ(rig.hintedBy.at(red), "/other/{pid}");
  rig.reload(kEnforced + "  - {name: red/s, tenant: red, members: [{command: \"red*\"}]}\n");
  EXPECT_EQ(rig.hintedBy.at(red), "");
  rig.reload(kEnforced + kRed);
  EXPECT_EQ(rig.hintedBy.at(red), "/run/{pid}");
}

TEST(NodeAgentReloadTest, WhoShallLendNoMoreTakesBack) {
  RedAndBlue rig;
  const int red = rig.red;
  rig.live(3s, {{red, {50, 50}}});
  ASSERT_FALSE(rig.container(0).loans.empty());
  rig.reload(kEnforced + kRed + "  - {name: blue/s, tenant: blue, lend: never, members: [{command: \"blue*\"}]}\n");
  EXPECT_TRUE(rig.container(0).loans.empty());
  EXPECT_EQ(rig.threads.at(red), 2);
  rig.live(3s, {{red, {50, 50}}});
  EXPECT_TRUE(rig.container(0).loans.empty());
}

TEST(NodeAgentReloadTest, ReservedCpusAreLeftAndGivenBack) {
  for (const Mode mode : {Mode::Enforce, Mode::Observe}) {
    AgentRig rig;
    rig.begin("red");
    const std::string begin = "mode: " + std::string(modeName(mode)) + "\n";
    rig.start(begin + kGroups + kRed, mode);
    rig.reload(begin + "reserved: 0-1\n" + kGroups + kRed);
    EXPECT_EQ(rig.homes().at("red"), (CpuSet{2, 3}));
    EXPECT_EQ(rig.node->report().reserved, (CpuSet{0, 1}));
    rig.reload(begin + kGroups + kRed);
    EXPECT_EQ(rig.homes().at("red").count(), 4);
    if (mode == Mode::Enforce) {
      EXPECT_EQ(rig.held("red").count(), 4);
    }
  }
}

TEST(NodeAgentReloadTest, CacheClassesComeAndGo) {
  CacheControl control;
  control.caches = {{0, CpuSet::range(0, 3), 0xfff}};
  control.classes = 3;
  AgentRig rig;
  rig.classes = std::make_unique<testing::FakeCacheClasses>(control);
  const int red = rig.begin("red");
  const int blue = rig.begin("blue");
  rig.begin("green");
  const std::string isolated = "  - {name: red/s, tenant: red, isolation: core, members: [{command: \"red*\"}]}\n";
  rig.start("cacheClasses: off\n" + kEnforced + isolated + kBlue + kGreen, Mode::Enforce);
  EXPECT_TRUE(rig.classes->list().empty());
  rig.reload("cacheClasses: auto\n" + kEnforced + isolated + kBlue + kGreen);
  EXPECT_EQ(rig.classes->classOf(red), "t0");
  EXPECT_EQ(rig.classes->classOf(blue), "rest");
  rig.reload("cacheClasses: auto\n" + kEnforced + isolated + kGreen);
  EXPECT_EQ(rig.classes->classOf(red), "t0");
  EXPECT_EQ(rig.classes->classOf(blue), "") << "it lives on, and is nobody's member";
  rig.reload("cacheClasses: off\n" + kEnforced + isolated + kGreen);
  EXPECT_TRUE(rig.classes->list().empty());
}

TEST(NodeAgentReloadTest, TheModeChangesBothWays) {
  AgentRig rig;
  const int red = rig.begin("red");
  rig.start(kGroups + kRed, Mode::Observe);
  rig.loop.advance(1s);
  const InstanceId id = idOf(rig, "red");
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  rig.reload(kEnforced + kRed);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_EQ(idOf(rig, "red"), id);
  EXPECT_EQ(rig.held("red").count(), 4);
  EXPECT_EQ(rig.threads.at(red), 4);
  rig.begin("red 2");
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("red 2").count(), 2);
  rig.reload(kGroups + kRed);
  EXPECT_EQ(rig.node->mode(), Mode::Observe);
  EXPECT_EQ(rig.node->report().why, "");
  EXPECT_FALSE(rig.kernel.observe(id).ok()) << "given back";
  EXPECT_EQ(rig.threads.at(red), 0);
  EXPECT_EQ(rig.homes().at("red").count(), 2) << "what it would do";
  EXPECT_EQ(rig.log.back(), "close");
  static_cast<void>(rig.kernel.takeOperations());
  rig.loop.advance(3s);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  rig.reload(kEnforced + kRed);
  EXPECT_EQ(rig.held("red").count(), 2);
}

TEST(NodeAgentReloadTest, AFaultyFileChangesNothingAndIsShownUntilItIsAnother) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  static_cast<void>(rig.kernel.takeOperations());
  rig.node->refuseConfiguration({"agent.yaml:4: groups[0].weigth: unknown field; did you mean weight?"});
  rig.loop.advance(2s);
  const AgentReport report = rig.node->report();
  EXPECT_EQ(report.configuration.refused, 1);
  EXPECT_EQ(report.configuration.faults.size(), 1U);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  EXPECT_EQ(rig.held("red").count(), 4);
  EXPECT_NE(reportText(report, false).find("did you mean weight?"), std::string::npos);
  EXPECT_EQ(reportValue(report).find("configuration")->find("faults")->asList()->size(), 1U);
  rig.reload(kEnforced + kRed);
  EXPECT_TRUE(rig.node->report().configuration.faults.empty());
  EXPECT_EQ(rig.held("red").count(), 4);
}

TEST(NodeAgentReloadTest, ReservedCpusThatTheMachineDoesNotHaveAreAFault) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  rig.reload("reserved: 99\n" + kEnforced + kRed);
  EXPECT_EQ(rig.node->report().configuration.faults, std::vector<std::string>{"reserved: the machine has no CPU 99: it has 0-3; leave that out"});
  EXPECT_EQ(rig.held("red").count(), 4);
  NodeAgentConfig config;
  config.file = readAgentFile("reserved: 2,99\n" + kGroups + kRed).file;
  NodeAgent other({rig.loop, rig.processes, rig.machine}, std::move(config));
  const Status started = other.start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().reason, "NoSuchCpu");
}

// A CPU that is offline while the agent begins is no reason not to: it is reserved once it is there.
TEST(NodeAgentReloadTest, ACpuThatIsOfflineMayBeReserved) {
  AgentRig rig;
  rig.begin("red");
  const Machine whole = agent::flatMachine(4);
  rig.machine.set(testing::withOnline(whole, CpuSet{0, 1, 2}, CpuSet{0, 1, 2}));
  rig.start("reserved: 0,3\n" + kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_EQ(rig.held("red"), (CpuSet{1, 2}));
  EXPECT_EQ(rig.node->report().reserved, CpuSet{0});
  rig.machine.set(whole);
  rig.loop.advance(2s);
  EXPECT_EQ(rig.held("red"), (CpuSet{1, 2})) << "it is back, and reserved";
  EXPECT_EQ(rig.node->report().reserved, (CpuSet{0, 3}));
}

// Who waited since CPUs were reserved stayed on one of them, and nobody said so.
TEST(NodeAgentReloadTest, WhoWaitsOnCpusThatAreReservedNowIsMarked) {
  AgentRig rig;
  const int red = rig.begin("red");
  const int blue = rig.begin("blue");
  const std::string floors = kGroups + R"(  - {name: red/s, tenant: red, minCpus: 2, members: [{command: "red*"}]}
  - {name: blue/s, tenant: blue, minCpus: 2, members: [{command: "blue*"}]}
)";
  rig.start(floors, Mode::Enforce);
  rig.loop.advance(2s);
  for (const auto& [name, pid] : {std::pair<const char*, int>("red", red), {"blue", blue}}) rig.processes.setCpus(pid, rig.held(name));
  rig.reload("mode: enforce\nreserved: 0,2\n" + floors);
  rig.loop.advance(2s);
  const AgentReport report = rig.node->report();
  int waiting = 0;
  std::string said;
  for (const GroupReport& group : report.groups) {
    waiting += group.pending ? 1 : 0;
    for (const std::string& sentence : group.reasons) said += sentence + "\n";
  }
  ASSERT_EQ(waiting, 1);
  EXPECT_NE(said.find("still runs on CPU"), std::string::npos) << said;
  EXPECT_NE(said.find("reserved now"), std::string::npos) << said;
}

TEST(NodeAgentReloadTest, MemoryNodesAreFollowedOrKeptFromThenOn) {
  RedAndBlue rig;
  const InstanceId red = idOf(rig, "red");
  const auto homes = rig.homes();
  rig.log.clear();
  rig.reload("memoryNodes: keep\n" + kEnforced + kRed + kBlue);
  EXPECT_EQ(rig.node->mode(), Mode::Enforce);
  EXPECT_TRUE(rig.node->configuration().keepsMemoryNodes);
  EXPECT_EQ(idOf(rig, "red"), red);
  EXPECT_EQ(rig.homes(), homes);
  EXPECT_EQ(rig.held("red"), homes.at("red"));
  EXPECT_EQ(std::count(rig.log.begin(), rig.log.end(), "close"), 0) << "nobody else may enforce here in between";
  EXPECT_EQ(std::count(rig.log.begin(), rig.log.end(), "open"), 1) << "with a controller that knows";
}

TEST(NodeAgentReloadTest, OfTwoInARowTheLaterCounts) {
  AgentRig rig;
  rig.begin("red");
  rig.begin("blue");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId red = idOf(rig, "red");
  rig.kernel.hang(red, CpuChangeKind::HomeCpus);
  rig.begin("red 2");
  rig.loop.advance(500ms);  // a write is under way
  rig.node->reconfigure(readAgentFile(kEnforced + kRed + kBlue + kGreen).file);
  rig.node->reconfigure(readAgentFile(kEnforced + kRed + kBlue).file);
  rig.loop.advance(100ms);
  EXPECT_EQ(rig.node->report().configuration.reloads, 0) << "it would land after what is given back";
  rig.kernel.heal();
  rig.applier.release();
  rig.loop.advance(100ms);
  EXPECT_EQ(rig.node->report().configuration.reloads, 1);
  EXPECT_TRUE(rig.node->report().absent.empty());
  rig.loop.advance(3s);
  EXPECT_EQ(idOf(rig, "red"), red);
  EXPECT_FALSE(rig.held("blue").empty());
}

TEST(NodeAgentReloadTest, AWriteThatHangsIsNotWaitedForLongerThanASecond) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  rig.kernel.hang(idOf(rig, "red"), CpuChangeKind::HomeCpus);
  rig.begin("red 2");
  rig.loop.advance(600ms);
  rig.node->reconfigure(readAgentFile(kEnforced + kRed + kBlue).file);
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.node->report().configuration.reloads, 1);
  rig.applier.release(EINTR);
  rig.loop.advance(3s);
}

TEST(NodeAgentReloadTest, TheEndWhileOneWaitsIsTheEnd) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kEnforced + kRed, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId red = idOf(rig, "red");
  rig.kernel.hang(red, CpuChangeKind::HomeCpus);
  rig.begin("red 2");
  rig.loop.advance(600ms);
  rig.node->reconfigure(readAgentFile(kEnforced + kBlue).file);
  bool done = false;
  rig.node->stop([&] { done = true; });
  rig.loop.advance(1100ms);
  EXPECT_TRUE(done);
  EXPECT_EQ(rig.node->report().configuration.reloads, 0);
  rig.applier.release(EINTR);
  rig.loop.runUntilIdle();
}

// Whatever came before, an agent is as one that was begun with the file that it has now.
TEST(NodeAgentReloadTest, AfterAnyHistoryOfFilesEverybodyIsWhereTheLastOneSays) {
  const std::vector<std::string> names{"red", "blue", "green", "grey"};
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    const auto upTo = [&](unsigned most) { return random() % (most + 1); };
    AgentRig rig;
    std::set<int> pids;
    for (int i = 0; i < 5; ++i) pids.insert(rig.begin(names[upTo(3)] + " " + std::to_string(i)));
    rig.start(kEnforced + kRed, Mode::Enforce);
    std::set<InstanceId> everSeen;
    for (int step = 0; step < 12; ++step) {
      std::string yaml = upTo(3) == 0 ? "mode: observe\n" : "mode: enforce\n";
      if (upTo(3) == 0) yaml += "reserved: " + std::to_string(upTo(3)) + "\n";
      if (upTo(5) == 0) yaml += "memoryNodes: keep\n";
      yaml += kGroups;
      std::vector<std::string> order(names.begin(), names.end());
      std::shuffle(order.begin(), order.end(), random);
      order.resize(1 + upTo(3));
      for (const std::string& name : order) {
        const std::string more = upTo(2) == 0 ? ", weight: " + std::to_string(1 + upTo(300)) : upTo(4) == 0 ? ", hints: {file: \"/x/{pid}\"}" : "";
        yaml += "  - {name: " + name + ", tenant: " + names[upTo(3)] + ", members: [{command: \"" + name + "*\"}]" + more + "}\n";
      }
      rig.reload(yaml);
      if (upTo(2) == 0) {
        rig.end(*pids.begin());
        pids.erase(pids.begin());
        pids.insert(rig.begin(names[upTo(3)] + " later"));
      }
      rig.loop.advance(Millis(2500));
      const std::string said = "seed " + std::to_string(seed) + ", step " + std::to_string(step) + "\n" + yaml;
      const AgentReport report = rig.node->report();
      EXPECT_EQ(report.configuration.reloads, step + 1) << said;
      std::map<std::string, std::set<int>> members;
      const Result<SeenProcesses> processes = rig.processes.scan();
      for (const SeenProcess& one : **processes) members[one.command.substr(0, one.command.find(' '))].insert(one.pid);
      std::set<InstanceId> now;
      CpuSet owned;
      for (const GroupReport& group : report.groups) {
        std::set<int> found;
        CpuSet homes;
        for (const ContainerReport& container : group.containers) {
          found.insert(container.pid);
          now.insert(container.id);
          homes |= container.planned;
          const auto seen = rig.kernel.observe(container.id);
          EXPECT_EQ(seen.ok() && seen->home == container.planned, report.mode == Mode::Enforce) << said;
        }
        EXPECT_EQ(found, members[group.name]) << group.name << " " << said;
        EXPECT_FALSE(homes.intersects(report.reserved)) << said;
        if (!group.inPool) {
          EXPECT_FALSE(homes.intersects(owned)) << said;
          owned |= homes;
        }
      }
      for (const InstanceId id : everSeen)
        EXPECT_TRUE(now.count(id) > 0 || !rig.kernel.observe(id).ok()) << "somebody who left is still held: " << said;
      everSeen.insert(now.begin(), now.end());
    }
    rig.node->stop([] {});
    rig.loop.advance(2s);
    for (const InstanceId id : everSeen) EXPECT_FALSE(rig.kernel.observe(id).ok());
  }
}

}  // namespace
}  // namespace coterie::node_agent
