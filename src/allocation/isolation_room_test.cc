// Isolation that cannot be had is said as that, and as nothing else: a table, stories, and exact enumeration on small machines.
#include "allocation/isolation_room.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "allocation/decide.h"
#include "allocation/quality/exact_oracle.h"
#include "allocation/reason_text.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"
#include "model/machine_generator.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

using testing::MachineShape;

struct Asked {
  int floor;  // milli-CPUs
  Isolation isolation{Isolation::None};
};

// Each of a tenant of its own, in the order of their arrival.
Snapshot asking(SnapshotBuilder& builder, const std::vector<Asked>& groups) {
  int tenant = 1;
  for (const Asked& one : groups) {
    GroupState& group = builder.group(tenant++);
    group.floor = MilliCpu(one.floor);
    group.isolation = one.isolation;
  }
  return builder.snapshot;
}

const Reason* reasonOf(const Plan& plan, GroupId group, ReasonCode code) {
  const auto found =
      std::find_if(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& one) { return one.group == group && one.code == code; });
  return found == plan.reasons.end() ? nullptr : &*found;
}

// "impossible: 1 of 2, 0 left, 4 CPUs missing, core would fit", "floor: 6 wanted, 4 free", "runs"
std::string said(const Plan& plan, std::size_t group) {
  const GroupTarget& target = plan.groups[group];
  if (!target.pending) return "runs";
  const auto text = [](std::int64_t value) { return std::to_string(value); };
  if (const Reason* one = reasonOf(plan, target.id, ReasonCode::IsolationImpossible)) {
    EXPECT_EQ(reasonOf(plan, target.id, ReasonCode::PendingInsufficientCpu), nullptr);
    const Reason* remedy = reasonOf(plan, target.id, ReasonCode::IsolationRemedy);
    if (remedy == nullptr) return "no remedy";
    return "impossible: " + text(one->a) + " of " + text(one->c) + ", " + text(one->b) + " left, " + text(remedy->a) + " CPUs missing, " +
           (remedy->b == 0 ? "nothing lower" : std::string(isolationName(remedy->isolation))) + " fits";
  }
  const Reason* floor = reasonOf(plan, target.id, ReasonCode::PendingInsufficientCpu);
  if (floor == nullptr) return "no reason";
  return (floor->c == 0 ? "floor: " : "in the way: ") + text(floor->a) + " wanted, " + text(floor->b) + " free";
}

constexpr MachineShape kTwoNodes{1, 2, 0, 2, 2};  // 2 nodes x 2 cores x 2 threads
constexpr MachineShape kOneNode{1, 1, 0, 4, 2};   // 4 cores x 2 threads
constexpr MachineShape kCaches{1, 2, 2, 2, 2};    // 2 nodes x 2 caches x 2 cores x 2 threads

struct Row {
  const char* name;
  MachineShape shape;
  std::vector<Asked> groups;
  const char* last;  // what is said of the last
};

