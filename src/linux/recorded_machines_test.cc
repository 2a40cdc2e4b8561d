// Every recording in the shared data: what each machine is, and that it is what lstopo reads from the same files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "allocation/plan_and_replay.h"
#include "linux/hwloc_xml.h"
#include "linux/lstopo.h"
#include "linux/machine_checks.h"
#include "linux/machine_reader.h"

namespace coterie::linux {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::filesystem::path topologies() {
  const char* set = std::getenv("COTERIE_DATA");
  return (set != nullptr ? std::filesystem::path(set) : std::filesystem::path(COTERIE_SOURCE_DIR) / ".." / "shared" / "data") / "topologies";
}

struct Recording {
  const char* archive;
  const char* folder;  // in it; "": an XML file
  int cpus, sockets, nodes, caches, cores, memoryNodes;
};

const Recording kRecordings[] = {
    {"16em64t-4s2c2t-offlines.tar.bz2", "16em64t-4s2c2t-offlines", 12, 4, 1, 4, 7, 1},
    {"20em64t-hybrid-1p6c2t+2ca4co1t.tar.bz2", "20em64t-hybrid-1p6c2t+2ca4co1t", 20, 1, 1, 1, 14, 1},
    {"2arm-2c.tar.bz2", "2arm-2c", 2, 1, 1, 0, 2, 1},
    {"32amd64-4s2n4c-cgroup2.tar.bz2", "32amd64-4s2n4c-cgroup", 32, 4, 8, 8, 32, 8},
    {"48amd64-4pa2n6c-sparse.tar.bz2", "48amd64-4d2n6c-sparse", 48, 4, 8, 8, 48, 8},
    {"64amd64-4s2n4ca2co.tar.bz2", "64amd64-4s2n4ca2co", 64, 4, 8, 8, 64, 8},
    {"128arm-2pa2n8cluster4co.tar.bz2", "128arm-2pa2n8cluster4co", 128, 2, 4, 4, 128, 4},
    {"fakememinitiators-1np2c+1npp+gi.tar.bz2", "fakememinitiators-1np2c+1npp+gi", 8, 2, 4, 0, 8, 11},
    {"192em64t-24n8c2t.xml", "", 384, 24, 24, 24, 192, 24},
    {"64intel64-heteromem.xml", "", 64, 1, 4, 4, 16, 8},
};

class Recorded : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(topologies())) GTEST_SKIP() << "no data: " << topologies() << " is absent (set COTERIE_DATA)";
  }
  // As a reading; an archive is unpacked.
  MachineReading prepare(const std::string& archive, const std::string& folder) {
    const std::string source = (topologies() / archive).string();
    if (folder.empty()) return {MachineOrigin::Xml, source};
    const std::string unpack = "tar xjf '" + source + "' -C '" + (scratch_ / "") + "'";
    if (!std::filesystem::exists(scratch_ / folder) && std::system(unpack.c_str()) != 0) ADD_FAILURE() << unpack;
    return {MachineOrigin::Recorded, scratch_ / folder};
  }
  Machine read(const std::string& name) {
    for (const Recording& one : kRecordings) {
      if (std::string(one.archive).rfind(name, 0) != 0) continue;
      const auto machine = readMachine(prepare(one.archive, one.folder));
      if (machine) return *machine;
      ADD_FAILURE() << name << ": " << machine.error().message;
    }
    return {};
  }
  Scratch scratch_;
};

TEST_F(Recorded, EachHasTheRightCounts) {
  for (const Recording& one : kRecordings) {
    SCOPED_TRACE(one.archive);
    const auto machine = readMachine(prepare(one.archive, one.folder));
    ASSERT_TRUE(machine) << machine.error().message;
    expectConsistent(*machine);
    EXPECT_EQ(machine->online.count(), one.cpus);
    EXPECT_EQ(countOf(*machine, DomainLevel::Socket), one.sockets);
    EXPECT_EQ(countOf(*machine, DomainLevel::Node), one.nodes);
    EXPECT_EQ(countOf(*machine, DomainLevel::Cache), one.caches);
    EXPECT_EQ(countOf(*machine, DomainLevel::Core), one.cores);
    EXPECT_EQ(static_cast<int>(machine->memoryNodes.size()), one.memoryNodes);
  }
}

