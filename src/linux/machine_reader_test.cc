#include "linux/machine_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/live_machine.h"
#include "linux/machine_checks.h"

namespace coterie::linux {
namespace {

struct SyntheticCase {
  const char* text;
  int cpus, sockets, nodes, caches, cores;
};

TEST(MachineReader, SyntheticShapes) {
  const SyntheticCase cases[] = {
      {"pu:2", 2, 1, 1, 0, 2},
      {"core:8 pu:2", 16, 1, 1, 0, 8},
      {"pack:2 numa:2 core:4 pu:2", 32, 2, 4, 0, 16},
      {"pack:1 numa:8 l3:2 core:2 pu:1", 32, 1, 8, 16, 32},
      {"pack:2 l3:8 core:8 pu:2", 256, 2, 1, 16, 128},
      {"pack:2 core:4", 8, 2, 1, 0, 8},              // a core without threads is a CPU
      {"numa:1 pack:4 core:2 pu:1", 8, 4, 1, 0, 8},  // one node over four sockets
  };
  for (const SyntheticCase& expected : cases) {
    SCOPED_TRACE(expected.text);
    const auto machine = readMachine({MachineOrigin::Synthetic, expected.text});
    ASSERT_TRUE(machine) << machine.error().message;
    expectConsistent(*machine);
    EXPECT_EQ(machine->online.count(), expected.cpus);
    EXPECT_EQ(countOf(*machine, DomainLevel::Socket), expected.sockets);
    EXPECT_EQ(countOf(*machine, DomainLevel::Node), expected.nodes);
    EXPECT_EQ(countOf(*machine, DomainLevel::Cache), expected.caches);
    EXPECT_EQ(countOf(*machine, DomainLevel::Core), expected.cores);
  }
}

TEST(MachineReader, ANodeOverFourSocketsIsOneDomainInEach) {
  const auto machine = readMachine({MachineOrigin::Synthetic, "numa:1 pack:4 core:2 pu:1"});
  ASSERT_TRUE(machine);
  int parts = 0;
  for (const Domain& domain : machine->domains) parts += domain.level == DomainLevel::Node ? 1 : 0;
  EXPECT_EQ(parts, 4);
  EXPECT_EQ(machine->memoryNodes.size(), 1U);
}

TEST(MachineReader, ABadDescriptionIsRefusedByName) {
  const auto machine = readMachine({MachineOrigin::Synthetic, "pack:two"});
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().reason, "MachineUnreadable");
  EXPECT_NE(machine.error().message.find("pack:two"), std::string::npos);
  EXPECT_FALSE(readMachine({MachineOrigin::Xml, "/nowhere.xml"}));
  const auto folder = readMachine({MachineOrigin::Recorded, "/nowhere"});
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("/nowhere"), std::string::npos);
}

TEST(MachineReader, WhatIsNoFileIsRefusedAtOnce) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "d.xml");
  ASSERT_EQ(::mkfifo((scratch / "pipe.xml").c_str(), 0600), 0);
  std::ofstream(scratch / "empty.xml");
  for (const auto& [name, word] : {std::pair("d.xml", "folder"), std::pair("pipe.xml", "pipe"), std::pair("empty.xml", "no hwloc topology"),
                                   std::pair("none.xml", "cannot be read")}) {
    const auto machine = readMachine({MachineOrigin::Xml, scratch / name});
    ASSERT_FALSE(machine) << name;
    EXPECT_EQ(machine.error().code, Code::InvalidArgument) << name;
    EXPECT_NE(machine.error().message.find(word), std::string::npos) << machine.error().message;
    EXPECT_NE(machine.error().message.find(name), std::string::npos) << machine.error().message;
  }
}

TEST(MachineReader, ARecordedListOfCpusThatIsNoneIsNoMachineOfOneCpu) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "sys/devices/system/cpu");
  for (const char* text : {"garbage\n", "0-99999999\n", "\n"}) {
    std::ofstream(scratch / "sys/devices/system/cpu/online") << text;
    const auto machine = readMachine({MachineOrigin::Recorded, scratch / ""});
    ASSERT_FALSE(machine) << text;
    EXPECT_EQ(machine.error().code, Code::InvalidArgument);
    EXPECT_NE(machine.error().message.find("cpu/online"), std::string::npos) << machine.error().message;
  }
}

