// Memory nodes: tables of fits, of pressure, of tiers and of the budget, then random ones. See also history_test.cc and stories_test.cc.
#include "allocation/memory_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "allocation/memory_checks.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const std::string& list) { return CpuSet::parse(list).value(); }

struct Wanted {
  const char* home;
  const char* held;
  std::int64_t need;
  const char* nodes;
};

// A machine and what stands on it; homes are settled, only memory is to be found.
class Node {
 public:
  explicit Node(const Machine& its) : machine(its), builder_(machine) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  Snapshot& snapshot() { return builder_.snapshot; }
  ContainerState& add(const std::string& home, std::int64_t need, const std::string& held) {
    ContainerState& made = builder_.group(1, set(home)).containers.front();
    made.resident = Bytes(need);
    made.memoryNodes = set(held);
    return made;
  }
  // The plan's groups and memory reasons; what is not placed in `pending` waits.
  Plan fit(const CpuSet& pending = {}) {
    const Layout layout{};  // of no interest here
    const MemoryMap memory(machine);
    std::vector<const GroupState*> groups;
    for (const GroupState& group : snapshot().groups) groups.push_back(&group);
    const Problem problem{snapshot(), config, layout, memory, groups};
    Plan plan;
    plan.groups = emptyTargets(problem.groups);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      plan.groups[g].pending = pending.contains(groups[g]->id.value);
      for (std::size_t c = 0; c < groups[g]->containers.size() && !plan.groups[g].pending; ++c)
        plan.groups[g].containers[c].home = groups[g]->containers[c].home;
    }
    payNarrowings(problem, fitMemory(problem, plan.groups), plan);
    return plan;
  }
  void apply(const Plan& plan) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      for (std::size_t c = 0; c < plan.groups[g].containers.size() && !plan.groups[g].pending; ++c)
        snapshot().groups[g].containers[c].memoryNodes = plan.groups[g].containers[c].memoryNodes;
    }
    snapshot().migration = plan.migration;
  }

  Machine machine;
  Config config;

 private:
  SnapshotBuilder builder_;
};

std::string nodesOf(const Plan& plan, std::size_t group) { return plan.groups[group].containers.front().memoryNodes.toString(); }

bool says(const Plan& plan, ReasonCode code) {
  return std::any_of(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& reason) { return reason.code == code; });
}
std::int64_t said(const Plan& plan, ReasonCode code) {
  const auto found = std::find_if(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& reason) { return reason.code == code; });
  return found == plan.reasons.end() ? -1 : found->a;
}

// Two sockets of two nodes with two CPUs and 1,000 bytes each: node n has CPUs 2n and 2n+1.
Machine fourNodes() {
  testing::MachineShape shape{2, 2, 0, 2, 1};
  shape.nodeSize = Bytes(1000);
  return testing::regularMachine("4-nodes", shape);
}

struct FitRow {
  const char* what;
  std::vector<Wanted> containers;
};

