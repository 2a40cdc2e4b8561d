// One small story for any machine, planned and replayed: a few groups come, one grows, one leaves, a CPU goes offline; after every step of every plan
// H1-H7 hold, the plan done is a fixpoint, and no container has a node of device memory. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "allocation/decide.h"
#include "allocation/invariants.h"
#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "model/machine_generator.h"

namespace coterie::allocation {

inline CpuSet deviceNodes(const Machine& machine) {
  CpuSet nodes;
  for (const MemoryNode& node : machine.memoryNodes) {
    if (node.kind == MemoryKind::Device) nodes.add(node.id);
  }
  return nodes;
}

inline void expectNone(const std::vector<Violation>& violations, const std::string& when) {
  for (const Violation& one : violations)
    ADD_FAILURE() << when << ": H" << one.rule << " " << one.what << " (group " << one.group.value << ", container " << one.container.value << ", "
                  << one.cpu << ")";
}

// Decides, applies step by step, checks.
inline void settle(Snapshot& snapshot, const std::string& when) {
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
  snapshot.migration = plan.migration;
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

inline void planAndReplay(const Machine& whole) {
  Machine machine = whole;
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

  if (machine.allowed.count() < 2) return;
  CpuSet online = whole.online;
  online.remove((whole.allowed - whole.isolated).first());
  machine = withOnline(whole, online, whole.allowed);
  settle(builder.snapshot, "a CPU is gone");
}

}  // namespace coterie::allocation
