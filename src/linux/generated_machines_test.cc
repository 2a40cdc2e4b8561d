// Every generated shape, written as the kernel's files and read back: the same machine; and what lstopo reads from the same files.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "linux/lstopo.h"
#include "linux/machine_checks.h"
#include "linux/machine_reader.h"
#include "model/machine_generator.h"
#include "testing/sysfs_tree.h"

namespace coterie::linux {
namespace {

Result<Machine> writtenAndRead(const Machine& machine, const Scratch& scratch, const testing::SysfsGaps& gaps = {}) {
  testing::writeSysfs(machine, scratch / machine.name, gaps);
  return readMachine({MachineOrigin::Recorded, scratch / machine.name});
}

// What the files cannot say of a generated machine.
Machine asFilesSayIt(Machine machine) {
  for (MemoryNode& node : machine.memoryNodes) {
    if (!node.cpus.empty() || node.kind != MemoryKind::Dram) continue;
    node.kind = MemoryKind::Slow;  // all its CPUs are offline: a node without CPUs, attached to the nearest one with some
    int least = std::numeric_limits<int>::max();
    for (std::size_t to = 0; to < machine.memoryNodes.size(); ++to) {
      if (machine.memoryNodes[to].cpus.empty() || node.distance[to] >= least) continue;
      least = node.distance[to];
      node.near = machine.memoryNodes[to].cpus;
    }
  }
  return machine;
}

std::vector<std::pair<std::string_view, int>> placesOf(const Machine& machine) {
  std::vector<std::pair<std::string_view, int>> places;
  for (const Device& device : machine.devices) places.emplace_back(deviceKindName(device.kind), device.node);
  std::sort(places.begin(), places.end());
  return places;
}

TEST(GeneratedMachines, EveryShapeIsReadAsItWasWritten) {
  for (const std::string_view name : shapeNames()) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    const Machine wanted = shapeNamed(name).value();
    const auto machine = writtenAndRead(wanted, scratch);
    ASSERT_TRUE(machine) << machine.error().message;
    expectConsistent(*machine);
    expectSame(*machine, asFilesSayIt(wanted));
    EXPECT_EQ(placesOf(*machine), placesOf(wanted));
    if (HasFatalFailure()) return;
  }
}

TEST(GeneratedMachines, LstopoReadsTheSameFromTheFiles) {
  if (!lstopoIsHere()) GTEST_SKIP() << "lstopo-no-graphics is not installed (package hwloc-nox)";
  int compared = 0;
  for (const std::string_view name : shapeNames()) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    const Machine wanted = shapeNamed(name).value();
    if (!wanted.online.contains(0)) continue;  // hwloc 2 alone gives up without a topology of CPU 0
    const auto machine = writtenAndRead(wanted, scratch);
    const auto answer = askLstopo(scratch / wanted.name, scratch / "answer");
    ASSERT_TRUE(machine && answer);
    expectAsLstopo(*machine, *answer);
    ++compared;
  }
  EXPECT_GE(compared, 40);
}

TEST(GeneratedMachines, MissingNodeDirectoriesAreOneNode) {
  const Scratch scratch;
  const auto machine = writtenAndRead(machineNamed("8-nodes-caches"), scratch, {true, false});
  ASSERT_TRUE(machine) << machine.error().message;
  expectConsistent(*machine);
  EXPECT_EQ(machine->memoryNodes.size(), 1U);
  EXPECT_EQ(machine->memory, machineNamed("8-nodes-caches").memory);
  EXPECT_EQ(countOf(*machine, DomainLevel::Cache), 16);
}

TEST(GeneratedMachines, MissingCacheDirectoriesAreNoCaches) {
  const Scratch scratch;
  const auto machine = writtenAndRead(machineNamed("8-nodes-caches"), scratch, {false, true});
  ASSERT_TRUE(machine) << machine.error().message;
  expectConsistent(*machine);
  EXPECT_EQ(countOf(*machine, DomainLevel::Cache), 0);
  EXPECT_EQ(countOf(*machine, DomainLevel::Node), 8);
  for (const Cpu& cpu : machine->cpus) EXPECT_EQ(cpu.cache, cpu.node);
}

// The kernel may not say which nodes stand for devices; on POWER9 they are the last ones below 256.
TEST(GeneratedMachines, GpuMemoryOfPower9IsKnownByItsIds) {
  const Scratch scratch;
  const Machine wanted = shapeNamed("power9-gpu-memory-160").value();
  testing::writeSysfs(wanted, scratch / "power");
  std::filesystem::remove(scratch / "power/sys/devices/system/node/has_generic_initiator");
  std::ofstream(scratch / "power/proc/hwloc-nofile-info") << "OSName: Linux\nArchitecture: ppc64le\n";
  const auto machine = readMachine({MachineOrigin::Recorded, scratch / "power"});
  ASSERT_TRUE(machine) << machine.error().message;
  ASSERT_EQ(machine->memoryNodes.size(), 8U);
  for (const MemoryNode& node : machine->memoryNodes) EXPECT_EQ(node.kind, node.id >= 250 ? MemoryKind::Device : MemoryKind::Dram) << node.id;
  EXPECT_EQ(machine->memory, machine->memoryNodes[0].size + machine->memoryNodes[1].size) << "device memory is nobody's";
}

TEST(GeneratedMachines, ADeviceWithoutANodeHasNoPlace) {
  const Scratch scratch;
  const auto machine = writtenAndRead(shapeNamed("eight-gpus-128").value(), scratch);
  ASSERT_TRUE(machine) << machine.error().message;
  int unknown = 0;
  for (const Device& device : machine->devices) {
    if (device.node >= 0) continue;
    ++unknown;
    EXPECT_TRUE(device.cpus.empty());
    EXPECT_EQ(deviceKindName(device.kind), "network");
  }
  EXPECT_EQ(unknown, 1);
  EXPECT_EQ(machine->devices.size(), 18U);
}

TEST(GeneratedMachines, IsolatedAndForbiddenCpusSurviveARecording) {
  for (const char* name : {"isolated-32", "restricted-64"}) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    const Machine wanted = shapeNamed(name).value();
    testing::writeSysfs(wanted, scratch / "root");
    const auto xml = recordMachine({MachineOrigin::Recorded, scratch / "root"});
    ASSERT_TRUE(xml) << xml.error().message;
    std::ofstream(scratch / "machine.xml") << *xml;
    const auto machine = readMachine({MachineOrigin::Xml, scratch / "machine.xml"});
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->isolated, wanted.isolated);
    EXPECT_EQ(machine->allowed, wanted.allowed);
  }
}

}  // namespace
}  // namespace coterie::linux
