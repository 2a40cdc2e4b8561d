#include "allocation/decide.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "allocation/plan_and_replay.h"
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
bool says(const Plan& plan, ReasonCode code) {
  return std::any_of(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& reason) { return reason.code == code; });
}
bool says(const Plan& plan, GroupId group, ReasonCode code) {
  return std::any_of(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& reason) { return reason.code == code && reason.group == group; });
}
Plan settle(Snapshot& snapshot, const Config& config = {}) {
  Plan plan = decide(snapshot, config);
  applyAll(snapshot, plan);
  return plan;
}

// ---- traps of the specification ----
TEST(Decide, ThreeCpusTwoEqualTenantsTwoAndOneAndItStays) {
  const Machine machine = testing::regularMachine("3", {1, 1, 0, 3, 1});
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(1);
  const Plan first = settle(builder.snapshot);
  EXPECT_EQ(homeOf(first, 0).count(), 2);
  EXPECT_EQ(homeOf(first, 1).count(), 1);
  builder.snapshot.groups[1].tenantWeight = 110;  // not enough to take the odd CPU away
  EXPECT_TRUE(decide(builder.snapshot, {}).steps.empty());
}
TEST(Decide, FloorsBeyondCapacityAfterAnOfflineTheYoungestOfTheLowestBandIsPending) {
  Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  for (const Band band : {Band::Normal, Band::Low, Band::Low}) {
    GroupState& group = builder.group(0);
    group.band = band;
    group.floor = MilliCpu(1000);
  }
  settle(builder.snapshot);
  machine = testing::withOnline(machine, set("0-1"), set("0-1"));
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_FALSE(plan.groups[0].pending);
  EXPECT_FALSE(plan.groups[1].pending);
  EXPECT_TRUE(plan.groups[2].pending);
  EXPECT_TRUE(says(plan, builder.snapshot.groups[2].id, ReasonCode::PendingInsufficientCpu));
}
TEST(Decide, ACeilingBelowACpuMakesAPoolMember) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(0).ceiling = MilliCpu(400);
  builder.group(1);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_TRUE(plan.groups[0].inPool);
  EXPECT_EQ(plan.pool.count(), 1);
  EXPECT_EQ(homeOf(plan, 1).count(), 3);
  EXPECT_EQ(plan.groups[0].containers[0].ownLanes, 1);
}
// ---- quota.cpus ----
void cap(Snapshot& snapshot, int tenant, std::int64_t milli) {
  for (GroupState& group : snapshot.groups) {
    if (group.tenant == TenantId(tenant)) group.tenantCap = MilliCpu(milli);
  }
}

TEST(TenantCap, ThreeServicesWithACeilingOfTwoUnderACapOfTwoOwnTwo) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  for (int i = 0; i < 3; ++i) builder.group(0).ceiling = MilliCpu(2000);
  builder.group(1);
  const Plan without = decide(builder.snapshot, {});
  EXPECT_GT(homeOf(without, 0).count() + homeOf(without, 1).count() + homeOf(without, 2).count(), 2);
  cap(builder.snapshot, 0, 2000);
  const Plan plan = decide(builder.snapshot, {});
  std::int64_t owned = 0;
  for (std::size_t g = 0; g < 3; ++g) {
    EXPECT_TRUE(plan.groups[g].inPool);
    EXPECT_TRUE(says(plan, plan.groups[g].id, ReasonCode::CappedByQuota));
    EXPECT_FALSE(says(plan, plan.groups[g].id, ReasonCode::CappedAtCeiling));
    owned += plan.groups[g].entitlement.value;
  }
  EXPECT_EQ(owned, 2000);
  EXPECT_EQ(plan.pool.count(), 2);
  EXPECT_EQ(homeOf(plan, 3).count(), 6) << "what the cap leaves goes to the others";
  EXPECT_FALSE(says(plan, plan.groups[3].id, ReasonCode::CappedByQuota));
}