TEST(MemoryFit, Table) {
  const std::vector<FitRow> rows{
      {"each on its node", {{"0-1", "", 500, "0"}, {"2-3", "", 900, "1"}}},
      {"of the whole set", {{"1-2", "", 0, "0-1"}}},
      {"one that is too large has the next nearest", {{"0-1", "", 1500, "0-1"}}},
      {"and the next", {{"0-1", "", 2500, "0-2"}}},
      {"on the other socket", {{"4-5", "", 1500, "2-3"}}},
      {"two that are too large together", {{"0", "", 600, "0"}, {"1", "", 600, "0-1"}}},
      {"what fits beside it keeps its nodes", {{"0", "0", 600, "0"}, {"1", "", 600, "0-1"}, {"2-3", "1", 600, "1"}}},
      {"a full node is passed over", {{"2-3", "", 1000, "1"}, {"0-1", "", 1500, "0,2"}}},
      {"who has less choice is first", {{"0-3", "", 1500, "0-2"}, {"0", "", 900, "0"}}},
      {"nearest nodes are filled evenly", {{"0-3", "", 1000, "0-1"}, {"2-5", "", 1500, "1-2"}}},
      {"wider ones are kept while the nearest are nearly full", {{"0-1", "0-1", 950, "0-1"}}},
      {"and left when they have room to spare", {{"0-1", "0-1", 900, "0"}}},
      {"who comes needs none to spare", {{"0-1", "", 950, "0"}}},
      {"others than the next nearest are kept", {{"0-1", "0,2", 1500, "0,2"}}},
      {"and widened from there", {{"0-1", "0,2", 2500, "0-2"}}},
      {"another home, other nodes", {{"2-3", "0", 500, "1"}}},
      {"a node that is no more", {{"0-1", "0,7", 950, "0"}}},
      {"nowhere room: all there is", {{"0-1", "", 9000, "0-3"}}},
      {"and for who comes after that", {{"0-1", "", 9000, "0-3"}, {"2-3", "", 1, "0-3"}}},
  };
  for (const FitRow& row : rows) {
    SCOPED_TRACE(row.what);
    Node node(fourNodes());
    node.config.migrationPerMinute = Bytes(0);
    for (const Wanted& one : row.containers) node.add(one.home, one.need, one.held);
    const Plan plan = node.fit();
    for (std::size_t g = 0; g < row.containers.size(); ++g) EXPECT_EQ(nodesOf(plan, g), row.containers[g].nodes) << "container " << g;
    node.apply(plan);
    EXPECT_EQ(node.fit().groups, plan.groups) << "fitted again";
  }
}

TEST(MemoryFit, SaysWhatIsWiderAndWhatIsShort) {
  Node node(fourNodes());
  node.add("0-1", 2500, "");
  EXPECT_EQ(said(node.fit(), ReasonCode::MemoryWidened), 2);
  node.add("2-3", 9000, "");
  EXPECT_EQ(said(node.fit(), ReasonCode::MemoryShort), 9000 - 1500);
  node.snapshot().groups.clear();
  node.add("0-1", 10, "");
  EXPECT_TRUE(node.fit().reasons.empty());
}

TEST(MemoryFit, NewcomersMakeRoomForWhoWasThere) {
  Node node(fourNodes());
  node.add("0", 600, "");
  node.add("1", 600, "");
  node.snapshot().groups[0].joined = node.snapshot().groups[1].joined + Seconds(1);
  const Plan plan = node.fit();
  EXPECT_EQ(nodesOf(plan, 0), "0-1") << "the lower id came later";
  EXPECT_EQ(nodesOf(plan, 1), "0");
}

TEST(MemoryFit, WhatIsExpectedCountsWhileItIsMore) {
  Node node(fourNodes());
  node.add("0-1", 100, "").expected = Bytes(1500);
  EXPECT_EQ(nodesOf(node.fit(), 0), "0-1");
  node.snapshot().groups[0].containers[0].expected = Bytes(50);
  EXPECT_EQ(nodesOf(node.fit(), 0), "0");
}

// One that says it will need more than the whole machine had all nodes to itself, and the others, younger or with more choice, were widened for
// nothing.
TEST(MemoryFit, WhatIsExpectedAndFitsNowhereTakesNoNodeFromThoseWhoFit) {
  Node node(fourNodes());
  node.add("0-1", 100, "").expected = Bytes(500000);
  node.add("0-1", 100, "").expected = Bytes(600);
  node.add("2-3", 900, "");
  const Plan plan = node.fit();
  EXPECT_EQ(nodesOf(plan, 1), "0");
  EXPECT_EQ(nodesOf(plan, 2), "1");
  EXPECT_EQ(nodesOf(plan, 0), "0-3") << "all that it may have";
  EXPECT_TRUE(says(plan, ReasonCode::MemoryShort));
}

TEST(MemoryFit, WhatPendingGroupsStillHoldCounts) {
  Node node(fourNodes());
  node.add("0", 600, "0");
  node.add("1", 600, "");
  const Plan plan = node.fit({1});
  EXPECT_EQ(nodesOf(plan, 0), "") << "it shall have nothing";
  EXPECT_EQ(nodesOf(plan, 1), "0-1");
}

