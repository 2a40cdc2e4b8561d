// A planner that is asked again and again answers as decide() does, whatever changed in between. See also history_test.cc.
#include "allocation/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

// A settled node with some of everything: a pool, several containers, isolation, caps, floors, owners that do not lend, loans.
class Node {
 public:
  Node() : builder_(machine) {
    snapshot().bucket = {MilliCpu(1'000'000), snapshot().now};
    for (int g = 0; g < 12; ++g) {
      GroupState& group = builder_.group(g % 5, 1 + g % 3);
      group.weight = 50 + 10 * g;
      group.loanLanes = 3;
      group.demand = MilliCpu(900 * g);
      group.queuedBeyondOwnLanes = g % 2 == 0;
      group.lend = g % 4 == 3 ? Lend::Never : Lend::WhenIdle;
      for (ContainerState& container : group.containers) container.resident = Bytes(1 << 28), container.cpuWeight = 100;
    }
    group(1).ceiling = group(2).ceiling = MilliCpu(400);
    group(5).isolation = Isolation::Core;
    group(5).floor = MilliCpu(2000);
    group(7).floor = MilliCpu(3000);
    group(8).tenantCap = group(3).tenantCap = MilliCpu(4000);
    for (int round = 0; round < 4; ++round) {
      applyAll(snapshot(), decide(snapshot(), config));
      snapshot().now += Millis(50);
    }
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Snapshot& snapshot() { return builder_.snapshot; }
  GroupState& group(std::size_t index) { return snapshot().groups[index % snapshot().groups.size()]; }
  ContainerState& container(std::size_t index) { return group(index).containers.front(); }
  void addGroup() { builder_.group(2, 2).weight = 300; }
  void addContainer(std::size_t index) { builder_.addContainer(group(index)); }
  void rebuild(const CpuSet& online, const CpuSet& allowed) { machine = testing::withOnline(whole, online, allowed); }

  const Machine whole{testing::regularMachine("node", {2, 2, 2, 2, 2})};
  Machine machine{whole};
  Config config;

 private:
  SnapshotBuilder builder_;
};

struct Change {
  const char* what;
  void (*make)(Node&);
};

// Everything that a decision depends on, one after the other. Each may be made again and again.
const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      {"nothing", [](Node&) {}},
      {"demand of one", [](Node& n) { n.group(0).demand = MilliCpu(8000 - n.group(0).demand.value); }},
      {"demand of another", [](Node& n) { n.group(9).demand = MilliCpu(8000 - n.group(9).demand.value); }},
      {"a queue", [](Node& n) { n.group(4).queuedBeyondOwnLanes = !n.group(4).queuedBeyondOwnLanes; }},
      {"idle since",
       [](Node& n) {
         for (GroupState& group : n.snapshot().groups) group.demandBelowEntitlementSince = n.snapshot().now - Millis(120);
       }},
      {"lends", [](Node& n) { n.group(6).lend = n.group(6).lend == Lend::Never ? Lend::WhenIdle : Lend::Never; }},
      {"loan lanes", [](Node& n) { n.group(10).loanLanes = n.group(10).loanLanes == 3 ? 1 : 3; }},
      {"latency-critical", [](Node& n) { n.group(10).latencyCritical = !n.group(10).latencyCritical; }},
      {"weight", [](Node& n) { n.group(3).weight = 400 - n.group(3).weight; }},
      {"tenant's weight", [](Node& n) { n.group(3).tenantWeight = 300 - n.group(3).tenantWeight; }},
      {"tenant's cap", [](Node& n) { n.group(8).tenantCap = MilliCpu(5000 - n.group(8).tenantCap.value); }},
      {"tenant", [](Node& n) { n.group(6).tenant = TenantId(7 - n.group(6).tenant.value); }},
      {"band", [](Node& n) { n.group(7).band = n.group(7).band == Band::Low ? Band::High : Band::Low; }},
      {"floor", [](Node& n) { n.group(4).floor = MilliCpu(2500 - n.group(4).floor.value); }},
      {"ceiling", [](Node& n) { n.group(0).ceiling = MilliCpu(n.group(0).ceiling == MilliCpu(700) ? 3000 : 700); }},
      {"isolation", [](Node& n) { n.group(9).isolation = n.group(9).isolation == Isolation::None ? Isolation::Cache : Isolation::None; }},
      {"joined", [](Node& n) { n.group(7).joined += Seconds(1000); }},
      {"last move", [](Node& n) { n.group(11).lastOptionalMove = n.snapshot().now; }},
      {"a container more",
       [](Node& n) {
         if (n.group(6).containers.size() < 5) n.addContainer(6);
       }},
      {"a container less",
       [](Node& n) {
         if (n.group(2).containers.size() > 1) n.group(2).containers.pop_back();
       }},
      {"a worker anew", [](Node& n) { n.group(0).containers.erase(n.group(0).containers.begin()), n.addContainer(0); }},
      {"a group more",
       [](Node& n) {
         if (n.snapshot().groups.size() < 15) n.addGroup();
       }},
      {"a group more that needs memory",
       [](Node& n) {
         if (n.snapshot().groups.size() >= 15) return;
         n.addGroup();
         n.snapshot().groups.back().containers.front().expected = Bytes(std::int64_t{9} << 30);
       }},
      {"a group less",
       [](Node& n) {
         if (n.snapshot().groups.size() > 10) n.snapshot().groups.erase(n.snapshot().groups.begin() + 1);
       }},
      {"order of groups", [](Node& n) { std::swap(n.group(0), n.group(4)); }},
      {"home", [](Node& n) { n.container(3).home = {}; }},
      {"memory nodes", [](Node& n) { n.container(8).memoryNodes = {}; }},
      {"loans", [](Node& n) { n.container(10).loans = {}, n.container(10).awakeLoanLanes = 0; }},
      {"resident", [](Node& n) { n.container(4).resident = Bytes((std::int64_t{40} << 30) - n.container(4).resident.value); }},
      {"expected", [](Node& n) { n.container(7).expected = Bytes((std::int64_t{30} << 30) - n.container(7).expected.value); }},
      {"waits for memory", [](Node& n) { n.container(2).memoryPressure = 300 - n.container(2).memoryPressure; }},
      {"free memory",
       [](Node& n) {
         if (n.snapshot().memoryFree.empty()) n.snapshot().memoryFree = {{0, Bytes(1 << 20)}, {2, Bytes(std::int64_t{8} << 30)}};
         n.snapshot().memoryFree.front().free = Bytes((std::int64_t{15} << 30) - n.snapshot().memoryFree.front().free.value);
       }},
      {"which memory", [](Node& n) { n.group(6).memory = n.group(6).memory == MemoryTier::Usual ? MemoryTier::HighBandwidth : MemoryTier::Usual; }},
      {"a device",
       [](Node& n) {
         n.group(6).device = n.group(6).device.empty() ? "gpu0" : "";
         if (n.snapshot().groups.size() >= 15) return;
         n.addGroup();
         n.snapshot().groups.back().device = "gpu0";
       }},
      {"wider memory nodes", [](Node& n) { n.container(9).memoryNodes = CpuSet{0, 1, 2, 3}; }},
      {"budget of pages", [](Node& n) { n.snapshot().migration = {Bytes(1 << 20), n.snapshot().now}; }},
      {"weight read back", [](Node& n) { n.container(4).cpuWeight = 100; }},
      {"pool", [](Node& n) { n.snapshot().pool = {}; }},
      {"reserved", [](Node& n) { n.snapshot().reserved = n.snapshot().reserved.empty() ? CpuSet{0, 16} : CpuSet{}; }},
      {"bucket", [](Node& n) { n.snapshot().bucket = {MilliCpu(n.snapshot().now.time_since_epoch().count() % 3000), n.snapshot().now}; }},
      {"a minute later", [](Node& n) { n.snapshot().now += Seconds(60); }},
      {"a CPU goes or all come back",
       [](Node& n) {
         CpuSet online = n.machine.online;
         online.remove(online.last());
         n.rebuild(online.count() > 24 ? online : n.whole.online, online.count() > 24 ? online : n.whole.online);
       }},
      {"what may be used",
       [](Node& n) {
         CpuSet allowed = n.machine.allowed;
         allowed.remove(allowed.first());
         n.rebuild(n.machine.online, allowed.count() > 20 ? allowed : n.machine.online);
       }},
      {"isolcpus", [](Node& n) { n.machine.isolated = n.machine.isolated.empty() ? CpuSet{3} : CpuSet{}; }},
      {"a slower CPU", [](Node& n) { n.machine.cpus[5].capacity = MilliCpu(1500) - n.machine.cpus[5].capacity; }},
      {"a kind of CPU", [](Node& n) { n.machine.cpus[5].kind = 1 - n.machine.cpus[5].kind; }},
      {"the name of a domain", [](Node& n) { n.machine.domains.back().id += 100; }},
      {"the size of a memory node",
       [](Node& n) { n.machine.memoryNodes[1].size = Bytes((std::int64_t{16} << 30) - n.machine.memoryNodes[1].size.value); }},
      {"a distance", [](Node& n) { n.machine.memoryNodes[0].distance = {10, 40, 11, 12}; }},
      {"a device of the machine",
       [](Node& n) {
         if (n.machine.devices.empty()) n.machine.devices.push_back({"gpu0", DeviceKind::Gpu, {}, -1});
         n.machine.devices.front().cpus = n.machine.online - n.machine.devices.front().cpus;
       }},
      {"GPU memory", [](Node& n) { n.machine.memoryNodes[2].kind = MemoryKind::Device; }},
      {"another policy and back", [](Node& n) { n.config.policy = n.config.policy == PolicyName::Drc ? PolicyName::Balloons : PolicyName::Drc; }},
      {"lending", [](Node& n) { n.config.lending = !n.config.lending; }},
      {"leftovers", [](Node& n) { n.config.keepLeftover = MilliCpu(250) - n.config.keepLeftover; }},
      {"parking", [](Node& n) { n.config.loanParkDelay = Millis(400) - n.config.loanParkDelay; }},
      {"interval of moves", [](Node& n) { n.config.optionalMoveInterval = Seconds(30) - n.config.optionalMoveInterval; }},
      {"gain of moves", [](Node& n) { n.config.optionalMoveGain = 4 - n.config.optionalMoveGain; }},
      {"memory nodes or not", [](Node& n) { n.config.memoryNodes = !n.config.memoryNodes; }},
      {"pages a minute", [](Node& n) { n.config.migrationPerMinute = Bytes((std::int64_t{4} << 30) + 1024 - n.config.migrationPerMinute.value); }},
      {"slack of memory", [](Node& n) { n.config.narrowSlack = 1000 - n.config.narrowSlack; }},
      {"what counts as waiting for memory", [](Node& n) { n.config.memoryPressure = 100 - n.config.memoryPressure; }},
      {"what counts as nearly full", [](Node& n) { n.config.nearlyFull = 600 - n.config.nearlyFull; }},
  };
  return all;
}