TEST(IsolationRoom, SaysOfEachWhoWaitsWhatItWaitsFor) {
  const Asked node{0, Isolation::Node};
  const Asked core{0, Isolation::Core};
  const Row rows[] = {
      {"three nodes of two", kTwoNodes, {node, node, node}, "impossible: 1 of 2, 0 left, 4 CPUs missing, nothing lower fits"},
      {"two nodes of two", kTwoNodes, {node, node}, "runs"},
      {"a node beside one CPU in each", kTwoNodes, {{5000}, node}, "impossible: 1 of 2, 0 left, 1 CPUs missing, core fits"},
      {"a node beside one CPU", kTwoNodes, {{4000}, node}, "runs"},
      {"the only node beside a floor", kOneNode, {{1000}, node}, "impossible: 1 of 1, 0 left, 1 CPUs missing, core fits"},
      {"the only node beside the pool", kOneNode, {{0}, {300}, node}, "impossible: 1 of 1, 0 left, 1 CPUs missing, core fits"},
      {"the only node, alone", kOneNode, {node}, "runs"},
      {"two of two nodes beside a floor", kTwoNodes, {{1000}, {5000, Isolation::Node}}, "impossible: 2 of 2, 1 left, 1 CPUs missing, core fits"},
      {"all cores taken by cores", kOneNode, {core, core, core, core, core}, "impossible: 1 of 4, 0 left, 2 CPUs missing, nothing lower fits"},
      {"with a floor", kOneNode, {core, core, core, core, {1000, Isolation::Core}}, "impossible: 1 of 4, 0 left, 2 CPUs missing, nothing lower fits"},
      {"all cores taken by floors", kOneNode, {{8000}, core}, "impossible: 1 of 4, 0 left, 2 CPUs missing, nothing lower fits"},
      {"half a core left", kOneNode, {{7000}, core}, "impossible: 1 of 4, 0 left, 1 CPUs missing, none fits"},
      {"a cache of four, three taken", kCaches, {{9000}, {8000 - 4000, Isolation::Cache}}, "runs"},
      {"a cache beside thirteen", kCaches, {{13000}, {0, Isolation::Cache}}, "impossible: 1 of 4, 0 left, 1 CPUs missing, core fits"},
      {"a node beside nine", kCaches, {{9000}, {0, Isolation::Node}}, "impossible: 1 of 2, 0 left, 1 CPUs missing, cache fits"},
      {"a floor that is too large", kOneNode, {{4000}, {6000, Isolation::Core}}, "floor: 6000 wanted, 4000 free"},
      {"a floor larger than the machine", kOneNode, {{9000, Isolation::Node}}, "floor: 9000 wanted, 8000 free"},
      {"nobody is isolated", kOneNode, {{4000}, {6000}}, "floor: 6000 wanted, 4000 free"},
      {"who is not isolated waits for its floor", kTwoNodes, {node, node, {1000}}, "floor: 1000 wanted, 0 free"},
  };
  for (const Row& row : rows) {
    const Machine machine = testing::regularMachine("m", row.shape);
    SnapshotBuilder builder(machine);
    const Snapshot snapshot = asking(builder, row.groups);
    EXPECT_EQ(said(decide(snapshot, {}), row.groups.size() - 1), row.last) << row.name;
  }
}

// What is said beforehand to a newcomer is what the plan says of it.
TEST(IsolationRoom, TheNewcomerIsToldWhatThePlanWouldSay) {
  const Machine machine = testing::regularMachine("m", kTwoNodes);
  SnapshotBuilder builder(machine);
  const Snapshot all = asking(builder, {{1000}, {3000, Isolation::Core}, {0, Isolation::Node}});
  const Plan plan = decide(all, {});
  Snapshot before = all;
  before.groups.pop_back();
  const auto shortage = unitShortage(before, all.groups.back());
  ASSERT_TRUE(shortage);
  std::vector<Reason> planned;
  std::copy_if(plan.reasons.begin(), plan.reasons.end(), std::back_inserter(planned),
               [&](const Reason& one) { return one.group == all.groups.back().id; });
  EXPECT_EQ(shortageReasons(all.groups.back().id, *shortage), planned);
  EXPECT_EQ(unitShortage(before, all.groups.front()), std::nullopt) << "it is not isolated";
}

