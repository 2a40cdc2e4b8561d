// The peers' policies, as far as their users know them.
#include <gtest/gtest.h>

#include <string>

#include "allocation/decide.h"
#include "allocation/invariants.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const char* list) { return CpuSet::parse(list).value(); }

GroupState& asking(SnapshotBuilder& builder, int tenant, int cpus, int containers = 1) {
  GroupState& group = builder.group(tenant, containers);
  group.floor = group.ceiling = MilliCpu(1000 * cpus);
  return group;
}
Config kubelet(const KubeletStaticOptions& options = {}) {
  Config config;
  config.policy = PolicyName::KubeletStatic;
  config.kubelet = options;
  return config;
}
Config balloons() {
  Config config;
  config.policy = PolicyName::Balloons;
  return config;
}

struct KubeletRow {
  const char* what;
  testing::MachineShape shape;
  KubeletStaticOptions options;
  const char* taken;  // by a first container
  int asked;
  const char* chosen;  // empty: refused
};

TEST(PolicyKubeletStatic, WhereAContainerGoes) {
  const testing::MachineShape smt{2, 2, 2, 2, 2};  // 2 sockets x 2 nodes x 2 cache groups x 2 cores x 2 threads; siblings i, i+16
  const KubeletRow rows[] = {
      {"whole cores, lowest first", smt, {}, "", 4, "0-1,16-17"},
      {"a whole node", smt, {}, "", 8, "0-3,16-19"},
      {"a whole socket before nodes", smt, {}, "0", 16, "8-15,24-31"},
      {"the other half of a core in use, for a single thread", smt, {}, "0", 1, "16"},
      {"packed into the node in use", smt, {}, "0-1,16-17", 4, "2-3,18-19"},
      {"an odd request is refused", smt, {.fullPhysicalCpusOnly = true}, "", 3, ""},
      {"an even one is not", smt, {.fullPhysicalCpusOnly = true}, "", 2, "0,16"},
      {"equal parts from as few nodes as can give them", smt, {.distributeAcrossNuma = true}, "0,16,4,20,8,24,12,28", 8, "1-2,5-6,17-18,21-22"},
      {"one socket, if it has room", smt, {.alignBySocket = true}, "0-3,16-19,8,24", 10, "9,12-15,25,28-31"},
      {"a whole cache group, not half of two", smt, {.preferUncoreCache = true}, "0,16", 4, "2-3,18-19"},
      {"more than there is is refused", smt, {}, "0", 32, ""},
  };
  for (const KubeletRow& row : rows) {
    SCOPED_TRACE(row.what);
    const Machine machine = testing::regularMachine("m", row.shape);
    SnapshotBuilder builder(machine);
    const CpuSet taken = set(row.taken);
    if (!taken.empty()) asking(builder, 1, taken.count()).containers.front().home = taken;
    GroupState& group = asking(builder, 2, row.asked);
    Config config = kubelet(row.options);
    if (!taken.empty() && row.options.fullPhysicalCpusOnly) config.kubelet.fullPhysicalCpusOnly = false;
    const Plan plan = decide(builder.snapshot, config);
    const GroupTarget& target = plan.groups.back();
    EXPECT_EQ(target.id, group.id);
    EXPECT_EQ(target.pending, *row.chosen == '\0');
    EXPECT_EQ(target.containers.front().home, set(row.chosen));
  }
}

TEST(PolicyKubeletStatic, FractionsAndZeroShareWhatNobodyOwns) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  asking(builder, 1, 3);
  builder.group(2).floor = MilliCpu(1500);
  builder.group(3);
  const Plan plan = decide(builder.snapshot, kubelet());
  EXPECT_EQ(plan.groups[0].containers.front().home, set("0-2"));
  EXPECT_EQ(plan.groups[1].containers.front().home, set("3-7"));
  EXPECT_EQ(plan.groups[2].containers.front().home, set("3-7"));
  EXPECT_EQ(plan.pool, set("3-7"));
}

TEST(PolicyBalloons, InflatesInPlaceDeflatesWhereItHoldsLeast) {
  const Machine machine = testing::regularMachine("2x4", {2, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  GroupState& group = asking(builder, 1, 3, 2);
  applyAll(builder.snapshot, decide(builder.snapshot, balloons()));
  for (const ContainerState& container : group.containers) EXPECT_EQ(container.home, set("0-2")) << "all containers share the balloon";
  group.floor = MilliCpu(5200);
  applyAll(builder.snapshot, decide(builder.snapshot, balloons()));
  EXPECT_EQ(group.containers.front().home.count(), 6);
  EXPECT_TRUE(set("0-3").isSubsetOf(group.containers.front().home)) << "its node first, then elsewhere";
  group.floor = MilliCpu(4000);
  applyAll(builder.snapshot, decide(builder.snapshot, balloons()));
  EXPECT_EQ(group.containers.front().home, set("0-3"));
  EXPECT_TRUE(decide(builder.snapshot, balloons()).steps.empty());
}

TEST(PolicyBalloons, OneThatCannotInflateIsPendingAndOneCpuStaysForThoseThatShare) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  SnapshotBuilder builder(machine);
  builder.group(1);
  asking(builder, 2, 3);
  asking(builder, 3, 1);
  const Plan plan = decide(builder.snapshot, balloons());
  EXPECT_EQ(plan.groups[0].containers.front().home.count(), 1);
  EXPECT_FALSE(plan.groups[1].pending);
  EXPECT_TRUE(plan.groups[2].pending);
}

// On every machine, for whatever is asked: exclusive sets do not overlap, and a plan is a fixpoint.
TEST(PeersPolicies, NoOverlapAndAFixpointOnEveryMachine) {
  for (const std::string_view name : testing::machineNames()) {
    SCOPED_TRACE(std::string(name));
    const Machine machine = testing::machineNamed(name);
    if (machine.allowed.count() < 4) continue;  // where nothing is left to share, kubelet-static lets those that share float over owners
    for (const PolicyName policy : {PolicyName::KubeletStatic, PolicyName::Balloons}) {
      SnapshotBuilder builder(machine);
      const int third = std::max(1, machine.allowed.count() / 3);
      builder.group(1);
      asking(builder, 2, third);
      asking(builder, 3, third, third > 1 && third % 2 == 0 ? 2 : 1);
      Config config;
      config.policy = policy;
      const Plan plan = decide(builder.snapshot, config);
      for (const Violation& violation : checkPlan(builder.snapshot, plan, config)) ADD_FAILURE() << violation.what;
      applyAll(builder.snapshot, plan);
      builder.snapshot.pool = plan.pool;
      EXPECT_TRUE(decide(builder.snapshot, config).steps.empty());
    }
  }
}

}  // namespace
}  // namespace coterie::allocation
