// Exact enumeration as the oracle on small machines: who waits (L1) and what everybody is entitled to (L2) are always right, and the placement's cost
// J is near the least there is. The same over 2,000 and more instances, and the peers: allocation_quality_bench.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "allocation/decide.h"
#include "allocation/floor_room.h"
#include "allocation/objective.h"
#include "allocation/quality/exact_oracle.h"
#include "allocation/quality/instances.h"
#include "allocation/quality/rivals.h"
#include "allocation/sizing.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

constexpr std::uint64_t kInstances = 200;

TEST(Quality, PlansOfSmallMachinesAreExactInL1AndL2AndNearInJ) {
  std::vector<double> gaps;
  for (std::uint64_t seed = 0; seed < kInstances; ++seed) {
    const Snapshot snapshot = quality::instanceOf(seed);
    const Plan plan = decide(snapshot, {});
    const quality::Judgement judgement = quality::judge(snapshot, plan);
    ASSERT_TRUE(judgement.l1 && judgement.l2) << "instance " << seed << "\n" << quality::describe(snapshot, plan, judgement);
    ASSERT_GE(judgement.least, 0) << "the search missed the plan's own placement: instance " << seed << "\n"
                                  << quality::describe(snapshot, plan, judgement);
    gaps.push_back(judgement.gap());
  }
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
  RecordProperty("optimality_gap_mean", std::to_string(mean));
  EXPECT_LE(mean, .02);
}

TEST(Quality, PendingIsTheBestOfAllSubsets) {
  Rng rng(1);
  for (int round = 0; round < 1000; ++round) {
    const Machine machine = testing::regularMachine("flat", {1, 1, 0, static_cast<int>(rng.between(1, 8)), 1});
    SnapshotBuilder builder(machine);
    const std::int64_t count = rng.between(1, 7);
    for (std::int64_t i = 0; i < count; ++i) {
      GroupState& group = builder.group(0);
      group.band = static_cast<Band>(rng.between(0, 2));
      group.floor = MilliCpu(rng.chance(40) ? 0 : rng.between(1, 3500));
      group.joined = Instant(Seconds(rng.between(0, 3)));
    }
    std::vector<const GroupState*> groups;
    for (const GroupState& group : builder.snapshot.groups) groups.push_back(&group);
    const Layout layout = makeLayout(machine, {});
    const UnitCounts units(layout);
    ASSERT_EQ(choosePending(groups, FloorRoom(layout, units)), quality::bestPending(builder.snapshot)) << "round " << round;
  }
}

// The planner's own J, of the same placement.
std::int64_t plannersCost(const Snapshot& snapshot, const std::vector<quality::Owner>& owners) {
  const Layout layout = makeLayout(*snapshot.machine, snapshot.reserved);
  std::vector<TenantId> tenants;
  for (const quality::Owner& owner : owners) tenants.push_back(owner.pool ? TenantId{} : TenantId(owner.tenant));
  Board board(layout, tenants);
  std::int64_t cost = 0;
  for (std::size_t o = 0; o < owners.size(); ++o) {
    std::vector<Positions> homes;
    for (const CpuSet& home : owners[o].homes) homes.push_back(layout.toPositions(home));
    const Positions all = layout.toPositions(owners[o].all());
    for (const int position : all) board.give(position, static_cast<int>(o));
    cost += groupCost(layout, all, homes) + deviceCost(awayFrom(layout, owners[o].device), all);
  }
  return cost + boardCost(board);
}

TEST(Quality, PlannerAndOracleMeanTheSameByJ) {
  for (std::uint64_t seed = 0; seed < kInstances; ++seed) {
    const Snapshot snapshot = quality::instanceOf(seed);
    const Plan plan = decide(snapshot, {});
    const std::vector<quality::Owner> owners = quality::ownersOf(snapshot, plan);
    ASSERT_EQ(plannersCost(snapshot, owners), quality::costOf(snapshot, owners)) << "instance " << seed;
  }
}

// ---- against the peers ----
TEST(Quality, OverAHistoryNobodyPlacesBetter) {
  const Machine machine = testing::shapeNamed("xeon-2s-64").value();
  ASSERT_TRUE(quality::comparable(machine));
  const quality::Placements own = quality::runHistory(machine, PolicyName::Drc, 1, 60);
  EXPECT_EQ(own.unequal, 0);
  for (const PolicyName policy : {PolicyName::KubeletStatic, PolicyName::Balloons, PolicyName::NoneSingle}) {
    const quality::Placements theirs = quality::runHistory(machine, policy, 1, 60);
    EXPECT_EQ(theirs.unequal, 0);
    EXPECT_LE(2 * own.crossNodeContainers, theirs.crossNodeContainers);
    EXPECT_LE(own.sharedCores, theirs.sharedCores);
  }
  EXPECT_FALSE(quality::comparable(testing::shapeNamed("hybrid-28").value())) << "CPUs of several kinds: sizes cannot be equal";
}

// ---- the oracle itself ----
struct CostRow {
  const char* what;
  testing::MachineShape shape;
  std::vector<quality::Owner> owners;
  std::int64_t quarters;
  std::int64_t least;
};

quality::Owner owner(int tenant, std::vector<CpuSet> homes, Isolation isolation = Isolation::None) {
  return {tenant, false, isolation, std::move(homes)};
}