TEST(Planner, NoticesWhateverADecisionDependsOn) {
  for (const Change& change : changes()) {
    Node node;
    Planner planner;
    EXPECT_TRUE(planner.decide(node.snapshot(), node.config) == decide(node.snapshot(), node.config));
    change.make(node);
    const Plan plan = decide(node.snapshot(), node.config);
    EXPECT_TRUE(planner.decide(node.snapshot(), node.config) == plan) << change.what;
    applyAll(node.snapshot(), plan);
    EXPECT_TRUE(planner.decide(node.snapshot(), node.config) == decide(node.snapshot(), node.config)) << change.what << ", applied";
    change.make(node);  // many are undone by that
    EXPECT_TRUE(planner.decide(node.snapshot(), node.config) == decide(node.snapshot(), node.config)) << change.what << ", again";
  }
}

TEST(Planner, AnswersAsDecideDoesThroughRandomWalks) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Rng rng(seed);
    Node node;
    Planner planner;
    for (int step = 0; step < 120; ++step) {
      const Change& change = changes()[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(changes().size()) - 1))];
      change.make(node);
      node.snapshot().now += Millis(rng.between(0, 300));
      const Plan plan = decide(node.snapshot(), node.config);
      ASSERT_TRUE(planner.decide(node.snapshot(), node.config) == plan) << "seed " << seed << ", step " << step << ", " << change.what;
      if (rng.chance(70)) applyAll(node.snapshot(), plan);
      if (rng.chance(10)) planner = Planner();
    }
  }
}

}  // namespace
}  // namespace coterie::allocation
