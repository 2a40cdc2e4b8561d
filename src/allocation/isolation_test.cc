#include "allocation/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "allocation/decide.h"
#include "allocation/invariants.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const char* list) { return CpuSet::parse(list).value(); }

CpuSet homeOf(const Plan& plan, std::size_t group) {
  CpuSet home;
  for (const ContainerTarget& container : plan.groups[group].containers) home |= container.home;
  return home;
}
const Reason* reasonOf(const Plan& plan, std::size_t group, ReasonCode code) {
  const auto found = std::find_if(plan.reasons.begin(), plan.reasons.end(),
                                  [&](const Reason& reason) { return reason.code == code && reason.group == plan.groups[group].id; });
  return found == plan.reasons.end() ? nullptr : &*found;
}
GroupState& asking(SnapshotBuilder& builder, int tenant, int cpus, Isolation isolation = Isolation::None) {
  GroupState& group = builder.group(tenant);
  group.floor = group.ceiling = MilliCpu(1000 * cpus);
  group.isolation = isolation;
  return group;
}
// Decides, applies step by step and looks for a breach after each.
Plan settle(Snapshot& snapshot) {
  const Snapshot before = snapshot;
  const Plan plan = decide(snapshot, {});
  for (const Violation& one : checkPlan(before, plan, {})) ADD_FAILURE() << one.what;
  for (const Step& step : plan.steps) {
    applyStep(snapshot, step);
    for (const Violation& one : checkState(before, plan, snapshot, {})) ADD_FAILURE() << one.what << " on " << one.cpu;
  }
  snapshot = before;
  applyAll(snapshot, plan);
  EXPECT_TRUE(decide(snapshot, {}).steps.empty()) << "a fixpoint";
  return plan;
}

const testing::MachineShape kSmt{2, 1, 2, 2, 2};  // 2 nodes x 2 cache groups x 2 cores x 2 threads; siblings i, i+8

TEST(Isolation, ThreeCpusAtCoreAreChargedFourAndRunOnThree) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  asking(builder, 1, 3, Isolation::Core);
  builder.group(2);
  const Plan plan = settle(builder.snapshot);
  EXPECT_EQ(homeOf(plan, 0), set("0-1,8-9"));
  EXPECT_EQ(homeOf(plan, 1), machine.online - set("0-1,8-9"));
  EXPECT_EQ(plan.groups[0].containers[0].ownLanes, 3) << "its ceiling";
  const Reason* charged = reasonOf(plan, 0, ReasonCode::IsolationCharged);
  ASSERT_NE(charged, nullptr);
  EXPECT_EQ(charged->a, 4);
}

struct LevelRow {
  Isolation isolation;
  int asked;
  const char* home;
};
TEST(Isolation, EachLevelOwnsItsWholeUnits) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  for (const LevelRow& row : {LevelRow{Isolation::Core, 1, "0,8"}, LevelRow{Isolation::Cache, 1, "0-1,8-9"},
                              LevelRow{Isolation::Cache, 5, "0-3,8-11"}, LevelRow{Isolation::Node, 1, "0-3,8-11"}}) {
    SCOPED_TRACE(row.home);
    SnapshotBuilder builder(machine);
    asking(builder, 1, row.asked, row.isolation);
    asking(builder, 2, 6);
    EXPECT_EQ(homeOf(settle(builder.snapshot), 0), set(row.home));
  }
}

TEST(Isolation, ANewcomerMovesOthersOutOfItsUnitAndNeverStandsBesideThem) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  asking(builder, 1, 4).containers.front().home = set("0-1,4-5");  // on every node, on half of four cores
  asking(builder, 2, 1, Isolation::Node);
  const Plan plan = settle(builder.snapshot);
  EXPECT_EQ(homeOf(plan, 1).count(), 8);
  EXPECT_EQ(homeOf(plan, 0).count(), 4);
}

TEST(Isolation, AnImpossibleOneIsRefusedToTheNewcomer) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  asking(builder, 1, 9);
  GroupState newcomer;
  newcomer.tenant = TenantId(2);
  newcomer.ceiling = MilliCpu(1000);
  newcomer.isolation = Isolation::Cache;
  EXPECT_EQ(missingForFloor(builder.snapshot, newcomer), MilliCpu(0));
  newcomer.isolation = Isolation::Node;
  EXPECT_EQ(missingForFloor(builder.snapshot, newcomer), MilliCpu(1000));
}