TEST(QualityOracle, CostsOfPlacementsByHandAndTheLeast) {
  const testing::MachineShape nodes{1, 2, 0, 4, 1};
  const testing::MachineShape smt{1, 1, 1, 2, 2};  // siblings 0,2 and 1,3
  const testing::MachineShape sockets{2, 1, 0, 2, 1};
  const std::vector<CostRow> rows{
      {"within a node, and half of it free", nodes, {owner(1, {{0, 1}})}, 4, 4},
      {"over two nodes of a socket: 2 CPUs * 4, as container and as a quarter of the group; two caches partly free",
       nodes,
       {owner(1, {{3, 4}})},
       48,
       4},
      {"containers apart on nodes of their own: the group alone spans", nodes, {owner(1, {{0, 1, 2, 3}, {4, 5, 6, 7}})}, 32, 32},
      {"containers that interleave", nodes, {owner(1, {{0, 1, 4, 5}, {2, 3, 6, 7}})}, 160, 32},
      {"two tenants on both cores", smt, {owner(1, {{0, 1}}), owner(2, {{2, 3}})}, 36, 4},
      {"one tenant's two groups on both cores", smt, {owner(1, {{0, 1}}), owner(1, {{2, 3}})}, 0, 0},
      {"over the machine", sockets, {owner(1, {{1, 2}}), owner(2, {{0, 3}})}, 328, 0},
      {"an isolated one in whole cores, over two of them", smt, {owner(1, {{0, 2}}, Isolation::Core), owner(2, {{1}})}, 8, 8},
  };
  for (const CostRow& row : rows) {
    SCOPED_TRACE(row.what);
    const Machine machine = testing::regularMachine("m", row.shape);
    const SnapshotBuilder builder(machine);
    EXPECT_EQ(quality::costOf(builder.snapshot, row.owners), row.quarters);
    const auto best = quality::cheapest(builder.snapshot, row.owners, row.quarters + 1);
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(quality::costOf(builder.snapshot, *best), row.least);
    EXPECT_FALSE(quality::cheapest(builder.snapshot, row.owners, row.least).has_value());
  }
}

// All placements of one group's two containers and another's one, without any symmetry or bound.
std::int64_t leastByBruteForce(const Snapshot& snapshot, const std::vector<quality::Owner>& owners) {
  std::vector<std::size_t> of;  // per container: its owner and which one of it
  std::vector<std::size_t> which;
  std::vector<int> word;  // per CPU: the container, or the last number for none
  for (std::size_t o = 0; o < owners.size(); ++o) {
    for (std::size_t c = 0; c < owners[o].homes.size(); ++c) {
      word.insert(word.end(), static_cast<std::size_t>(owners[o].homes[c].count()), static_cast<int>(of.size()));
      of.push_back(o), which.push_back(c);
    }
  }
  const std::vector<int> cpus = snapshot.machine->online.toVector();
  word.resize(cpus.size(), static_cast<int>(of.size()));
  std::int64_t least = INT64_MAX;
  do {
    std::vector<quality::Owner> placed = owners;
    for (quality::Owner& one : placed) one.homes.assign(one.homes.size(), {});
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      const auto container = static_cast<std::size_t>(word[i]);
      if (container < of.size()) placed[of[container]].homes[which[container]].add(cpus[i]);
    }
    least = std::min(least, quality::costOf(snapshot, placed));
  } while (std::next_permutation(word.begin(), word.end()));
  return least;
}

TEST(QualityOracle, SymmetryAndBoundsLoseNothing) {
  int compared = 0;
  for (std::uint64_t seed = 0; compared < 25; ++seed) {
    const Snapshot snapshot = quality::instanceOf(seed);
    const Plan plan = decide(snapshot, {});
    const std::vector<quality::Owner> owners = quality::ownersOf(snapshot, plan);
    std::size_t containers = 0;
    bool plain = snapshot.machine->cpus.size() <= 8 && snapshot.machine->cpus.back().kind == 0 && snapshot.machine->cpus.front().kind == 0;
    for (const quality::Owner& one : owners) {
      containers += one.homes.size();
      plain = plain && one.isolation == Isolation::None && static_cast<int>(one.homes.size()) <= one.all().count();
    }
    if (!plain || containers > 3) continue;
    const auto best = quality::cheapest(snapshot, owners, INT64_MAX);
    ASSERT_TRUE(best.has_value());
    ASSERT_EQ(quality::costOf(snapshot, *best), leastByBruteForce(snapshot, owners)) << "instance " << seed;
    ++compared;
  }
}

TEST(QualityOracle, FairSharesByHand) {
  const Machine machine = testing::regularMachine("m", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  GroupState& one = builder.group(1);
  builder.group(2).weight = 300;
  builder.group(2).floor = MilliCpu(2500);
  one.ceiling = MilliCpu(2000);
  // Tenant 1 stops at 2000; of the 6000 left the third group has its floor in whole CPUs, the second the rest.
  const std::vector<double> fair = quality::fairShares(builder.snapshot, {false, false, false});
  EXPECT_NEAR(fair[0], 2000, 1e-6);
  EXPECT_NEAR(fair[1], 3000, 1e-6);
  EXPECT_NEAR(fair[2], 3000, 1e-6);
  EXPECT_EQ(quality::bestPending(builder.snapshot), (std::vector<bool>{false, false, false}));
}

}  // namespace
}  // namespace coterie::allocation
