#include "linux/machine_reader.h"

#include <gtest/gtest.h>
#include <hwloc.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "linux/cgroup_paths.h"
#include "linux/live_machine.h"

namespace coterie::linux {
namespace {

namespace fs = std::filesystem;

int count(const Machine& machine, DomainLevel level) {
  int found = 0;
  for (const Domain& domain : machine.domains) found += domain.level == level ? 1 : 0;
  return found;
}

// What every machine must satisfy, whatever it looks like.
void expectConsistent(const Machine& machine) {
  ASSERT_FALSE(machine.domains.empty());
  EXPECT_EQ(machine.domains[0].cpus, machine.online);
  EXPECT_EQ(static_cast<int>(machine.cpus.size()), machine.online.count());
  EXPECT_TRUE(machine.allowed.isSubsetOf(machine.online));
  EXPECT_FALSE(machine.memoryNodes.empty());
  for (std::size_t i = 1; i < machine.domains.size(); ++i) {
    const Domain& domain = machine.domains[i];
    ASSERT_LT(domain.parent, static_cast<int>(i)) << "parents come first";
    ASSERT_GE(domain.parent, 0);
    EXPECT_TRUE(domain.cpus.isSubsetOf(machine.domains[static_cast<std::size_t>(domain.parent)].cpus));
    EXPECT_LT(machine.domains[static_cast<std::size_t>(domain.parent)].level, domain.level);
  }
  int last = -1;
  for (const Cpu& cpu : machine.cpus) {
    EXPECT_GT(cpu.id, last);
    last = cpu.id;
    for (const int index : {cpu.core, cpu.cache, cpu.node, cpu.socket})
      EXPECT_TRUE(machine.domains[static_cast<std::size_t>(index)].cpus.contains(cpu.id));
    EXPECT_EQ(machine.domains[static_cast<std::size_t>(cpu.core)].level, DomainLevel::Core);
    EXPECT_EQ(machine.domains[static_cast<std::size_t>(cpu.node)].level, DomainLevel::Node);
    EXPECT_EQ(machine.domains[static_cast<std::size_t>(cpu.socket)].level, DomainLevel::Socket);
    EXPECT_GT(cpu.capacity.value, 0);
    EXPECT_LE(cpu.capacity.value, 1000);
  }
  for (const MemoryNode& node : machine.memoryNodes) {
    EXPECT_TRUE(node.distance.empty() || node.distance.size() == machine.memoryNodes.size());
  }
}

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
      {"pack:2 l3:8 core:8 pu:2", 256, 2, 2, 16, 128},
      {"numa:1 pack:4 core:2 pu:1", 8, 4, 4, 0, 8},  // one node over four sockets: one domain per part
  };
  for (const SyntheticCase& expected : cases) {
    SCOPED_TRACE(expected.text);
    const auto machine = readMachine({MachineOrigin::Synthetic, expected.text, ""});
    ASSERT_TRUE(machine) << machine.error().message;
    expectConsistent(*machine);
    EXPECT_EQ(machine->online.count(), expected.cpus);
    EXPECT_EQ(count(*machine, DomainLevel::Socket), expected.sockets);
    EXPECT_EQ(count(*machine, DomainLevel::Node), expected.nodes);
    EXPECT_EQ(count(*machine, DomainLevel::Cache), expected.caches);
    EXPECT_EQ(count(*machine, DomainLevel::Core), expected.cores);
  }
}

TEST(MachineReader, ABadDescriptionIsRefusedByName) {
  const auto machine = readMachine({MachineOrigin::Synthetic, "pack:two", ""});
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.error().reason, "MachineUnreadable");
  EXPECT_NE(machine.error().message.find("pack:two"), std::string::npos);
  EXPECT_FALSE(readMachine({MachineOrigin::Xml, "/nowhere.xml", ""}));
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

class Recorded : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* set = std::getenv("COTERIE_DATA");
    data_ = (set != nullptr ? fs::path(set) : fs::path(COTERIE_SOURCE_DIR) / ".." / "shared" / "data") / "topologies";
    if (!fs::exists(data_)) GTEST_SKIP() << "no data: " << data_ << " is absent (set COTERIE_DATA)";
    const fs::path room = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();  // thousands of small files
    scratch_ = room / ("coterie-machines-" + std::to_string(::getpid()));
    fs::create_directories(scratch_);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!scratch_.empty()) fs::remove_all(scratch_, ignored);
  }
  Machine fromRoot(const std::string& archive, std::string folder = "") {
    if (folder.empty()) folder = archive;
    const std::string unpack = "tar xjf '" + (data_ / (archive + ".tar.bz2")).string() + "' -C '" + scratch_.string() + "'";
    if (std::system(unpack.c_str()) != 0) ADD_FAILURE() << unpack;
    const std::string root = (scratch_ / folder).string();
    ::setenv("HWLOC_FSROOT", root.c_str(), 1);
    ::setenv("HWLOC_COMPONENTS", "linux,stop", 1);
    ::setenv("HWLOC_THISSYSTEM", "0", 1);
    auto machine = readMachine({MachineOrigin::Recorded, "", root});
    for (const char* name : {"HWLOC_FSROOT", "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM"}) ::unsetenv(name);
    if (!machine) {
      ADD_FAILURE() << archive << ": " << machine.error().message;
      return {};
    }
    expectConsistent(*machine);
    return *machine;
  }
  fs::path data_;
  fs::path scratch_;
};