TEST(TenantCap, LoweredBelowUseItSheds) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  builder.group(0).floor = MilliCpu(1000);
  builder.group(0).floor = MilliCpu(2000);
  settle(builder.snapshot);
  EXPECT_EQ(builder.snapshot.groups[0].containers[0].home.count() + builder.snapshot.groups[1].containers[0].home.count(), 8);
  cap(builder.snapshot, 0, 5000);
  settle(builder.snapshot);
  EXPECT_EQ(builder.snapshot.groups[0].containers[0].home.count() + builder.snapshot.groups[1].containers[0].home.count(), 5);
  cap(builder.snapshot, 0, 1500);  // below the floors: they stay, nothing above them
  settle(builder.snapshot);
  EXPECT_EQ(builder.snapshot.groups[0].containers[0].home.count(), 1);
  EXPECT_EQ(builder.snapshot.groups[1].containers[0].home.count(), 2);
  EXPECT_TRUE(decide(builder.snapshot, {}).steps.empty());
}

TEST(TenantCap, AFractionIsNeverRoundedUpToACpu) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(0);
  cap(builder.snapshot, 0, 2999);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(homeOf(plan, 0).count(), 2);
  const auto reason = std::find_if(plan.reasons.begin(), plan.reasons.end(), [](const Reason& one) { return one.code == ReasonCode::CappedByQuota; });
  ASSERT_NE(reason, plan.reasons.end());
  EXPECT_EQ(reason->a, 2999);
  EXPECT_EQ(reason->b, 2000);
}

TEST(TenantCap, BorrowedIdleTimeIsNotCounted) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  GroupState& borrower = builder.group(0);
  borrower.loanLanes = 4;
  borrower.demand = MilliCpu(4000);
  borrower.queuedBeyondOwnLanes = true;
  builder.group(1);
  cap(builder.snapshot, 0, 1000);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(homeOf(plan, 0).count(), 1);
  EXPECT_EQ(plan.groups[0].containers[0].awakeLoanLanes, 3);
}

TEST(TenantCap, SlowCoresCountByTheirCapacity) {
  const Machine machine = testing::machineNamed("performance-efficiency");  // 4 of 1000, 4 of 500
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(1);
  cap(builder.snapshot, 0, 2000);
  const Plan plan = decide(builder.snapshot, {});
  std::int64_t owned = 0;
  for (const int cpu : homeOf(plan, 0)) owned += machine.findCpu(cpu)->capacity.value;
  EXPECT_EQ(owned, 2000);
}

TEST(TenantCap, ThePeersHaveNone) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(0);
  for (const PolicyName policy : {PolicyName::NoneSingle, PolicyName::NoneMulti, PolicyName::CpuManagerSingle, PolicyName::CpuManagerMulti}) {
    Config config;
    config.policy = policy;
    cap(builder.snapshot, 0, 0);
    const Plan without = decide(builder.snapshot, config);
    cap(builder.snapshot, 0, 1000);
    const Plan with = decide(builder.snapshot, config);
    EXPECT_EQ(with.steps, without.steps);
    EXPECT_EQ(with.reasons, without.reasons);
  }
}

// ---- traps, continued ----
TEST(Decide, ATenantWithoutGroupsKeepsNoShare) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(1);
  settle(builder.snapshot);
  builder.snapshot.groups.pop_back();
  EXPECT_EQ(homeOf(decide(builder.snapshot, {}), 0), set("0-3"));
}
TEST(Decide, ACoreWithOneOnlineThreadIsOneCpu) {
  const Machine machine =
      testing::withOnline(testing::machineNamed("smt-8"), set("0-2,5"), set("0-2,5"));  // cores 0, 2 with one thread, core 1 whole
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(1);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(homeOf(plan, 0), set("0,2")) << "two cores of one CPU";
  EXPECT_EQ(homeOf(plan, 1), set("1,5")) << "and the core of two";
}
TEST(Decide, SwapOfTwoFullGroupsNeverSharesAcrossTenants) {
  const Machine machine = testing::regularMachine("2x2", {2, 1, 0, 2, 1});
  SnapshotBuilder builder(machine);
  builder.group(0, set("0,2"));
  builder.group(1, set("1,3"));
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(homeOf(plan, 0), set("0-1"));
  EXPECT_EQ(homeOf(plan, 1), set("2-3"));
  for (const Step& step : plan.steps) EXPECT_NE(step.kind, StepKind::SwapHome);
  EXPECT_TRUE(says(plan, ReasonCode::MovedForBetterFit));
}
TEST(Decide, ANewcomerDoesNotRepackTheOthers) {
  const Machine machine = testing::machineNamed("8-nodes-caches");
  SnapshotBuilder builder(machine);
  for (int i = 0; i < 3; ++i) builder.group(i).ceiling = MilliCpu(6000);
  settle(builder.snapshot);
  const Snapshot before = builder.snapshot;
  builder.group(3).ceiling = MilliCpu(6000);
  const Plan plan = decide(builder.snapshot, {});
  for (std::size_t g = 0; g < 3; ++g) EXPECT_EQ(homeOf(plan, g), before.groups[g].containers[0].home);
}
TEST(Decide, AllFloorsEqualTheMachineAndOneWithoutAFloorIsPending) {
  const Machine machine = testing::regularMachine("2", {1, 1, 0, 2, 1});
  SnapshotBuilder builder(machine);
  builder.group(0).floor = MilliCpu(2000);
  GroupState newcomer;
  EXPECT_EQ(missingForFloor(builder.snapshot, newcomer), MilliCpu(1000));
  builder.group(1).band = Band::Low;
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_FALSE(plan.groups[0].pending);
  EXPECT_TRUE(plan.groups[1].pending);
}
TEST(Decide, OneCpuIsSharedByEverybody) {
  const Machine machine = testing::machineNamed("1-cpu");
  SnapshotBuilder builder(machine);
  builder.group(0);
  builder.group(1).tenantWeight = 300;
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(plan.pool, set("0"));
  EXPECT_EQ(plan.groups[1].cpuWeight, 3 * plan.groups[0].cpuWeight);
}