TEST(MachineReader, TheLiveMachineIsConsistentWithItsSource) {
  const auto machine = readMachine();
  ASSERT_TRUE(machine) << machine.error().message;
  expectConsistent(*machine);
  EXPECT_GT(machine->memory.value, 0);
  EXPECT_FALSE(machine->allowed.empty());
  LiveMachine live;
  const auto sets = live.poll();
  ASSERT_TRUE(sets);
  EXPECT_EQ(sets->online, machine->online);
  EXPECT_EQ(sets->allowed, live.read()->allowed);
}

TEST(MachineReader, AnEnvironmentThatDescribesAnotherMachineIsRefusedWhenLive) {
  ::setenv("HWLOC_SYNTHETIC", "pack:2 core:4 pu:2", 1);
  const auto machine = readMachine();
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().reason, "NotThisMachine");
}

// ---- recording ----

Result<Machine> recordedAndReadAgain(const MachineReading& reading, const Scratch& scratch) {
  const auto xml = recordMachine(reading);
  if (!xml) return xml.error();
  std::ofstream(scratch / "machine.xml") << *xml;
  return readMachine({MachineOrigin::Xml, scratch / "machine.xml"});
}

TEST(MachineRecording, SaysTheSameAsTheLiveMachine) {
  const Scratch scratch;
  const auto live = readMachine();
  const auto again = recordedAndReadAgain({}, scratch);
  ASSERT_TRUE(live && again) << (again ? "" : again.error().message);
  expectConsistent(*again);
  expectSame(*again, *live);
  EXPECT_EQ(again->name, live->name);
  ASSERT_EQ(again->devices.size(), live->devices.size());
  for (std::size_t i = 0; i < live->devices.size(); ++i) {
    EXPECT_EQ(again->devices[i].name, live->devices[i].name);
    EXPECT_EQ(again->devices[i].node, live->devices[i].node);
    EXPECT_EQ(again->devices[i].kind, live->devices[i].kind);
  }
  const std::string xml = contentsOf(scratch / "machine.xml");
  for (const char* personal : {"HostName", "ProcessName", "Serial", "\"Address\"", "UUID"})
    EXPECT_EQ(xml.find(personal), std::string::npos) << personal;
}

TEST(MachineRecording, SaysTheSameAsADescription) {
  const Scratch scratch;
  const MachineReading reading{MachineOrigin::Synthetic, "pack:2 numa:2 l3:2 core:4 pu:2"};
  const auto direct = readMachine(reading);
  const auto again = recordedAndReadAgain(reading, scratch);
  ASSERT_TRUE(direct && again);
  expectConsistent(*again);
  expectSame(*again, *direct);
}

TEST(CgroupPaths, RecordedTexts) {
  const std::string mounts =
      "30 25 0:26 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu\n"
      "31 25 0:27 /docker/abc /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
      "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n33 25 0:29 / /proc rw - proc proc rw\nbroken line\n";
  const auto own = parseCgroupDirectories("3:cpuset:/docker/abc/x\n1:cpu,cpuacct:/a/b\n0::/user\nnonsense\n", mounts);
  EXPECT_EQ(own.v1.at("cpu"), "/sys/fs/cgroup/cpu/a/b");
  EXPECT_EQ(own.v1.at("cpuset"), "/sys/fs/cgroup/cpuset/x");
  EXPECT_EQ(own.v2.value_or(""), "/sys/fs/cgroup/unified/user");
  EXPECT_EQ(parseCgroupDirectories("0::/\n", "5 1 0:2 / /cg rw - cgroup2 none rw\n").v2.value_or(""), "/cg");
  EXPECT_TRUE(parseCgroupDirectories("", "").v1.empty());
}

}  // namespace
}  // namespace coterie::linux