TEST_F(Recorded, EachIsWhatLstopoReads) {
  if (!lstopoIsHere()) GTEST_SKIP() << "lstopo-no-graphics is not installed (package hwloc-nox)";
  for (const Recording& one : kRecordings) {
    SCOPED_TRACE(one.archive);
    const MachineReading reading = prepare(one.archive, one.folder);
    std::string input = reading.text;
    if (reading.origin == MachineOrigin::Xml) {  // lstopo's hwloc may be of version 2, too
      const auto readable = hwloc2Xml(contentsOf(reading.text));
      ASSERT_TRUE(readable) << readable.error().message;
      input = scratch_ / "input.xml";
      std::ofstream(input) << *readable;
    }
    const auto machine = readMachine(reading);
    const auto answer = askLstopo(input, scratch_ / "answer");
    ASSERT_TRUE(machine && answer);
    expectAsLstopo(*machine, *answer);
  }
}

TEST_F(Recorded, EachIsPlannedForAndReplayed) {
  for (const Recording& one : kRecordings) {
    SCOPED_TRACE(one.archive);
    const auto machine = readMachine(prepare(one.archive, one.folder));
    ASSERT_TRUE(machine) << machine.error().message;
    allocation::planAndReplay(*machine);
  }
}

TEST_F(Recorded, EachCanBeRecordedAgain) {
  for (const Recording& one : kRecordings) {
    SCOPED_TRACE(one.archive);
    const MachineReading reading = prepare(one.archive, one.folder);
    const auto xml = recordMachine(reading);
    ASSERT_TRUE(xml) << xml.error().message;
    std::ofstream(scratch_ / "again.xml") << *xml;
    const auto first = readMachine(reading);
    const auto again = readMachine({MachineOrigin::Xml, scratch_ / "again.xml"});
    ASSERT_TRUE(first && again) << again.error().message;
    expectSame(*again, *first);
    EXPECT_EQ(again->devices.size(), first->devices.size());
  }
}

TEST_F(Recorded, TheEnvironmentIsAsItWas) {
  ::setenv("HWLOC_COMPONENTS", "x86,linux", 1);
  ::unsetenv("HWLOC_FSROOT");
  EXPECT_EQ(read("2arm-2c").online.count(), 2);
  EXPECT_STREQ(std::getenv("HWLOC_COMPONENTS"), "x86,linux");
  EXPECT_EQ(std::getenv("HWLOC_FSROOT"), nullptr);
  ::unsetenv("HWLOC_COMPONENTS");
}

TEST_F(Recorded, SparseNodeIds) {
  const Machine machine = read("48amd64-4pa2n6c-sparse");
  CpuSet ids;
  for (const MemoryNode& node : machine.memoryNodes) ids.add(node.id);
  EXPECT_EQ(ids, (CpuSet{0, 1, 2, 33, 34, 45, 72, 73}));
  for (const MemoryNode& node : machine.memoryNodes) {
    EXPECT_EQ(node.cpus.count(), 6) << node.id;
    EXPECT_EQ(node.kind, MemoryKind::Dram);
  }
  EXPECT_EQ(machine.memoryNodes[0].distance, (std::vector<int>{10, 16, 16, 22, 16, 22, 16, 22}));
}

TEST_F(Recorded, OfflineCpusDoNotAppearAndACoreWithOneOnlineThreadIsOneCpu) {
  const Machine machine = read("16em64t-4s2c2t-offlines");
  EXPECT_EQ(machine.online, (CpuSet{0, 1, 3, 4, 6, 7, 8, 9, 10, 11, 12, 15}));
  int halves = 0;
  for (const Domain& domain : machine.domains) halves += domain.level == DomainLevel::Core && domain.cpus.count() == 1 ? 1 : 0;
  EXPECT_EQ(halves, 2);  // 6 and 10: their siblings 14 and 2 are offline
}

TEST_F(Recorded, HybridCoresHaveKinds) {
  const Machine machine = read("20em64t-hybrid-1p6c2t+2ca4co1t");
  int fast = 0;
  int slow = 0;
  for (const Cpu& cpu : machine.cpus) (cpu.kind == 0 ? fast : slow) += 1;
  EXPECT_EQ(fast, 12);
  EXPECT_EQ(slow, 8);
  for (const Cpu& cpu : machine.cpus) EXPECT_EQ(cpu.capacity.value == 1000, cpu.kind == 0) << cpu.id;
}

TEST_F(Recorded, EqualCoresAreOneKind) {
  for (const char* name : {"128arm-2pa2n8cluster4co", "64amd64-4s2n4ca2co", "192em64t-24n8c2t"}) {
    for (const Cpu& cpu : read(name).cpus) ASSERT_EQ(cpu.kind, 0) << name;
  }
}

TEST_F(Recorded, NoNumaDirectoriesIsOneNode) {
  const Machine machine = read("2arm-2c");
  ASSERT_EQ(machine.memoryNodes.size(), 1U);
  EXPECT_EQ(machine.memoryNodes[0].cpus, machine.online);
  EXPECT_GT(machine.memoryNodes[0].size.value, 0);
}