// ---- stories of others' failures ----
TEST(Decide, Kubernetes124066ReservedIsNeverHandedOutEvenUnderPressure) {
  const Machine whole = testing::regularMachine("96", {2, 1, 0, 48, 1});
  const Machine machine = testing::withOnline(whole, set("25"), set("25"));
  SnapshotBuilder builder(machine);
  builder.snapshot.reserved = set("25");
  builder.group(0);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_TRUE(plan.groups[0].pending);
  EXPECT_TRUE(plan.steps.empty());
}
TEST(Decide, Kubernetes140989ARestartOnASmallerMachineKeepsWhatIsHeld) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.snapshot.reserved = set("0");
  GroupState& group = builder.group(0, set("1-2"));
  group.floor = group.ceiling = MilliCpu(2000);
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(homeOf(plan, 0), set("1-2"));
}
TEST(Decide, Kubernetes141196ThePoolIsNeverEmptyWhileItHasMembers) {
  const Machine machine = testing::regularMachine("2", {1, 1, 0, 2, 1});
  SnapshotBuilder builder(machine);
  builder.group(0).tenantWeight = 1'000'000;
  builder.group(1).tenantWeight = 1;
  const Plan plan = decide(builder.snapshot, {});
  EXPECT_EQ(plan.pool.count(), 1);
  EXPECT_EQ(homeOf(plan, 1), plan.pool);
}
TEST(Decide, Kubernetes89949ARestartedWorkerIsPlacedByItsOwnId) {
  const Machine machine = testing::regularMachine("2", {1, 1, 0, 2, 1});
  SnapshotBuilder builder(machine);
  builder.group(0);
  settle(builder.snapshot);
  builder.snapshot.groups[0].containers.clear();
  const InstanceId fresh = builder.addContainer(builder.snapshot.groups[0]).id;
  const Plan plan = decide(builder.snapshot, {});
  ASSERT_FALSE(plan.steps.empty());
  for (const Step& step : plan.steps) EXPECT_TRUE(!step.container.valid() || step.container == fresh);
}
TEST(Decide, NriPlugins92AShrunkAllowanceMovesOnlyWhatMustMove) {
  Machine machine = testing::machineNamed("2x2-nodes");
  SnapshotBuilder builder(machine);
  for (int i = 0; i < 4; ++i) builder.group(i).ceiling = MilliCpu(3000);
  settle(builder.snapshot);
  const Snapshot before = builder.snapshot;
  CpuSet allowed = machine.online;
  allowed.remove(before.groups[2].containers[0].home.first());
  machine = testing::withOnline(machine, machine.online, allowed);
  const Plan plan = decide(builder.snapshot, {});
  for (const std::size_t g : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) EXPECT_EQ(homeOf(plan, g), before.groups[g].containers[0].home);
  EXPECT_TRUE(says(plan, before.groups[2].id, ReasonCode::MovedOffline));
}

