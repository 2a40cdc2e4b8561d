// The contract of MachineSource as tests: each adapter instantiates them.
//
//   INSTANTIATE_TEST_SUITE_P(Live, MachineSourceContract, ::testing::Values(SourceUnderTest{"live", makeLive}), sourceName);
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ports/machine_source.h"

namespace coterie::contract {

struct SourceUnderTest {
  std::string name;
  std::function<std::unique_ptr<MachineSource>()> make;
  friend void PrintTo(const SourceUnderTest& source, std::ostream* out) { *out << source.name; }
};
inline std::string sourceName(const ::testing::TestParamInfo<SourceUnderTest>& info) { return info.param.name; }

class MachineSourceContract : public ::testing::TestWithParam<SourceUnderTest> {
 protected:
  std::unique_ptr<MachineSource> source_{GetParam().make()};
};

TEST_P(MachineSourceContract, WhatIsPolledIsWhatWasRead) {
  const Result<Machine> machine = source_->read();
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  const Result<MachineSets> sets = source_->poll();
  ASSERT_TRUE(sets.ok()) << sets.error().message;
  EXPECT_EQ(sets->online, machine->online);
  EXPECT_EQ(sets->allowed, machine->allowed);
  EXPECT_EQ(*source_->poll(), *sets) << "nothing changed";
}

TEST_P(MachineSourceContract, AMachineIsWhole) {
  const Machine machine = *source_->read();
  EXPECT_FALSE(machine.online.empty());
  EXPECT_FALSE(machine.allowed.empty());
  EXPECT_TRUE(machine.allowed.isSubsetOf(machine.online));
  EXPECT_TRUE(machine.isolated.isSubsetOf(machine.online));
  EXPECT_EQ(static_cast<int>(machine.cpus.size()), machine.online.count());
  EXPECT_FALSE(machine.memoryNodes.empty());
  ASSERT_FALSE(machine.domains.empty());
  EXPECT_EQ(machine.domains.front().level, DomainLevel::Machine);
  EXPECT_EQ(machine.domains.front().cpus, machine.online);
  for (const int cpu : machine.online) EXPECT_NE(machine.findCpu(cpu), nullptr) << cpu;
}

TEST_P(MachineSourceContract, ReadingAgainGivesTheSame) {
  const Machine first = *source_->read();
  const Machine second = *source_->read();
  EXPECT_EQ(first.online, second.online);
  ASSERT_EQ(first.domains.size(), second.domains.size());
  for (std::size_t i = 0; i < first.domains.size(); ++i) EXPECT_EQ(first.domains[i].cpus, second.domains[i].cpus);
}

TEST_P(MachineSourceContract, WhatIsFreeIsOfItsNodesAndNotMoreThanTheyHave) {
  const Machine machine = *source_->read();
  const std::vector<NodeFree> free = source_->memoryFree();
  EXPECT_FALSE(free.empty());
  int last = -1;
  for (const NodeFree& one : free) {
    EXPECT_GT(one.node, last) << "ascending";
    last = one.node;
    const auto node =
        std::find_if(machine.memoryNodes.begin(), machine.memoryNodes.end(), [&](const MemoryNode& known) { return known.id == one.node; });
    ASSERT_NE(node, machine.memoryNodes.end()) << one.node;
    EXPECT_GE(one.free, Bytes(0));
    EXPECT_LE(one.free, node->size);
  }
}

}  // namespace coterie::contract