// Four nodes have two CPUs each and no memory; 5, 6, 8 and 9 are their memory, 7 and 10 large and far, 4 a device.
TEST_F(Recorded, CpusAndMemoryInDifferentNodes) {
  const Machine machine = read("fakememinitiators-1np2c+1npp+gi");
  ASSERT_EQ(machine.memoryNodes.size(), 11U);
  for (const MemoryNode& node : machine.memoryNodes) {
    EXPECT_EQ(node.cpus.count(), node.id < 4 ? 2 : 0) << node.id;
    EXPECT_EQ(node.size.value > 0, node.id > 4) << node.id;
    const MemoryKind kind = node.id == 4 ? MemoryKind::Device : node.id == 7 || node.id == 10 ? MemoryKind::Slow : MemoryKind::Dram;
    EXPECT_EQ(memoryKindName(node.kind), memoryKindName(kind)) << node.id;
  }
  EXPECT_EQ(machine.memoryNodes[8].near, machine.memoryNodes[1].cpus);
  EXPECT_EQ(machine.memoryNodes[0].distance, (std::vector<int>{10, 21, 13, 21, 12, 11, 14, 17, 21, 21, 28}));
}

TEST_F(Recorded, TheCgroupOfTheRecordingLimitsWhatIsAllowed) {
  const Machine machine = read("32amd64-4s2n4c-cgroup2");
  EXPECT_LT(machine.allowed.count(), 32);
  EXPECT_FALSE(machine.allowed.empty());
}

TEST_F(Recorded, HighBandwidthMemoryIsNearToTheCpusOfItsNode) {
  const Machine machine = read("64intel64-heteromem");
  ASSERT_EQ(machine.memoryNodes.size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    const MemoryNode& node = machine.memoryNodes[i];
    EXPECT_EQ(node.kind, i < 4 ? MemoryKind::Dram : MemoryKind::HighBandwidth) << node.id;
    EXPECT_EQ(node.size.value, (i < 4 ? 1024 : 2048) * kMiB);
    EXPECT_EQ(node.cpus.count(), i < 4 ? 16 : 0);
    EXPECT_EQ(node.near.count(), i < 4 ? 0 : 16);
  }
  EXPECT_EQ(machine.memoryNodes[7].near, machine.memoryNodes[0].cpus);  // as the file has it
  EXPECT_EQ(machine.memoryNodes[4].near, machine.memoryNodes[1].cpus);
}

TEST_F(Recorded, DevicesAreNearToTheirSockets) {
  const Machine machine = read("192em64t-24n8c2t");
  struct Expected {
    const char* name;
    DeviceKind kind;
    int node;
  };
  const Expected expected[] = {
      {"0000:00:1f.2", DeviceKind::Storage, 0}, {"0000:05:00.0", DeviceKind::Storage, 0}, {"0000:0a:00.0", DeviceKind::Gpu, 0},
      {"0004:01:00.0", DeviceKind::Storage, 8}, {"eth0", DeviceKind::Network, 0},         {"eth1", DeviceKind::Network, 0},
      {"eth2", DeviceKind::Network, 4},         {"eth3", DeviceKind::Network, 4},         {"eth4", DeviceKind::Network, 4},
      {"eth5", DeviceKind::Network, 4},         {"ib0", DeviceKind::Network, 6},          {"mlx4_0", DeviceKind::Fabric, 6},
      {"sda", DeviceKind::Storage, 1},          {"sdb", DeviceKind::Storage, 1},
  };
  ASSERT_EQ(machine.devices.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(machine.devices[i].name, expected[i].name);
    EXPECT_EQ(deviceKindName(machine.devices[i].kind), deviceKindName(expected[i].kind)) << expected[i].name;
    EXPECT_EQ(machine.devices[i].node, expected[i].node) << expected[i].name;
    EXPECT_EQ(machine.devices[i].cpus.count(), 16) << expected[i].name;
  }
}

TEST_F(Recorded, DistancesOfManySockets) {
  const Machine machine = read("192em64t-24n8c2t");
  EXPECT_EQ(std::vector<int>(machine.memoryNodes[0].distance.begin(), machine.memoryNodes[0].distance.begin() + 12),
            (std::vector<int>{10, 50, 65, 65, 65, 65, 65, 65, 65, 65, 79, 79}));
  EXPECT_EQ(machine.memoryNodes[23].distance[22], 50);
}

}  // namespace
}  // namespace coterie::linux