// ---- steps ----
TEST(Steps, AGainerWaitsOnlyForWhatItTakes) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  builder.group(0, set("0-3"));
  builder.group(1, set("4-7"));
  builder.group(2);
  builder.snapshot.groups[1].floor = MilliCpu(4000);
  const Plan plan = decide(builder.snapshot, {});
  int widened = 0;
  for (const Step& step : plan.steps) {
    if (step.kind != StepKind::WidenHome) continue;
    ++widened;
    for (const int wait : step.waitsFor) {
      const Step& before = plan.steps[static_cast<std::size_t>(wait)];
      if (before.kind == StepKind::NarrowHome) {
        EXPECT_EQ(before.group, builder.snapshot.groups[0].id) << "group 1 loses nothing";
      }
    }
  }
  EXPECT_EQ(widened, 1);
}

// A history in which the pool and a group of whole CPUs exchange places and no CPU is free but one that a third is to gain: no order of writes was
// found, and all stayed where they were.
TEST(Steps, APoolAndAGroupExchangePlacesOverACpuThatAThirdGains) {
  const Machine whole = testing::machineNamed("performance-efficiency");
  const CpuSet left = set("0-1,3-7");
  const Machine machine = testing::withOnline(whole, left, left);
  SnapshotBuilder builder(machine);
  const auto add = [&](int tenant, Band band, std::int64_t weight, int floor, const std::vector<const char*>& homes) -> GroupState& {
    GroupState& group = builder.group(tenant, static_cast<int>(homes.size()));
    group.band = band;
    group.weight = weight;
    group.floor = MilliCpu(floor);
    for (std::size_t c = 0; c < homes.size(); ++c) group.containers[c].home = set(homes[c]);
    return group;
  };
  add(1, Band::Low, 100, 2580, {"1,4-5"}).tenantCap = MilliCpu(4000);
  add(2, Band::High, 317, 1000, {"3", "3", "3"}).tenantCap = MilliCpu(102);
  add(2, Band::Normal, 700, 196, {"7", "7", "7"}).tenantCap = MilliCpu(102);
  add(1, Band::Low, 100, 0, {"", "", "6", "6"}).tenantCap = MilliCpu(4000);
  GroupState& last = add(3, Band::Low, 628, 0, {"", "7", "", "7"});
  last.tenantWeight = 300;
  last.tenantCap = MilliCpu(382);
  builder.snapshot.pool = set("7");
  settle(builder.snapshot, "exchange");
}

// ---- loans ----
class Loans : public ::testing::Test {
 protected:
  Loans() : machine_(testing::regularMachine("4", {1, 1, 0, 4, 1})), builder_(machine_) {
    builder_.group(0).loanLanes = 4;
    builder_.group(1);
    settle(builder_.snapshot);
    borrower().demand = MilliCpu(3500);
    borrower().queuedBeyondOwnLanes = true;
  }
  GroupState& borrower() { return builder_.snapshot.groups[0]; }
  GroupState& owner() { return builder_.snapshot.groups[1]; }
  Machine machine_;
  SnapshotBuilder builder_;
};
TEST_F(Loans, ADemandBeyondTheEntitlementWakesLanesOnOthersHomesAndMovesNoHome) {
  const Plan plan = settle(builder_.snapshot);
  EXPECT_EQ(plan.groups[0].containers[0].awakeLoanLanes, 2);
  EXPECT_EQ(borrower().containers[0].loans, owner().containers[0].home);
  for (const Step& step : plan.steps) EXPECT_EQ(step.kind, StepKind::SetLoans);
}
TEST_F(Loans, WithoutAQueueNothingIsWoken) {
  borrower().queuedBeyondOwnLanes = false;
  EXPECT_TRUE(decide(builder_.snapshot, {}).steps.empty());
}
TEST_F(Loans, WhoDoesNotLendIsLeftAlone) {
  owner().lend = Lend::Never;
  EXPECT_TRUE(decide(builder_.snapshot, {}).steps.empty());
}
TEST_F(Loans, ParkedOnlyAfterTheDelay) {
  settle(builder_.snapshot);
  borrower().demand = MilliCpu(500);
  borrower().demandBelowEntitlementSince = builder_.snapshot.now - Millis(40);
  const Plan early = decide(builder_.snapshot, {});
  EXPECT_TRUE(early.steps.empty());
  EXPECT_EQ(early.decideAgainAt, builder_.snapshot.now + Millis(60));
  builder_.snapshot.now += Millis(60);
  const Plan late = settle(builder_.snapshot);
  EXPECT_TRUE(says(late, ReasonCode::LoanParked));
  EXPECT_TRUE(borrower().containers[0].loans.empty());
}
TEST_F(Loans, OffMeansOff) {
  Config config;
  config.lending = false;
  const Plan plan = decide(builder_.snapshot, config);
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_TRUE(says(plan, ReasonCode::LendingOff));
}
TEST_F(Loans, TheIdleOwnersCpusComeFirst) {
  const Machine machine = testing::regularMachine("6", {1, 1, 0, 6, 1});
  SnapshotBuilder builder(machine);
  builder.group(0).loanLanes = 1;
  builder.group(1);
  builder.group(2);
  settle(builder.snapshot);
  builder.snapshot.groups[0].demand = MilliCpu(3000);
  builder.snapshot.groups[0].queuedBeyondOwnLanes = true;
  builder.snapshot.groups[1].demand = MilliCpu(2000);
  settle(builder.snapshot);
  EXPECT_TRUE(builder.snapshot.groups[0].containers[0].loans.isSubsetOf(builder.snapshot.groups[2].containers[0].home));
}