TEST_F(Recorded, SparseNodeIds) {
  const Machine machine = fromRoot("48amd64-4pa2n6c-sparse", "48amd64-4d2n6c-sparse");
  std::string ids;
  for (const MemoryNode& node : machine.memoryNodes) ids += std::to_string(node.id) + " ";
  EXPECT_EQ(ids, "0 1 2 33 34 45 72 73 ");
  EXPECT_EQ(machine.online.count(), 48);
  EXPECT_EQ(count(machine, DomainLevel::Node), 8);
  EXPECT_EQ(machine.memoryNodes[0].distance[0], 10);
}

TEST_F(Recorded, OfflineCpusDoNotAppear) {
  const Machine machine = fromRoot("16em64t-4s2c2t-offlines");
  EXPECT_LT(machine.online.count(), 16);
  EXPECT_EQ(machine.findCpu(machine.online.first())->id, machine.online.first());
}

TEST_F(Recorded, HybridCoresHaveKinds) {
  const Machine machine = fromRoot("20em64t-hybrid-1p6c2t+2ca4co1t");
  EXPECT_EQ(machine.online.count(), 20);
  int fast = 0;
  int slow = 0;
  for (const Cpu& cpu : machine.cpus) (cpu.kind == 0 ? fast : slow) += 1;
  EXPECT_EQ(fast, 12);
  EXPECT_EQ(slow, 8);
  for (const Cpu& cpu : machine.cpus) EXPECT_EQ(cpu.capacity.value == 1000, cpu.kind == 0) << cpu.id;
}

TEST_F(Recorded, NoNumaDirectoriesIsOneNode) {
  const Machine machine = fromRoot("2arm-2c");
  EXPECT_EQ(machine.memoryNodes.size(), 1U);
  EXPECT_EQ(count(machine, DomainLevel::Node), 1);
}

TEST_F(Recorded, MemoryOnlyNodesAreMemoryNodesWithoutCpus) {
  const Machine machine = fromRoot("fakememinitiators-1np2c+1npp+gi");
  bool memoryOnly = false;
  for (const MemoryNode& node : machine.memoryNodes) memoryOnly = memoryOnly || node.cpus.empty();
  EXPECT_GT(machine.memoryNodes.size(), 1U);
  EXPECT_TRUE(memoryOnly || count(machine, DomainLevel::Node) < static_cast<int>(machine.memoryNodes.size()));
}

TEST_F(Recorded, ManyCoresWithClustersAndL3Groups) {
  const Machine arm = fromRoot("128arm-2pa2n8cluster4co");
  EXPECT_EQ(arm.online.count(), 128);
  EXPECT_EQ(count(arm, DomainLevel::Socket), 2);
  EXPECT_EQ(count(arm, DomainLevel::Node), 4);
  for (const Cpu& cpu : arm.cpus) EXPECT_EQ(cpu.kind, 0) << "equal cores are one kind";
  const Machine amd = fromRoot("64amd64-4s2n4ca2co");
  EXPECT_EQ(amd.online.count(), 64);
  EXPECT_EQ(count(amd, DomainLevel::Node), 8);
}

TEST_F(Recorded, TheCgroupOfTheRecordingLimitsWhatIsAllowed) {
  const Machine machine = fromRoot("32amd64-4s2n4c-cgroup2", "32amd64-4s2n4c-cgroup");
  EXPECT_EQ(machine.online.count(), 32);
  EXPECT_LT(machine.allowed.count(), 32);
}

TEST_F(Recorded, XmlMachines) {
  const auto big = readMachine({MachineOrigin::Xml, (data_ / "192em64t-24n8c2t.xml").string(), ""});
  if (!big) GTEST_SKIP() << "this hwloc does not read the recordings' XML version (3.0): " << big.error().message;
  expectConsistent(*big);
  EXPECT_EQ(big->online.count(), 384);
  EXPECT_EQ(big->memoryNodes.size(), 24U);
  const auto hetero = readMachine({MachineOrigin::Xml, (data_ / "64intel64-heteromem.xml").string(), ""});
  ASSERT_TRUE(hetero);
  expectConsistent(*hetero);
  EXPECT_GT(hetero->memoryNodes.size(), 1U);
}

TEST(MachineReader, XmlSaysTheSameAsWhatItWasMadeFrom) {
  const std::string text = "pack:2 numa:2 l3:2 core:4 pu:2";
  const std::string file = (fs::temp_directory_path() / ("coterie-machine-" + std::to_string(::getpid()) + ".xml")).string();
  hwloc_topology_t topology = nullptr;
  ASSERT_EQ(hwloc_topology_init(&topology), 0);
  ASSERT_EQ(hwloc_topology_set_synthetic(topology, text.c_str()), 0);
  ASSERT_EQ(hwloc_topology_load(topology), 0);
  ASSERT_EQ(hwloc_topology_export_xml(topology, file.c_str(), 0), 0);
  hwloc_topology_destroy(topology);
  const auto fromXml = readMachine({MachineOrigin::Xml, file, ""});
  fs::remove(file);
  const auto direct = readMachine({MachineOrigin::Synthetic, text, ""});
  ASSERT_TRUE(fromXml && direct);
  expectConsistent(*fromXml);
  ASSERT_EQ(fromXml->domains.size(), direct->domains.size());
  for (std::size_t i = 0; i < direct->domains.size(); ++i) EXPECT_EQ(fromXml->domains[i].cpus, direct->domains[i].cpus);
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
