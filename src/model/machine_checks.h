// What every machine must satisfy, whether it was read or generated. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "model/machine.h"

namespace coterie {

inline void expectConsistent(const Machine& machine) {
  ASSERT_FALSE(machine.domains.empty());
  EXPECT_EQ(machine.domains[0].cpus, machine.online);
  EXPECT_EQ(static_cast<int>(machine.cpus.size()), machine.online.count());
  EXPECT_TRUE(machine.allowed.isSubsetOf(machine.online));
  EXPECT_TRUE(machine.isolated.isSubsetOf(machine.online));
  EXPECT_FALSE(machine.memoryNodes.empty());
  for (std::size_t i = 1; i < machine.domains.size(); ++i) {
    const Domain& domain = machine.domains[i];
    ASSERT_LT(domain.parent, static_cast<int>(i)) << "parents come first";
    ASSERT_GE(domain.parent, 0);
    const Domain& parent = machine.domains[static_cast<std::size_t>(domain.parent)];
    EXPECT_FALSE(domain.cpus.empty());
    EXPECT_TRUE(domain.cpus.isSubsetOf(parent.cpus));
    EXPECT_LT(parent.level, domain.level);
  }
  int last = -1;
  for (const Cpu& cpu : machine.cpus) {
    EXPECT_GT(cpu.id, last);
    last = cpu.id;
    const auto levelOf = [&](int index) { return machine.domains[static_cast<std::size_t>(index)].level; };
    for (const int index : {cpu.core, cpu.cache, cpu.node, cpu.socket})
      EXPECT_TRUE(machine.domains[static_cast<std::size_t>(index)].cpus.contains(cpu.id));
    EXPECT_EQ(levelOf(cpu.core), DomainLevel::Core);
    EXPECT_TRUE(levelOf(cpu.cache) == DomainLevel::Cache || cpu.cache == cpu.node);
    EXPECT_EQ(levelOf(cpu.node), DomainLevel::Node);
    EXPECT_EQ(levelOf(cpu.socket), DomainLevel::Socket);
    EXPECT_GT(cpu.capacity.value, 0);
    EXPECT_LE(cpu.capacity.value, 1000);
  }
  CpuSet local;
  std::int64_t bytes = 0;
  for (const MemoryNode& node : machine.memoryNodes) {
    EXPECT_FALSE(local.intersects(node.cpus)) << "each CPU is local to one node";
    local |= node.cpus;
    EXPECT_TRUE(node.near.empty() || node.cpus.empty());
    EXPECT_TRUE(node.distance.empty() || node.distance.size() == machine.memoryNodes.size());
    if (node.kind != MemoryKind::Device) bytes += node.size.value;
  }
  EXPECT_EQ(local, machine.online);
  EXPECT_EQ(machine.memory.value, bytes);
  for (const Device& device : machine.devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_TRUE(device.cpus.isSubsetOf(machine.online));
    EXPECT_FALSE(device.node >= 0 && device.cpus.empty()) << device.name;
  }
}

}  // namespace coterie
