// Failures that other CPU managers shipped, each as a test named after its story: right under drc, and wrong under the rule of a peer, so that the
// test is known to bite. Sources: the issue numbers (k = kubernetes/kubernetes).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "allocation/decide.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const std::string& list) { return CpuSet::parse(list).value(); }

Config under(PolicyName policy) {
  Config config;
  config.policy = policy;
  return config;
}

CpuSet homeOf(const Plan& plan, std::size_t group) {
  CpuSet home;
  for (const ContainerTarget& container : plan.groups[group].containers) home |= container.home;
  return home;
}

// A group that asks for exactly so many CPUs.
GroupState& asking(SnapshotBuilder& builder, int tenant, int cpus) {
  GroupState& group = builder.group(tenant);
  group.floor = group.ceiling = MilliCpu(1000 * cpus);
  return group;
}
GroupState& holding(SnapshotBuilder& builder, int tenant, const CpuSet& home) {
  GroupState& group = asking(builder, tenant, home.count());
  group.containers.front().home = home;
  return group;
}

// What is wrong with the outcome under a policy; empty: nothing.
using Story = std::function<std::string(PolicyName)>;
void rightUnderDrcAndWrongUnder(PolicyName peer, const Story& story) {
  EXPECT_EQ(story(PolicyName::Drc), "");
  EXPECT_NE(story(peer), "") << "the story does not tell the peer's rule from ours";
}

// k#140989: after a restart the CPUs were given out anew; on a smaller machine the container was refused.
TEST(Stories, ARestartKeepsTheContainerWhereItRuns) {
  for (const int cpus : {6, 4}) {
    rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [cpus](PolicyName policy) -> std::string {
      const Machine machine = testing::regularMachine("m", {1, 1, 0, cpus, 1});
      SnapshotBuilder builder(machine);
      builder.snapshot.reserved = set("0");
      holding(builder, 1, set("1-2"));
      builder.snapshot.pool = {};  // nothing is remembered: only what is read back
      const Plan plan = decide(builder.snapshot, under(policy));
      if (plan.groups[0].pending) return "it is refused";
      return homeOf(plan, 0) == set("1-2") ? "" : "it is moved to " + homeOf(plan, 0).toString();
    });
  }
}

// k#106599: 28 CPUs out of scattered free ones on 8 nodes: whole cores, and few nodes.
TEST(Stories, ScatteredFreeCpusGiveWholeCoresOnFewNodes) {
  const Machine machine = testing::regularMachine("8x16x2", {8, 1, 0, 16, 2});
  const CpuSet open = set("0,128,30,31,158,159,43-47,171-175,62,63,190,191,75-79,203-207,94,96,222,223,101-111,229-239,126,127,254,255");
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [&](PolicyName policy) -> std::string {
    SnapshotBuilder builder(machine);
    builder.snapshot.bucket = {MilliCpu(0), builder.snapshot.now};  // nobody may be moved for it
    holding(builder, 1, machine.online - open);
    asking(builder, 2, 28);
    const Plan plan = decide(builder.snapshot, under(policy));
    const CpuSet home = homeOf(plan, 1);
    std::set<int> nodes;
    for (const int cpu : home) {
      nodes.insert(machine.findCpu(cpu)->node);
      if (!home.contains((cpu + 128) % 256)) return "half a core: " + home.toString();
    }
    if (home.count() != 28 || !home.isSubsetOf(open)) return home.toString();
    return nodes.size() == 2 ? "" : std::to_string(nodes.size()) + " nodes";
  });
}

// k#124066: 95 of 96 CPUs were offline, and the one that was left was the reserved one.
TEST(Stories, AReservedCpuIsNeverGivenOutNotEvenAsTheLast) {
  const auto story = [](PolicyName policy, const CpuSet& online) -> std::string {
    const Machine machine = testing::withOnline(testing::regularMachine("96", {2, 1, 0, 24, 2}), online, online);
    SnapshotBuilder builder(machine);
    builder.snapshot.reserved = set("25");
    asking(builder, 1, 1);
    builder.group(2);
    const Plan plan = decide(builder.snapshot, under(policy));
    for (std::size_t g = 0; g < 2; ++g) {
      if (homeOf(plan, g).contains(25)) return "25 is given out";
      for (const Step& step : plan.steps) {
        if (step.cpus.contains(25)) return "25 is in a step";
      }
    }
    return "";
  };
  for (const PolicyName policy : {PolicyName::Drc, PolicyName::KubeletStatic, PolicyName::Balloons, PolicyName::NoneSingle}) {
    EXPECT_EQ(story(policy, set("25")), "");
    EXPECT_EQ(story(policy, set("24-26")), "");
  }
}

