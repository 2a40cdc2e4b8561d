// Newcomers among places that are alike: where their memory has room, and near their device.
#include "allocation/newcomers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "allocation/planner.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet set(const std::string& list) { return CpuSet::parse(list).value(); }

// Two CPUs, neither more nor less.
ContainerState& asking(GroupState& group) {
  group.floor = group.ceiling = MilliCpu(2000);
  return group.containers.front();
}

// A planner that is asked through the whole story answers as decide() does.
class Story {
 public:
  explicit Story(const Machine& machine) : builder(machine) {}
  Plan plan() {
    Plan made = decide(builder.snapshot, {});
    EXPECT_TRUE(planner_.decide(builder.snapshot, {}) == made);
    return made;
  }
  std::string placeOf(std::size_t group) {
    const Plan made = plan();
    const ContainerTarget& container = made.groups[group].containers.front();
    return container.home.toString() + " with node " + container.memoryNodes.toString();
  }

  SnapshotBuilder builder;

 private:
  Planner planner_;
};

// Of the group that came last; -1: nothing.
std::int64_t said(const Plan& plan, ReasonCode code) {
  const auto found = std::find_if(plan.reasons.begin(), plan.reasons.end(), [&](const Reason& reason) { return reason.code == code; });
  return found == plan.reasons.end() ? -1 : found->a;
}

// A socket of four nodes with two CPUs and 1,000 bytes each.
Machine fourNodes() {
  testing::MachineShape shape{1, 4, 0, 2, 1};
  shape.nodeSize = Bytes(1000);
  return testing::regularMachine("4-nodes", shape);
}

TEST(Newcomers, GoWhereTheirMemoryHasRoom) {
  const Machine machine = fourNodes();
  Story story(machine);
  ContainerState& large = asking(story.builder.group(1, set("0-1")));
  large.resident = Bytes(1900);
  large.memoryNodes = set("0-1");
  ContainerState& newcomer = asking(story.builder.group(2));
  EXPECT_EQ(story.placeOf(1), "2-3 with node 1") << "it needs nothing";
  newcomer.expected = Bytes(500);
  EXPECT_EQ(story.placeOf(1), "4-5 with node 2") << "node 1 is full of the large one's pages";
  large.resident = Bytes(900);
  EXPECT_EQ(story.placeOf(1), "2-3 with node 1");
  newcomer.expected = Bytes(1500);
  EXPECT_EQ(story.placeOf(1), "2-3 with node 0-2") << "no node holds it: the first, as ever";
}

TEST(Newcomers, LeaveRoomForEachOther) {
  const Machine machine = fourNodes();
  Story story(machine);
  ContainerState& large = asking(story.builder.group(1, set("0-1")));
  large.resident = Bytes(2900);
  large.memoryNodes = set("0-2");
  for (int i = 0; i < 2; ++i) asking(story.builder.group(2 + i)).expected = Bytes(90 - 20 * i);
  EXPECT_EQ(story.placeOf(1), "4-5 with node 2");
  EXPECT_EQ(story.placeOf(2), "6-7 with node 3") << "what is left of node 2 is the first one's";
  applyAll(story.builder.snapshot, story.plan());
  EXPECT_TRUE(story.plan().steps.empty()) << "and stay";
}

TEST(Newcomers, GoNearTheDeviceThatTheyName) {
  testing::MachineShape shape{2, 2, 0, 2, 1};
  shape.devices = {{"gpu0", DeviceKind::Gpu, 3}, {"eth0", DeviceKind::Network, 0}, {"lost", DeviceKind::Network, -1}};
  const Machine machine = testing::regularMachine("devices", shape);
  Story story(machine);
  asking(story.builder.group(1));
  story.builder.snapshot.groups[0].device = "gpu0";
  EXPECT_EQ(story.placeOf(0), "6-7 with node 3");
  EXPECT_EQ(said(story.plan(), ReasonCode::DeviceFar), -1);
  story.builder.snapshot.groups[0].device = "eth0";
  EXPECT_EQ(story.placeOf(0), "0-1 with node 0");
  for (const char* name : {"lost", "gpu7"}) {
    story.builder.snapshot.groups[0].device = name;
    EXPECT_EQ(story.placeOf(0), "0-1 with node 0");
    EXPECT_NE(said(story.plan(), ReasonCode::DeviceUnknown), -1) << name;
  }
}

TEST(Newcomers, FitBeforeNearAndSayHowFarTheyAre) {
  testing::MachineShape shape{2, 2, 0, 2, 1};
  shape.devices = {{"gpu0", DeviceKind::Gpu, 3}};
  const Machine machine = testing::regularMachine("devices", shape);
  Story story(machine);
  asking(story.builder.group(1, set("6-7")));
  asking(story.builder.group(2));
  story.builder.snapshot.groups[1].device = "gpu0";
  EXPECT_EQ(story.placeOf(1), "4-5 with node 2") << "its node is taken: the socket's other one";
  EXPECT_EQ(said(story.plan(), ReasonCode::DeviceFar), static_cast<std::int64_t>(DomainLevel::Socket));
  asking(story.builder.group(3, set("4-5")));
  EXPECT_EQ(story.placeOf(1), "0-1 with node 0");
  EXPECT_EQ(said(story.plan(), ReasonCode::DeviceFar), static_cast<std::int64_t>(DomainLevel::Machine));
}

// J counts the way to the device, so whoever runs far from it is moved: within the limits of all optional moves, and not over somebody else.
TEST(Newcomers, WhoRunsFarFromItsDeviceIsMovedWhereThereIsRoom) {
  testing::MachineShape shape{2, 2, 0, 2, 1};
  shape.devices = {{"gpu0", DeviceKind::Gpu, 3}};
  const Machine machine = testing::regularMachine("devices", shape);
  for (const bool taken : {false, true}) {
    Story story(machine);
    asking(story.builder.group(1, set("0-1")));
    if (taken) asking(story.builder.group(2, set("6-7")));
    for (GroupState& group : story.builder.snapshot.groups) group.containers.front().memoryNodes = set(group.id == GroupId(1) ? "0" : "3");
    EXPECT_TRUE(story.plan().steps.empty());
    story.builder.snapshot.groups[0].device = "gpu0";
    Snapshot waiting = story.builder.snapshot;
    waiting.groups[0].lastOptionalMove = waiting.now;
    EXPECT_TRUE(decide(waiting, {}).steps.empty());
    EXPECT_NE(said(decide(waiting, {}), ReasonCode::MoveDeferred), -1);
    EXPECT_EQ(story.placeOf(0), taken ? "4-5 with node 2" : "6-7 with node 3");
    applyAll(story.builder.snapshot, story.plan());
    story.builder.snapshot.bucket = {MilliCpu(1'000'000), story.builder.snapshot.now};
    story.builder.snapshot.groups[0].lastOptionalMove.reset();
    EXPECT_TRUE(story.plan().steps.empty()) << "and stays";
  }
}

}  // namespace
}  // namespace coterie::allocation