TEST(MemoryFit, AMachineWithoutMemoryNodesHasNone) {
  testing::MachineShape shape{1, 1, 0, 2, 1};
  shape.noMemory = {0};
  Node node(testing::regularMachine("nothing-known", shape));
  node.add("0-1", 100, "");
  EXPECT_EQ(nodesOf(node.fit(), 0), "");
}

// ---- pressure ----
struct PressureRow {
  const char* what;
  std::vector<std::int64_t> free;  // per node; -1: unknown
  int pressure;
  Wanted container;
};

TEST(MemoryFit, Pressure) {
  const std::vector<PressureRow> rows{
      {"none", {500, 500, 500, 500}, 99, {"0-1", "0", 500, "0"}},
      {"it waits for memory", {}, 100, {"0-1", "0", 500, "0-1"}},
      {"its node is nearly full", {59, -1, -1, -1}, 0, {"0-1", "0", 500, "0-1"}},
      {"not quite", {60, -1, -1, -1}, 0, {"0-1", "0", 500, "0"}},
      {"nearly full nodes are passed over", {10, 10, 900, 900}, 0, {"0-1", "0", 500, "0,2"}},
      {"one of two has room", {10, 500, 500, 500}, 0, {"0-3", "0-1", 500, "0-1"}},
      {"all are nearly full: nothing to be had", {10, 10, 10, 10}, 0, {"0-1", "0", 500, "0"}},
      {"what it has helps already", {10, 500, 900, 900}, 300, {"0-1", "0-1", 500, "0-1"}},
      {"what it has does not help", {10, 10, 900, 900}, 300, {"0-1", "0-1", 500, "0-2"}},
      {"over, and room to move back", {700, 500, -1, -1}, 0, {"0-1", "0-1", 500, "0"}},
      {"over, but the pages would not fit", {300, 500, -1, -1}, 0, {"0-1", "0-1", 500, "0-1"}},
      {"over, and few pages can be there", {300, 950, -1, -1}, 0, {"0-1", "0-1", 500, "0"}},
  };
  for (const PressureRow& row : rows) {
    SCOPED_TRACE(row.what);
    Node node(fourNodes());
    node.config.migrationPerMinute = Bytes(0);
    for (std::size_t n = 0; n < row.free.size(); ++n) {
      if (row.free[n] >= 0) node.snapshot().memoryFree.push_back({static_cast<int>(n), Bytes(row.free[n])});
    }
    node.add(row.container.home, row.container.need, row.container.held).memoryPressure = row.pressure;
    const Plan plan = node.fit();
    EXPECT_EQ(nodesOf(plan, 0), row.container.nodes);
    node.apply(plan);
    EXPECT_EQ(node.fit().groups, plan.groups) << "the same pressure again";
  }
}

TEST(MemoryFit, PressureIsSaidAndCanBeSwitchedOff) {
  Node node(fourNodes());
  node.add("0-1", 500, "0").memoryPressure = 500;
  EXPECT_EQ(said(node.fit(), ReasonCode::MemoryUnderPressure), 1);
  node.config.memoryPressure = 0;
  EXPECT_TRUE(node.fit().reasons.empty());
  node.snapshot().memoryFree = {{0, Bytes(0)}};
  EXPECT_EQ(nodesOf(node.fit(), 0), "0-1");
  node.config.nearlyFull = 0;
  EXPECT_EQ(nodesOf(node.fit(), 0), "0");
}

// ---- tiers ----
struct TierRow {
  const char* what;
  MemoryTier tier;
  std::int64_t need;
  const char* held;
  const char* nodes;
  std::vector<ReasonCode> reasons;
};