TEST(IsolationRoom, WhoHasTheRestIsNamedTheLargestFirst) {
  const Machine machine = testing::regularMachine("m", {2, 2, 2, 4, 2});  // 64 CPUs
  SnapshotBuilder builder(machine);
  const Snapshot snapshot =
      asking(builder, {{1000}, {2000}, {16000, Isolation::Node}, {3000, Isolation::Core}, {21000}, {500}, {700}, {3000}, {50000, Isolation::Node}});
  const Plan plan = decide(snapshot, {});
  std::vector<std::string> holders;
  for (const Reason& reason : plan.reasons) {
    if (reason.code == ReasonCode::IsolationHeldBy)
      holders.push_back(reasonText(reason, "t", reason.other.valid() ? "group " + std::to_string(reason.other.value) : "").sentence);
  }
  EXPECT_EQ(said(plan, 8), "floor: 50000 wanted, 15000 free") << "the floors alone are too large";
  EXPECT_TRUE(holders.empty());
  SnapshotBuilder again(machine);
  const Plan other = decide(
      asking(again, {{1000}, {2000}, {16000, Isolation::Node}, {3000, Isolation::Core}, {21000}, {500}, {700}, {3000}, {0, Isolation::Node}}), {});
  for (const Reason& reason : other.reasons) {
    if (reason.code == ReasonCode::IsolationHeldBy)
      holders.push_back(reasonText(reason, "t", reason.other.valid() ? "group " + std::to_string(reason.other.value) : "").sentence);
  }
  EXPECT_EQ(holders, (std::vector<std::string>{"group 5 is guaranteed 21 CPUs", "group 3 is guaranteed 16 CPUs (isolation node)",
                                               "group 4 is guaranteed 4 CPUs (isolation core)", "group 8 is guaranteed 3 CPUs",
                                               "4 other groups are guaranteed 5 CPUs"}));
}

TEST(IsolationRoom, TheTextSaysWhatWhoAndWhatWouldHelp) {
  const Machine machine = testing::regularMachine("m", kTwoNodes);
  SnapshotBuilder builder(machine);
  const Plan plan = decide(asking(builder, {{5000}, {0, Isolation::Node}}), {});
  std::string text;
  for (const Reason& reason : plan.reasons) {
    if (reason.group == plan.groups[1].id) text += reasonText(reason, "t", "speech").sentence + "\n";
  }
  EXPECT_EQ(text,
            "isolation node cannot be had: it needs 1 NUMA node to itself, and of the 2 here the guarantees of others leave none\n"
            "speech is guaranteed 5 CPUs\n"
            "isolation core would fit; what else would help: guarantees of others (minCpus, isolation) that are 1 CPU less, or a larger machine\n");
}

// Three floors of a quarter are one CPU together; each was told as a whole one, three on a machine of two.
TEST(IsolationRoom, FloorsOfThePoolAreOneSum) {
  const Machine machine = testing::regularMachine("m", {1, 1, 1, 2, 1});
  SnapshotBuilder builder(machine);
  const Plan plan = decide(asking(builder, {{250}, {250}, {250}, {0, Isolation::Node}}), {});
  std::vector<std::string> holders;
  for (const Reason& reason : plan.reasons) {
    if (reason.code == ReasonCode::IsolationHeldBy)
      holders.push_back(reasonText(reason, "t", reason.other.valid() ? "group " + std::to_string(reason.other.value) : "").sentence);
  }
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_NE(holders[0].find("3 other groups are guaranteed 1 CPU"), std::string::npos) << holders[0];
}

// A core with one online thread: counted by the largest, three cores are more than there are CPUs; but there are three.
TEST(IsolationRoom, UnitsThatDifferAreCountedAsTheyAre) {
  MachineShape shape{1, 1, 0, 3, 2};
  shape.offline = CpuSet::parse("4-5").value();  // siblings i, i+3
  const Machine machine = testing::regularMachine("uneven", shape);
  SnapshotBuilder builder(machine);
  const Plan plan = decide(asking(builder, {{0, Isolation::Core}, {0, Isolation::Core}, {0, Isolation::Core}, {0}}), {});
  for (std::size_t g = 0; g < 3; ++g) EXPECT_EQ(said(plan, g), "runs") << g;
  EXPECT_EQ(said(plan, 3), "floor: 1000 wanted, 0 free");
}