// k#140495: a hybrid processor whose reserved CPU 0 was picked as one of two.
TEST(Stories, AHybridMachineKeepsItsReservedCpu) {
  std::vector<testing::CpuPlace> places;
  for (int cpu = 0; cpu < 16; ++cpu) places.push_back({cpu, 0, 0, 0, cpu / 2, 0, MilliCpu(1000)});
  for (int cpu = 16; cpu < 28; ++cpu) places.push_back({cpu, 0, 0, 0, cpu, 1, MilliCpu(600)});
  const Machine machine = testing::machineFrom("hybrid", places);
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [&](PolicyName policy) -> std::string {
    SnapshotBuilder builder(machine);
    builder.snapshot.reserved = set("0");
    asking(builder, 1, 2);
    const CpuSet home = homeOf(decide(builder.snapshot, under(policy)), 0);
    if (home.contains(0)) return "0 is given out";
    return home.count() == 2 ? "" : home.toString();
  });
}

// k#141196, dra-driver-cpu#295: the shared pool became empty, its set was not written, and shared containers ran over exclusive ones.
TEST(Stories, WhoSharesNeverRunsOverWhoOwns) {
  rightUnderDrcAndWrongUnder(PolicyName::KubeletStatic, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
    SnapshotBuilder builder(machine);
    builder.group(1).ceiling = MilliCpu(500);
    applyAll(builder.snapshot, decide(builder.snapshot, under(policy)));
    asking(builder, 2, 4).joined = builder.snapshot.now + Seconds(100);
    const Plan plan = decide(builder.snapshot, under(policy));
    if (homeOf(plan, 0).empty()) return "the shared one has no CPU";
    return homeOf(plan, 0).intersects(homeOf(plan, 1)) ? "they share " + (homeOf(plan, 0) & homeOf(plan, 1)).toString() : "";
  });
}

// nri-plugins#92: the allowed CPUs shrank under a running container, which then could not start again.
TEST(Stories, AShrunkAllowanceMovesAContainerAndNoMore) {
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [](PolicyName policy) -> std::string {
    const Machine whole = testing::regularMachine("8", {2, 1, 0, 4, 1});
    const Machine machine = testing::withOnline(whole, whole.online, set("0-1,4-7"));
    SnapshotBuilder builder(machine);
    holding(builder, 1, set("2-3"));
    holding(builder, 2, set("4-5"));
    const Plan plan = decide(builder.snapshot, under(policy));
    if (plan.groups[0].pending || homeOf(plan, 0).count() != 2) return "it lost CPUs: " + homeOf(plan, 0).toString();
    if (!homeOf(plan, 0).isSubsetOf(machine.allowed)) return "a CPU that is not allowed";
    return homeOf(plan, 1) == set("4-5") ? "" : "one that was not concerned was moved";
  });
}

// containerd#10155 and others: a group that asks for nothing still has to run somewhere.
TEST(Stories, AGroupThatAsksForNothingHasACpu) {
  const Machine machine = testing::regularMachine("4", {1, 1, 0, 4, 1});
  for (const PolicyName policy : {PolicyName::Drc, PolicyName::KubeletStatic, PolicyName::Balloons, PolicyName::NoneSingle}) {
    SnapshotBuilder builder(machine);
    asking(builder, 1, 3);
    GroupState& nothing = builder.group(2);
    nothing.weight = 1;
    nothing.tenantWeight = 1;
    const Plan plan = decide(builder.snapshot, under(policy));
    EXPECT_FALSE(homeOf(plan, 1).empty()) << static_cast<int>(policy);
  }
}