// Nodes 0 and 1 with two CPUs each; beside node 0 high-bandwidth memory 2, slow memory 3 (nearest of all but 0) and a GPU's 4. 1,000 bytes each.
Machine fiveKinds() {
  testing::MachineShape shape{2, 1, 0, 2, 1};
  shape.nodeSize = Bytes(1000);
  shape.memory = {
      {2, MemoryKind::HighBandwidth, Bytes(1000), 0, 13}, {3, MemoryKind::Slow, Bytes(1000), 0, 11}, {4, MemoryKind::Device, Bytes(1000), 0, 11}};
  return testing::regularMachine("five-kinds", shape);
}

TEST(MemoryFit, Tiers) {
  using enum ReasonCode;
  const std::vector<TierRow> rows{
      {"the nearest", MemoryTier::Usual, 500, "", "0", {}},
      {"slow memory comes last, however near", MemoryTier::Usual, 2500, "", "0-2", {MemoryWidened}},
      {"but it comes", MemoryTier::Usual, 3500, "", "0-3", {MemoryWidened, MemoryOtherTier}},
      {"a device's never", MemoryTier::Usual, 9000, "", "0-3", {MemoryWidened, MemoryOtherTier, MemoryShort}},
      {"high-bandwidth memory on request", MemoryTier::HighBandwidth, 500, "", "2", {}},
      {"else DRAM", MemoryTier::HighBandwidth, 1500, "", "0,2", {MemoryWidened, MemoryOtherTier}},
      {"DRAM on request, farther before faster", MemoryTier::Dram, 1500, "", "0-1", {MemoryWidened}},
      {"else high-bandwidth", MemoryTier::Dram, 2500, "", "0-2", {MemoryWidened, MemoryOtherTier}},
      {"any: by distance alone", MemoryTier::Any, 1500, "", "0,3", {MemoryWidened}},
      {"slow memory is left once the rest has room to spare", MemoryTier::Usual, 1500, "0-1,3", "0-1", {MemoryWidened}},
      {"and not before", MemoryTier::Usual, 1950, "0-1,3", "0-1,3", {MemoryWidened, MemoryOtherTier}},
      {"a device's is left at once", MemoryTier::Usual, 950, "0,4", "0", {}},
  };
  for (const TierRow& row : rows) {
    SCOPED_TRACE(row.what);
    Node node(fiveKinds());
    node.config.migrationPerMinute = Bytes(0);
    node.add("0-1", row.need, row.held);
    node.snapshot().groups[0].memory = row.tier;
    const Plan plan = node.fit();
    EXPECT_EQ(nodesOf(plan, 0), row.nodes);
    std::vector<ReasonCode> codes;
    for (const Reason& reason : plan.reasons) codes.push_back(reason.code);
    EXPECT_EQ(codes, row.reasons);
    node.apply(plan);
    EXPECT_EQ(node.fit().groups, plan.groups) << "fitted again";
  }
}

TEST(MemoryFit, ATierThatTheMachineLacksIsSaid) {
  Node node(fourNodes());
  node.add("0-1", 500, "");
  node.snapshot().groups[0].memory = MemoryTier::HighBandwidth;
  const Plan plan = node.fit();
  EXPECT_EQ(nodesOf(plan, 0), "0");
  EXPECT_EQ(said(plan, ReasonCode::MemoryTierAbsent), static_cast<std::int64_t>(MemoryKind::HighBandwidth));
}

// ---- the budget of moves ----
constexpr std::int64_t kBudget = 60'000;  // a byte in a millisecond

// Containers of so many bytes that hold nodes 0 and 1 and need node 0 alone.
Plan narrowed(Node& node, const std::vector<std::int64_t>& bytes, std::int64_t level) {
  for (MemoryNode& one : node.machine.memoryNodes) one.size = Bytes(10'000'000);
  node.config.migrationPerMinute = Bytes(kBudget);
  node.snapshot().migration = {Bytes(level), node.snapshot().now};
  node.snapshot().groups.clear();
  for (const std::int64_t one : bytes) node.add("0-1", one, "0-1");
  return node.fit();
}

struct BudgetRow {
  const char* what;
  std::vector<std::int64_t> bytes;
  std::int64_t level;
  std::vector<const char*> nodes;
  std::int64_t left;
};

