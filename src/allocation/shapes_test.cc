// Every generated shape is planned for: a few groups come, one grows, one leaves, a CPU goes offline; after every step of every plan H1-H7 hold, the
// plan done is a fixpoint, and no container has a node of device memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "allocation/assignment.h"
#include "allocation/decide.h"
#include "allocation/invariants.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "model/machine_generator.h"

namespace coterie::allocation {
namespace {

CpuSet deviceNodes(const Machine& machine) {
  CpuSet nodes;
  for (const MemoryNode& node : machine.memoryNodes) {
    if (node.kind == MemoryKind::Device) nodes.add(node.id);
  }
  return nodes;
}

void expectNone(const std::vector<Violation>& violations, const std::string& when) {
  for (const Violation& one : violations)
    ADD_FAILURE() << when << ": H" << one.rule << " " << one.what << " (group " << one.group.value << ", container " << one.container.value << ", "
                  << one.cpu << ")";
}

// Decides, applies step by step, checks.
void settle(Snapshot& snapshot, const std::string& when) {
  const Config config;
  const Snapshot before = snapshot;
  const Plan plan = decide(snapshot, config);
  expectNone(checkPlan(before, plan, config), when + ", the plan");
  for (std::size_t step = 0; step < plan.steps.size() && !::testing::Test::HasFailure(); ++step) {
    applyStep(snapshot, plan.steps[step]);
    expectNone(checkState(before, plan, snapshot, config), when + ", step " + std::to_string(step));
  }
  snapshot.pool = plan.pool;
  snapshot.bucket = plan.bucket;
  expectNone(checkDone(plan, snapshot, config), when + ", done");
  for (const GroupTarget& target : plan.groups) {
    EXPECT_FALSE(target.pending) << when;
    for (const ContainerTarget& container : target.containers) {
      EXPECT_FALSE(container.home.empty()) << when;
      EXPECT_TRUE(container.home.isSubsetOf(snapshot.machine->allowed)) << when;
      EXPECT_FALSE(container.home.intersects(snapshot.machine->isolated)) << when;
      EXPECT_FALSE(container.memoryNodes.intersects(deviceNodes(*snapshot.machine))) << when;
      EXPECT_FALSE(container.memoryNodes.empty()) << when;
    }
  }
  EXPECT_TRUE(decide(snapshot, config).steps.empty()) << when << ": not a fixpoint";
}

TEST(Shapes, EachIsPlannedForAndReplayed) {
  EXPECT_GE(shapeNames().size(), 42U);
  for (const std::string_view name : shapeNames()) {
    SCOPED_TRACE(name);
    Machine machine = shapeNamed(name).value();
    const Machine whole = machine;
    SnapshotBuilder builder(machine);
    builder.snapshot.bucket = {MilliCpu(1'000'000'000), builder.snapshot.now};
    const bool roomy = machine.allowed.count() >= 8;
    builder.group(1).floor = MilliCpu(roomy ? 2000 : 0);
    builder.group(2, 3).weight = 300;
    builder.group(2).ceiling = MilliCpu(300);  // a member of the pool
    builder.group(3, 2).containers[0].resident = Bytes(std::int64_t{20} << 30);
    settle(builder.snapshot, "at first");

    builder.addContainer(builder.snapshot.groups[1]);
    builder.snapshot.groups[0].floor = MilliCpu(roomy ? 3000 : 0);
    settle(builder.snapshot, "one grows");

    builder.snapshot.groups.erase(builder.snapshot.groups.begin() + 1);
    settle(builder.snapshot, "one leaves");

    if (machine.allowed.count() < 2) continue;
    CpuSet online = whole.online;
    online.remove((whole.allowed - whole.isolated).first());
    machine = withOnline(whole, online, whole.allowed);
    settle(builder.snapshot, "a CPU is gone");
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
      EXPECT_FALSE(memory.nodesFor(node.cpus, Bytes(std::int64_t{1} << 60)).intersects(devices)) << "not even when all else is full";
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
  EXPECT_EQ(MemoryMap(machine).nearest(shapeNamed("all-memories-32")->memoryNodes[0].cpus), (CpuSet{1, 3}));
}

}  // namespace
}  // namespace coterie::allocation