// Machines whose caches or nodes differ in size: others waited beside idle CPUs, as the guarantee was taken to be the largest cache.
TEST(IsolationRoom, AnIsolatedGroupAndAFloorFitAMachineOfUnevenCaches) {
  for (const char* name : {"hybrid-3-kinds-22", "offline-cpu-0-27", "half-cores-20", "uneven-caches-44"}) {
    SCOPED_TRACE(name);
    const Machine machine = shapeNamed(name).value();
    const auto isolation = std::string_view(name) == "half-cores-20" ? Isolation::Core : Isolation::Cache;
    SnapshotBuilder builder(machine);
    const Snapshot snapshot = asking(builder, {{0, isolation}, {4000}});
    const Plan plan = decide(snapshot, {});
    EXPECT_EQ(said(plan, 0), "runs");
    EXPECT_EQ(said(plan, 1), "runs");
    Snapshot first = snapshot;
    first.groups.pop_back();
    EXPECT_EQ(missingForFloor(first, snapshot.groups.back()), MilliCpu(0));
  }
}

// By count everybody has room: two caches of 2 and 20 CPUs, each group content with the smaller. Only one can have it.
TEST(IsolationRoom, WhoCannotHaveTheSmallCacheTooIsToldSo) {
  const Machine machine = shapeNamed("hybrid-3-kinds-22").value();
  SnapshotBuilder builder(machine);
  const Plan plan = decide(asking(builder, {{0, Isolation::Cache}, {4000}, {0, Isolation::Cache}}), {});
  EXPECT_EQ(said(plan, 0), "runs");
  EXPECT_EQ(said(plan, 1), "runs");
  EXPECT_EQ(said(plan, 2), "impossible: 1 of 2, 0 left, 4 CPUs missing, core fits");
  // The first who came is first served: with both caches taken the floor waits.
  SnapshotBuilder other(machine);
  const Plan reversed = decide(asking(other, {{0, Isolation::Cache}, {0, Isolation::Cache}, {4000}}), {});
  EXPECT_EQ(said(reversed, 1), "runs");
  EXPECT_EQ(said(reversed, 2), "floor: 4000 wanted, 0 free");
}

// Nodes of 6 and of 4 CPUs. Everybody would fit if the isolated group and the other changed nodes, but neither can go first without standing beside
// the other: the newcomer waits, nobody who runs is stopped for it.
TEST(IsolationRoom, ANewcomerWaitsWhereOthersCannotChangePlaces) {
  MachineShape shape{1, 2, 0, 3, 2};
  shape.offline = CpuSet::parse("5,11").value();  // siblings i, i+6
  const Machine machine = testing::regularMachine("uneven-nodes", shape);
  SnapshotBuilder builder(machine);
  Snapshot snapshot = asking(builder, {{0, Isolation::Node}, {1000}, {5000}});
  snapshot.groups[0].containers[0].home = CpuSet::parse("0-2,6-8").value();
  snapshot.groups[1].containers[0].home = CpuSet::parse("3-4,9-10").value();
  EXPECT_EQ(missingForFloor(snapshot, snapshot.groups[2]), MilliCpu(5000)) << "it is in the snapshot already";
  const Plan plan = decide(snapshot, {});
  EXPECT_EQ(said(plan, 0), "runs");
  EXPECT_EQ(said(plan, 1), "runs");
  EXPECT_EQ(said(plan, 2), "in the way: 5000 wanted, 5000 free");
  for (std::size_t g = 0; g < 2; ++g) EXPECT_EQ(plan.groups[g].containers[0].home, snapshot.groups[g].containers[0].home) << g;
}