TEST(MemoryFit, Budget) {
  const std::vector<BudgetRow> rows{
      {"enough for all", {1000, 2000}, 5000, {"0", "0"}, 2000},
      {"enough for one", {1000, 2000}, 2500, {"0", "0-1"}, 1500},
      {"the first that waits makes the others wait", {2000, 1000}, 1500, {"0-1", "0-1"}, 1500},
      {"nothing resident is nothing to pay", {2000, 0}, 0, {"0-1", "0"}, 0},
      {"more than it ever holds waits until it is full", {70'000}, kBudget - 1, {"0-1"}, kBudget - 1},
      {"and leaves a debt", {70'000, 1}, kBudget, {"0", "0-1"}, -10'000},
      {"more than full is full", {1000}, 9 * kBudget, {"0"}, kBudget - 1000},
  };
  for (const BudgetRow& row : rows) {
    SCOPED_TRACE(row.what);
    Node node(fourNodes());
    const Plan plan = narrowed(node, row.bytes, row.level);
    for (std::size_t g = 0; g < row.nodes.size(); ++g) EXPECT_EQ(nodesOf(plan, g), row.nodes[g]) << "container " << g;
    EXPECT_EQ(plan.migration.level.value, row.left);
  }
}

TEST(MemoryFit, WhatWaitsIsSaidAndGoesWhenItMay) {
  Node node(fourNodes());
  Plan plan = narrowed(node, {20'000}, 15'000);
  EXPECT_EQ(nodesOf(plan, 0), "0-1");
  ASSERT_TRUE(plan.decideAgainAt);
  EXPECT_EQ(said(plan, ReasonCode::MemoryNarrowDeferred), (*plan.decideAgainAt - node.snapshot().now).count());
  node.apply(plan);
  node.snapshot().now = *plan.decideAgainAt - Seconds(2);
  plan = node.fit();
  EXPECT_EQ(nodesOf(plan, 0), "0-1") << "not yet";
  node.apply(plan);
  node.snapshot().now += Seconds(2);
  plan = node.fit();
  EXPECT_EQ(nodesOf(plan, 0), "0");
  EXPECT_FALSE(says(plan, ReasonCode::MemoryNarrowDeferred));
}

TEST(MemoryFit, ADebtIsPaidBackHoweverRarelyOneAsks) {
  Node node(fourNodes());
  Plan plan = narrowed(node, {4 * kBudget}, kBudget);
  EXPECT_EQ(plan.migration.level.value, -3 * kBudget);
  node.apply(plan);
  node.snapshot().now += Seconds(180);
  EXPECT_EQ(node.fit().migration.level.value, 0);
  node.snapshot().now += Seconds(180);
  EXPECT_EQ(node.fit().migration.level.value, kBudget);
}

TEST(MemoryFit, WideningIsFreeAndWhereNodesCannotBeSetNothingIsPaid) {
  Node node(fourNodes());
  node.config.migrationPerMinute = Bytes(1);
  node.snapshot().migration = {Bytes(0), node.snapshot().now};
  node.add("0-1", 1500, "0");
  EXPECT_EQ(nodesOf(node.fit(), 0), "0-1");
  node.snapshot().groups.clear();
  node.add("0-1", 500, "0-1");
  EXPECT_EQ(nodesOf(node.fit(), 0), "0-1");
  node.config.memoryNodes = false;
  EXPECT_EQ(nodesOf(node.fit(), 0), "0");
}

// ---- random ones ----
class RandomNode {
 public:
  RandomNode(const Machine& machine, std::uint64_t seed) : node(machine), rng_(seed) {
    node.config.migrationPerMinute = Bytes(rng_.chance(50) ? 0 : rng_.between(1, std::int64_t{8} << 30));
    node.snapshot().migration.level = Bytes(std::int64_t{1} << 40);
    const std::int64_t containers = rng_.between(1, 12);
    for (std::int64_t c = 0; c < containers; ++c) {
      ContainerState& made = node.add(some(node.machine.online, 30).toString(), 0, some(nodes(), 40).toString());
      made.memoryPressure = rng_.chance(15) ? 200 : 0;
      if (rng_.chance(30)) made.expected = bytes();
      node.snapshot().groups.back().memory = static_cast<MemoryTier>(rng_.chance(60) ? 0 : rng_.between(0, 3));
      node.snapshot().groups.back().joined = Instant(Seconds(rng_.between(0, 3)));
    }
    change();
  }
  // What is resident, and what the kernel says is free.
  void change() {
    for (GroupState& group : node.snapshot().groups) group.containers.front().resident = bytes();
    node.snapshot().memoryFree.clear();
    for (const MemoryNode& one : node.machine.memoryNodes) {
      if (rng_.chance(30)) node.snapshot().memoryFree.push_back({one.id, Bytes(one.size.value / 100 * rng_.between(0, 100))});
    }
  }

  Node node;

 private:
  Bytes bytes() { return Bytes(rng_.chance(70) ? rng_.between(0, std::int64_t{6} << 30) : rng_.between(0, std::int64_t{40} << 30)); }
  CpuSet nodes() {
    CpuSet ids;
    for (const MemoryNode& one : node.machine.memoryNodes) ids.add(one.id);
    return ids;
  }
  CpuSet some(const CpuSet& of, int percent) {
    CpuSet chosen;
    for (const int id : of) {
      if (rng_.chance(percent)) chosen.add(id);
    }
    return chosen.empty() ? CpuSet{of.first()} : chosen;
  }

  Rng rng_;
};

TEST(MemoryFit, RandomFitsKeepTheRulesAndStayAsTheyAre) {
  const auto& names = shapeNames();
  for (std::uint64_t seed = 0; seed < 2 * names.size(); ++seed) {
    const std::string_view name = names[seed % names.size()];
    RandomNode random(shapeNamed(name).value(), seed);
    Node& node = random.node;
    for (int round = 0; round < 6; ++round) {
      const Plan plan = node.fit();
      std::vector<Violation> found;
      checkMemory(node.snapshot(), plan, node.config, found);
      ASSERT_TRUE(found.empty()) << name << ", seed " << seed << ", round " << round << ": " << found.front().what;
      node.apply(plan);
      for (int again = 0; says(node.fit(), ReasonCode::MemoryNarrowDeferred); ++again) {
        ASSERT_LT(again, 20) << name << ", seed " << seed << ": what waits never goes";
        node.snapshot().migration.level = Bytes(std::int64_t{1} << 40);
        node.apply(node.fit());
      }
      const Plan settled = node.fit();
      node.snapshot().migration.level = Bytes(std::int64_t{1} << 40);
      node.apply(settled);
      ASSERT_EQ(node.fit().groups, settled.groups) << name << ", seed " << seed << ", round " << round << ": not settled";
      random.change();
    }
  }
}

// Where all stand on one node each, there is nothing to trade: who is widened is so because his node was full when his turn came, and needlessly
// nobody.
TEST(MemoryFit, NobodyIsWidenedWhileHisNodesHaveRoomForAll) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    Node node(fourNodes());
    std::vector<std::int64_t> needed(4, 0);
    std::vector<std::size_t> on;
    for (std::int64_t c = rng.between(1, 12); c > 0; --c) {
      const std::int64_t where = rng.between(0, 3);
      const std::int64_t bytes = rng.between(0, 500);
      node.add(std::to_string(2 * where), bytes, "");
      needed[static_cast<std::size_t>(where)] += bytes;
      on.push_back(static_cast<std::size_t>(where));
    }
    const bool fits = std::all_of(needed.begin(), needed.end(), [](std::int64_t bytes) { return bytes <= 1000; });
    const Plan plan = node.fit();
    for (std::size_t g = 0; fits && g < on.size(); ++g) ASSERT_EQ(nodesOf(plan, g), std::to_string(on[g])) << "round " << round;
  }
}

}  // namespace
}  // namespace coterie::allocation
