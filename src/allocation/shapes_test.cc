// Every generated shape is planned for and replayed; the memory of devices is never given to a container.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace coterie::allocation