// k#71622, k#98121, k#67500: CPUs that went offline stayed in sets, CPUs that came were never used.
TEST(Stories, TheSetsFollowTheCpusThatAreOnline) {
  rightUnderDrcAndWrongUnder(PolicyName::KubeletStatic, [](PolicyName policy) -> std::string {
    const Machine whole = testing::regularMachine("8", {1, 1, 0, 8, 1});
    Machine machine = whole;
    SnapshotBuilder builder(machine);
    builder.group(1).floor = MilliCpu(2000);
    builder.group(2).floor = MilliCpu(2000);
    applyAll(builder.snapshot, decide(builder.snapshot, under(policy)));
    machine = testing::withOnline(whole, set("1-4"), set("1-4"));
    const Plan fewer = decide(builder.snapshot, under(policy));
    applyAll(builder.snapshot, fewer);
    if (!(homeOf(fewer, 0) | homeOf(fewer, 1)).isSubsetOf(set("1-4"))) return "an offline CPU is in a set";
    if (homeOf(fewer, 0).count() != 2 || homeOf(fewer, 1).count() != 2) return "a floor is unmet";
    machine = whole;
    const Plan again = decide(builder.snapshot, under(policy));
    return (homeOf(again, 0) | homeOf(again, 1)) == whole.online ? "" : "CPUs that came back are not used";
  });
}

// k#113130: two nodes of 220 GB; a pod of 240 GB has both, one of 20 GB comes and goes, one of 10 GB comes. After a restart memory was given out
// anew, in another order, and the last one was refused.
TEST(Stories, MemoryIsRecoveredInWhateverOrder) {
  testing::MachineShape shape{2, 1, 0, 8, 1};
  constexpr std::int64_t kGigabyte = 1'000'000'000;
  shape.nodeSize = Bytes(220 * kGigabyte);
  const Machine machine = testing::regularMachine("2x220", shape);
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [&](PolicyName policy) -> std::string {
    SnapshotBuilder builder(machine);
    std::vector<GroupState>& pods = builder.snapshot.groups;
    const auto come = [&](std::int64_t gigabytes) {
      ContainerState& container = asking(builder, 1, 8).containers.front();
      container.expected = Bytes(gigabytes * kGigabyte);
      applyAll(builder.snapshot, decide(builder.snapshot, under(policy)));
      container.resident = std::exchange(container.expected, Bytes(0));
    };
    come(240);
    come(20);
    pods.erase(pods.begin() + 1);
    come(10);
    if (pods[0].containers[0].memoryNodes != set("0-1")) return "240 GB do not fit into " + pods[0].containers[0].memoryNodes.toString();
    if (pods[1].containers[0].memoryNodes.count() != 1) return "10 GB have nodes " + pods[1].containers[0].memoryNodes.toString();

    Snapshot restarted = builder.snapshot;  // nothing is remembered: only what is read back
    restarted.pool = {};
    restarted.bucket = {};
    restarted.migration = {};
    for (const bool written : {true, false}) {
      for (int order = 0; order < 2; ++order) {
        std::swap(restarted.groups[0], restarted.groups[1]);
        const Plan plan = decide(restarted, under(policy));
        for (std::size_t pod = 0; pod < 2; ++pod) {
          if (plan.groups[pod].pending) return "one is refused";
          if (plan.groups[pod].containers[0].memoryNodes != pods[pod].containers[0].memoryNodes) return "one has other nodes than before";
        }
        if (written && !plan.steps.empty()) return "something is written";
      }
      for (GroupState& pod : restarted.groups) pod.containers[0].memoryNodes = {};  // not even that can be read back
    }
    return "";
  });
}

// The oracle rows: what a careful reader of the topology would choose.
struct OracleRow {
  const char* what;
  testing::MachineShape shape;
  const char* taken;
  int asked;
  const char* chosen;
};
TEST(Stories, OracleRows) {
  const OracleRow rows[] = {
      {"one node of four", {4, 1, 0, 10, 2}, "", 20, "0-9,40-49"},
      {"two nodes of four", {4, 1, 0, 10, 2}, "", 40, "0-19,40-59"},
      {"three whole nodes beside one that is broken into", {4, 1, 0, 10, 2}, "0,40", 60, "10-39,50-79"},
      {"the cache group that is free", {1, 1, 2, 4, 2}, "0-1,8-9", 6, "4-6,12-14"},
  };
  for (const OracleRow& row : rows) {
    SCOPED_TRACE(row.what);
    const Machine machine = testing::regularMachine("m", row.shape);
    rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [&](PolicyName policy) -> std::string {
      SnapshotBuilder builder(machine);
      const CpuSet taken = set(row.taken);
      if (!taken.empty()) holding(builder, 1, taken);
      asking(builder, 2, row.asked);
      const CpuSet home = homeOf(decide(builder.snapshot, under(policy)), taken.empty() ? 0 : 1);
      return home == set(row.chosen) ? "" : home.toString();
    });
  }
}

}  // namespace
}  // namespace coterie::allocation