TEST(Isolation, TenantsMayShareTheirOwnUnitsButNoPoolAcrossTenants) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  GroupState& small = builder.group(1);
  small.ceiling = MilliCpu(300);
  small.isolation = Isolation::Core;
  builder.group(2).ceiling = MilliCpu(300);
  const Plan plan = settle(builder.snapshot);
  EXPECT_FALSE(plan.groups[0].inPool);
  EXPECT_EQ(homeOf(plan, 0).count(), 2) << "a core of its own";
  EXPECT_TRUE(plan.groups[1].inPool);
}

TEST(Isolation, NobodyLendsAcrossIt) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  asking(builder, 1, 8, Isolation::Core);
  GroupState& borrower = asking(builder, 2, 8);
  borrower.ceiling = MilliCpu(16000);
  borrower.loanLanes = 16;
  borrower.demand = MilliCpu(16000);
  borrower.queuedBeyondOwnLanes = true;
  const Plan plan = settle(builder.snapshot);
  EXPECT_TRUE(plan.groups[1].containers[0].loans.empty());
  const Reason* refused = reasonOf(plan, 1, ReasonCode::LoanRefusedIsolation);
  ASSERT_NE(refused, nullptr);
  EXPECT_EQ(refused->other, plan.groups[0].id);
}

TEST(Isolation, UnitsAreKeptAndGrowBesideTheirOwn) {
  const Machine machine = testing::regularMachine("smt", kSmt);
  SnapshotBuilder builder(machine);
  asking(builder, 1, 2, Isolation::Core).containers.front().home = set("2,10");
  asking(builder, 2, 2, Isolation::Core).containers.front().home = set("0,8");
  Plan plan = settle(builder.snapshot);
  EXPECT_EQ(homeOf(plan, 0), set("2,10"));
  builder.snapshot.groups[0].floor = builder.snapshot.groups[0].ceiling = MilliCpu(4000);
  plan = settle(builder.snapshot);
  EXPECT_EQ(homeOf(plan, 0), set("2-3,10-11")) << "in its own cache group";
}

// Three cores and two equal tenants had one each; the third was nobody's.
TEST(Isolation, WholeUnitsThatNobodyIsEntitledToAreGrantedByRemainder) {
  const Machine machine = testing::regularMachine("three-cores", {1, 1, 0, 3, 2});
  SnapshotBuilder builder(machine);
  for (const int tenant : {1, 2}) builder.group(tenant).isolation = Isolation::Core;
  const Plan plan = settle(builder.snapshot);
  EXPECT_EQ(homeOf(plan, 0).count(), 4);
  EXPECT_EQ(homeOf(plan, 1).count(), 2);
  builder.snapshot.groups[0].ceiling = MilliCpu(2000);
  const Plan other = settle(builder.snapshot);
  EXPECT_EQ(homeOf(other, 0).count(), 2) << "its ceiling";
  EXPECT_EQ(homeOf(other, 1).count(), 4);
  builder.snapshot.groups[1].tenantCap = MilliCpu(3000);
  EXPECT_EQ(homeOf(settle(builder.snapshot), 1).count(), 2) << "its tenant's cap";
}

// A third of 8 CPUs for one tenant, and of the 5333 1/3 milli-CPUs of the other three quarters: 4000, of which integers made 3999.
TEST(Isolation, AMilliCpuLostInDivisionCostsNoUnit) {
  const Machine machine = testing::regularMachine("flat", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  GroupState& first = builder.group(1);
  first.isolation = Isolation::Core;
  builder.group(2);
  GroupState& last = builder.group(2);
  last.isolation = Isolation::Core;
  last.weight = 300;
  for (GroupState& group : builder.snapshot.groups) group.tenantWeight = 100 * group.tenant.value;
  const Plan plan = settle(builder.snapshot);
  EXPECT_EQ(plan.groups[0].entitlement, MilliCpu(2000));
  EXPECT_EQ(plan.groups[1].entitlement, MilliCpu(2000));
  EXPECT_EQ(plan.groups[2].entitlement, MilliCpu(4000));
}

}  // namespace
}  // namespace coterie::allocation
