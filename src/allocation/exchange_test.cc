// Exchanges: what is proposed and what is not, and what decide() makes of it.
#include "allocation/exchange.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "allocation/decide.h"
#include "allocation/objective.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const char* list) { return CpuSet::parse(list).value(); }

// Claimants of a tenant each, on a machine whose CPU ids are its positions.
struct Scene {
  Layout layout;
  Board board;
  std::vector<int> holders;
  std::vector<std::int64_t> costs;
  std::vector<std::int64_t> cacheCosts;
  std::vector<std::vector<Positions>> homes;

  static std::vector<TenantId> tenants(std::size_t count) {
    std::vector<TenantId> made;
    for (std::size_t i = 0; i < count; ++i) made.emplace_back(static_cast<int>(i));
    return made;
  }
  Scene(const Machine& machine, const std::vector<const char*>& owned, const std::vector<const char*>& held)
      : layout(makeLayout(machine, {})), board(layout, tenants(owned.size())), holders(layout.ids.size(), kFree) {
    for (std::size_t c = 0; c < owned.size(); ++c) {
      for (const int position : layout.toPositions(set(owned[c]))) board.give(position, static_cast<int>(c));
      for (const int position : layout.toPositions(set(held[c]))) holders[static_cast<std::size_t>(position)] = static_cast<int>(c);
      homes.push_back({board.owned(static_cast<int>(c))});
      costs.push_back(groupCost(layout, board.owned(static_cast<int>(c)), homes.back()));
    }
    for (std::size_t branch = 0; branch < layout.branches.size(); ++branch)
      cacheCosts.push_back(layout.branches[branch].level == DomainLevel::Cache ? cacheCost(board, static_cast<int>(branch)) : 0);
  }

  // What is proposed for the first claimant, none of it made.
  [[nodiscard]] std::vector<std::pair<std::vector<int>, int>> proposals(std::int64_t affordable = -1) const {
    std::vector<std::pair<std::vector<int>, int>> found;
    const ExchangeView view{board, holders, costs, cacheCosts, homes, 12, affordable};
    tryExchanges(view, 0, [&](const std::vector<int>& leaving, int entering) {
      found.emplace_back(leaving, entering);
      return Tried::Not;
    });
    return found;
  }
};

using Proposals = std::vector<std::pair<std::vector<int>, int>>;

// Two nodes of two CPUs.
Machine fourOnTwoNodes() { return testing::regularMachine("2-nodes", {1, 2, 0, 2, 1}); }

TEST(Exchanges, NewcomersThatLieAcrossEachOther) {
  const Scene scene(fourOnTwoNodes(), {"1-2", "0,3"}, {"", ""});
  // Either of its CPUs for the one that is missing.
  EXPECT_EQ(scene.proposals(), (Proposals{{{1}, 3}, {{2}, 0}}));
}
TEST(Exchanges, WhoRunsThereIsMovedIfItPays) {
  const Scene scene(fourOnTwoNodes(), {"1-2", "0,3"}, {"1-2", "0,3"});
  EXPECT_EQ(scene.proposals().size(), 2U) << "one moved CPU saves a span of 4 for two groups of two";
  EXPECT_TRUE(scene.proposals(0).empty()) << "nothing may be taken from anybody any more";
}
TEST(Exchanges, NothingForOneThatSitsInOneCacheAndSharesNoCore) {
  const Scene scene(fourOnTwoNodes(), {"0-1", "2-3"}, {"0-1", "2-3"});
  EXPECT_TRUE(scene.proposals().empty());
}
TEST(Exchanges, OnlyNearOnALargeMachine) {
  const Machine machine = testing::regularMachine("4-nodes-of-32", {2, 2, 0, 32, 1});
  const Layout layout = makeLayout(machine, {});
  const Layout::Branch& around = layout.branches[static_cast<std::size_t>(reachOf(layout, 40))];
  EXPECT_EQ(around.level, DomainLevel::Node);
  EXPECT_EQ(around.begin, 32);
  EXPECT_EQ(around.end, 64);
}

// ---- in plans ----
TEST(Exchanges, WhoseContainersAreSmallIsTornRatherThanOneThatWouldSpan) {
  // The largest come first: 4 single CPUs, 3 and 3 fill the caches but for a CPU each in two, and the last has 2 in one container.
  const Machine machine = testing::regularMachine("3-caches", {1, 1, 3, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(0, 4).floor = MilliCpu(4000);
  builder.group(1).floor = MilliCpu(3000);
  builder.group(2).floor = MilliCpu(3000);
  builder.group(3).floor = MilliCpu(2000);
  for (GroupState& group : builder.snapshot.groups) group.ceiling = group.floor;
  const Plan plan = decide(builder.snapshot, {});
  for (std::size_t g = 1; g < plan.groups.size(); ++g) {
    const CpuSet& home = plan.groups[g].containers.front().home;
    EXPECT_TRUE(home.isSubsetOf(set("0-3")) || home.isSubsetOf(set("4-7")) || home.isSubsetOf(set("8-11"))) << home.toString();
  }
}

TEST(Exchanges, ContainersOfAGrowingGroupChangeCpusRatherThanSpan) {
  const Machine machine = testing::regularMachine("2-sockets", {2, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.snapshot.bucket = {MilliCpu(2000), builder.snapshot.now};
  GroupState& other = builder.group(1, set("2-3"));
  other.floor = other.ceiling = MilliCpu(2000);
  GroupState& group = builder.group(2, 3);
  const char* held[] = {"0", "4", "1"};
  for (std::size_t c = 0; c < 3; ++c) group.containers[c].home = set(held[c]);
  group.floor = group.ceiling = MilliCpu(6000);
  const Plan plan = decide(builder.snapshot, {});
  for (const ContainerTarget& container : plan.groups[1].containers) {
    EXPECT_EQ(container.home.count(), 2);
    EXPECT_TRUE(container.home.isSubsetOf(set("0-3")) || container.home.isSubsetOf(set("4-7"))) << container.home.toString();
  }
  applyAll(builder.snapshot, plan);
  EXPECT_TRUE(decide(builder.snapshot, {}).steps.empty());
}

}  // namespace
}  // namespace coterie::allocation