// After CPUs went the youngest waits, and is told why.
TEST(IsolationRoom, ANodeThatGoesOfflineTakesTheIsolationOfTheYoungest) {
  const Machine whole = testing::regularMachine("m", kTwoNodes);
  SnapshotBuilder builder(whole);
  Snapshot snapshot = asking(builder, {{0, Isolation::Node}, {0, Isolation::Node}});
  applyAll(snapshot, decide(snapshot, {}));
  MachineShape shape = kTwoNodes;
  shape.offline = whole.domains[static_cast<std::size_t>(whole.findCpu(*snapshot.groups[0].containers[0].home.begin())->node)].cpus;
  const Machine half = testing::regularMachine("half", shape);
  snapshot.machine = &half;
  const Plan plan = decide(snapshot, {});
  EXPECT_EQ(said(plan, 0), "runs");
  EXPECT_EQ(said(plan, 1), "impossible: 1 of 1, 0 left, 4 CPUs missing, nothing lower fits");
}

// Enumeration of all choices of units: whoever waits finds none, and is told so; and those wait that should.
TEST(IsolationRoom, OnlyWhatEnumerationDoesNotFindIsCalledImpossible) {
  struct Small {
    MachineShape shape;
    const char* offline;
  };
  const Small shapes[] = {{{1, 1, 0, 4, 1}, ""},   {{1, 1, 0, 4, 2}, ""},  {{1, 2, 0, 2, 2}, ""},       {{1, 2, 2, 2, 1}, ""},
                          {{1, 1, 2, 2, 2}, ""},   {{2, 2, 0, 3, 1}, ""},  {{1, 1, 0, 4, 2}, "7"},      {{1, 2, 0, 2, 2}, "6-7"},
                          {{1, 1, 2, 3, 2}, "11"}, {{1, 3, 0, 3, 1}, "8"}, {{1, 2, 2, 3, 1}, "5,10-11"}};
  int told = 0;
  int floors = 0;
  for (int round = 0; round < 4000; ++round) {
    Rng rng(static_cast<std::uint64_t>(round));
    Small small = shapes[static_cast<std::size_t>(round) % std::size(shapes)];
    if (*small.offline != '\0') small.shape.offline = CpuSet::parse(small.offline).value();
    const Machine machine = testing::regularMachine("small", small.shape);
    SnapshotBuilder builder(machine);
    std::vector<Asked> asked;
    for (std::int64_t g = rng.between(2, 5); g > 0; --g) {
      const int floor = rng.chance(40) ? 0 : static_cast<int>(rng.chance(70) ? 1000 * rng.between(1, 5) : rng.between(1, 2500));
      asked.push_back({floor, rng.chance(65) ? static_cast<Isolation>(rng.between(1, 3)) : Isolation::None});
    }
    const Snapshot snapshot = asking(builder, asked);
    const Plan plan = decide(snapshot, {});
    std::vector<bool> present;
    for (const GroupTarget& target : plan.groups) present.push_back(!target.pending);
    ASSERT_TRUE(quality::unitsExist(snapshot, present)) << "those who do not wait, round " << round;
    std::vector<bool> waiting = present;
    waiting.flip();
    ASSERT_EQ(waiting, quality::bestPending(snapshot)) << "round " << round;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      if (!plan.groups[g].pending || asked[g].isolation == Isolation::None) continue;
      std::vector<bool> withIt = present;
      withIt[g] = true;
      const bool exists = quality::unitsExist(snapshot, withIt);
      const std::string text = said(plan, g);
      if (text.rfind("impossible", 0) == 0) {
        ASSERT_FALSE(exists) << "round " << round << " group " << g << ": " << text;
        ++told;
        continue;
      }
      const Reason* reason = reasonOf(plan, plan.groups[g].id, ReasonCode::PendingInsufficientCpu);
      ASSERT_NE(reason, nullptr) << "round " << round;
      ASSERT_EQ(reason->c, 0) << "round " << round;
      Snapshot bare = snapshot;  // its floor: without any isolation it fits no better
      for (GroupState& group : bare.groups) group.isolation = Isolation::None;
      ASSERT_FALSE(quality::unitsExist(bare, withIt)) << "round " << round << " group " << g << ": " << text;
      ++floors;
    }
  }
  EXPECT_GT(told, 1000);
  EXPECT_GT(floors, 100);
}

}  // namespace
}  // namespace coterie::allocation
