#include "testing/machine_generator.h"

#include <gtest/gtest.h>

namespace coterie::testing {
namespace {

TEST(MachineGenerator, EveryMachineIsConsistent) {
  std::vector<Machine> machines;
  for (const std::string_view name : machineNames()) machines.push_back(machineNamed(name));
  for (const int cpus : {8, 64, 128, 256, 512}) {
    machines.push_back(bigMachine(cpus));
    EXPECT_EQ(machines.back().online.count(), cpus);
  }
  EXPECT_EQ(machineNames().size(), 12U);
  for (const Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    EXPECT_EQ(static_cast<int>(machine.cpus.size()), machine.online.count());
    EXPECT_EQ(machine.domains.front().cpus, machine.online);
    for (std::size_t i = 1; i < machine.domains.size(); ++i) {
      const Domain& domain = machine.domains[i];
      ASSERT_GE(domain.parent, 0);
      ASSERT_LT(domain.parent, static_cast<int>(i)) << "parents come first";
      EXPECT_FALSE(domain.cpus.empty());
      EXPECT_TRUE(domain.cpus.isSubsetOf(machine.domains[static_cast<std::size_t>(domain.parent)].cpus));
    }
    for (const Cpu& cpu : machine.cpus) {
      for (const int index : {cpu.core, cpu.cache, cpu.node, cpu.socket})
        EXPECT_TRUE(machine.domains[static_cast<std::size_t>(index)].cpus.contains(cpu.id));
    }
    CpuSet local;
    for (const MemoryNode& node : machine.memoryNodes) {
      EXPECT_FALSE(local.intersects(node.cpus));
      local |= node.cpus;
      EXPECT_EQ(node.distance.size(), machine.memoryNodes.size());
    }
    EXPECT_EQ(local, machine.online);
  }
}

TEST(MachineGenerator, SiblingsAreHalfTheMachineApart) {
  const Machine machine = regularMachine("m", {4, 1, 0, 10, 2});
  EXPECT_EQ(machine.domains[static_cast<std::size_t>(machine.findCpu(3)->core)].cpus, (CpuSet{3, 43}));
  EXPECT_EQ(machine.domains[static_cast<std::size_t>(machine.findCpu(3)->node)].cpus, CpuSet::range(0, 9) | CpuSet::range(40, 49));
}

TEST(MachineGenerator, OfflineCpusAndEmptyDomainsVanish) {
  const Machine machine = withOnline(machineNamed("2x2-nodes"), {2, 3, 10}, {2, 3});
  EXPECT_EQ(machine.cpus.size(), 3U);
  EXPECT_EQ(machine.allowed, (CpuSet{2, 3}));
  EXPECT_EQ(machine.memoryNodes.size(), 4U);
  EXPECT_FALSE(machineNamed("offline").online.contains(0));
}

}  // namespace
}  // namespace coterie::testing