// ---- baselines, from kubelet's documentation ----
TEST(PolicyNone, EverybodyFloatsOverTheAllowedCpus) {
  const Machine machine = testing::machineNamed("2x2-nodes");
  SnapshotBuilder builder(machine);
  builder.snapshot.reserved = set("0");
  builder.group(0);
  builder.group(1, 3);
  for (const PolicyName policy : {PolicyName::NoneSingle, PolicyName::NoneMulti}) {
    Config config;
    config.policy = policy;
    const Plan plan = decide(builder.snapshot, config);
    for (const GroupTarget& target : plan.groups) {
      for (const ContainerTarget& container : target.containers) EXPECT_EQ(container.home, machine.online - set("0"));
    }
    EXPECT_TRUE(says(plan, ReasonCode::SharesFloat));
  }
}

struct CpuManagerRow {
  const char* what;
  int cpus;
  std::vector<int> containers;  // per group
  int each;                     // CPUs per container; 0: all share
  int shared;                   // left in the shared pool
};
TEST(PolicyCpuManager, Table) {
  const std::vector<CpuManagerRow> rows{
      {"one service has the machine", 8, {1}, 8, 0},
      {"two single ones split it", 8, {1, 1}, 4, 0},
      {"what does not divide is the shared pool", 8, {1, 1, 1}, 2, 2},
      {"many containers: exclusive by container", 8, {2, 2}, 2, 0},
      {"unequal services", 8, {1, 2}, 2, 2},
      {"more containers than CPUs: no exclusive ones", 2, {1, 1, 1}, 0, 2},
  };
  for (const CpuManagerRow& row : rows) {
    SCOPED_TRACE(row.what);
    const Machine machine = testing::regularMachine("m", {1, 1, 0, row.cpus, 1});
    SnapshotBuilder builder(machine);
    for (std::size_t g = 0; g < row.containers.size(); ++g) builder.group(static_cast<int>(g), row.containers[g]);
    Config config;
    config.policy = PolicyName::CpuManagerMulti;
    const Plan plan = settle(builder.snapshot, config);
    EXPECT_EQ(plan.pool.count(), row.shared);
    for (const GroupTarget& target : plan.groups) {
      for (const ContainerTarget& container : target.containers) EXPECT_EQ(container.home.count(), row.each == 0 ? row.cpus : row.each);
    }
    EXPECT_TRUE(decide(builder.snapshot, config).steps.empty()) << "a container keeps its CPUs";
  }
}
TEST(PolicyCpuManager, WholeCoresFirst) {
  const Machine machine = testing::machineNamed("smt-8");
  SnapshotBuilder builder(machine);
  for (int g = 0; g < 4; ++g) builder.group(g);
  Config config;
  config.policy = PolicyName::CpuManagerSingle;
  const Plan plan = decide(builder.snapshot, config);
  EXPECT_EQ(homeOf(plan, 0), set("0,4"));
  EXPECT_EQ(homeOf(plan, 3), set("3,7"));
}

TEST(Reasons, EachHasAName) {
  for (int code = 0; code <= static_cast<int>(ReasonCode::SharesFloat); ++code) EXPECT_NE(reasonName(static_cast<ReasonCode>(code)), "Unknown");
}

}  // namespace
}  // namespace coterie::allocation
