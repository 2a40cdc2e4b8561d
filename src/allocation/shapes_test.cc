// Every generated shape is planned for and replayed, and so are plans on which histories have failed; the memory of devices is never given to a
// container.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "allocation/memory_map.h"
#include "allocation/plan_and_replay.h"
#include "model/machine_generator.h"

namespace coterie::allocation {
namespace {

TEST(Shapes, EachIsPlannedForAndReplayed) {
  EXPECT_GE(shapeNames().size(), 42U);
  for (const std::string_view name : shapeNames()) {
    SCOPED_TRACE(name);
    planAndReplay(shapeNamed(name).value());
    if (HasFailure()) return;
  }
}

// POWER9, Grace: the kernel shows a GPU's memory as nodes. However near and however short other memory is, they are not for containers.
TEST(Memory, OfDevicesIsNeverGivenToAContainer) {
  for (const char* name : {"power9-gpu-memory-160", "grace-34-nodes-144", "all-memories-32"}) {
    SCOPED_TRACE(name);
    const Machine machine = shapeNamed(name).value();
    const MemoryMap memory(machine);
    const CpuSet devices = deviceNodes(machine);
    ASSERT_FALSE(devices.empty());
    for (const MemoryNode& node : machine.memoryNodes) {
      if (node.cpus.empty()) continue;
      EXPECT_EQ(memory.nearest(node.cpus), CpuSet{node.id});
      for (const MemoryTier tier : {MemoryTier::Usual, MemoryTier::Dram, MemoryTier::HighBandwidth, MemoryTier::Any}) {
        EXPECT_FALSE(memory.nearest(node.cpus, tier).intersects(devices));
        for (const std::size_t other : memory.order(node.cpus, tier))
          EXPECT_FALSE(devices.contains(memory.nodes()[other].id)) << "not even when all else is full";
      }
    }
  }
}

TEST(Memory, OfACpuWithoutLocalMemoryIsNotADevices) {
  Machine machine = shapeNamed("all-memories-32").value();  // node 4, a GPU's, is nearer to node 0 than node 3 is
  machine.memoryNodes[0].size = Bytes(0);
  machine.memoryNodes[2].size = Bytes(0);
  const MemoryMap memory(machine);
  EXPECT_EQ(memory.nearest(machine.memoryNodes[0].cpus), CpuSet{1});
  machine.memoryNodes[0].cpus = {};  // now no node claims them
  const MemoryMap orphaned(machine);
  const CpuSet cpus = shapeNamed("all-memories-32")->memoryNodes[0].cpus;
  EXPECT_EQ(orphaned.nearest(cpus), CpuSet{1}) << "not the slow one";
  EXPECT_EQ(orphaned.nearest(cpus, MemoryTier::Any), (CpuSet{1, 3}));
}

// ---- plans on which histories have failed, replayed ----
CpuSet set(const std::string& list) { return CpuSet::parse(list).value(); }

GroupState& holding(SnapshotBuilder& builder, int tenant, Band band, int floor, const std::vector<const char*>& homes) {
  GroupState& group = builder.group(tenant, static_cast<int>(homes.size()));
  group.band = band;
  group.floor = MilliCpu(floor);
  for (std::size_t c = 0; c < homes.size(); ++c) group.containers[c].home = set(homes[c]);
  return group;
}

// The pool and a group of whole CPUs exchange places, and no CPU is free but one that a third is to gain: no order of writes was found, and all
// stayed where they were.
TEST(Shapes, APoolAndAGroupExchangePlacesOverACpuThatAThirdGains) {
  const CpuSet left = set("0-1,3-7");
  const Machine machine = withOnline(machineNamed("performance-efficiency"), left, left);
  SnapshotBuilder builder(machine);
  holding(builder, 1, Band::Low, 2580, {"1,4-5"}).tenantCap = MilliCpu(4000);
  GroupState& whole = holding(builder, 2, Band::High, 1000, {"3", "3", "3"});
  GroupState& member = holding(builder, 2, Band::Normal, 196, {"7", "7", "7"});
  whole.weight = 317;
  member.weight = 700;
  whole.tenantCap = member.tenantCap = MilliCpu(102);
  holding(builder, 1, Band::Low, 0, {"", "", "6", "6"}).tenantCap = MilliCpu(4000);
  GroupState& last = holding(builder, 3, Band::Low, 0, {"", "7", "", "7"});
  last.tenantWeight = 300;
  last.weight = 628;
  last.tenantCap = MilliCpu(382);
  builder.snapshot.pool = set("7");
  settle(builder.snapshot, "exchange");
}

// Every CPU is somebody's, the pool goes to another one, and who joins it must make room first.
TEST(Shapes, WhoJoinsAPoolThatMovesWaitsOnWhatItLeaves) {
  const CpuSet left = set("1,4,6-7");
  const Machine machine = withOnline(shapeNamed("big-little-8").value(), left, left);
  SnapshotBuilder builder(machine);
  holding(builder, 1, Band::Normal, 1000, {"4", "4"}).weight = 519;
  GroupState& member = holding(builder, 3, Band::Low, 164, {"7", "7", "7"});
  member.ceiling = MilliCpu(600);
  member.tenantWeight = 300;
  member.weight = 353;
  holding(builder, 4, Band::High, 0, {"6", "6"});
  holding(builder, 2, Band::High, 1517, {"1-2,5"}).ceiling = MilliCpu(1517);
  builder.snapshot.pool = set("7");
  settle(builder.snapshot, "the pool moves");
}

}  // namespace
}  // namespace coterie::allocation
