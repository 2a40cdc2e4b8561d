#include "model/machine_generator.h"
#include "model/machine_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace coterie {
namespace {

std::vector<Machine> allMachines() {
  std::vector<Machine> machines;
  for (const std::string_view name : shapeNames()) machines.push_back(shapeNamed(name).value());
  for (const int cpus : {8, 64, 128, 256, 512}) machines.push_back(bigMachine(cpus));
  return machines;
}

int count(const Machine& machine, DomainLevel level) {
  int found = 0;
  for (const Domain& domain : machine.domains) found += domain.level == level ? 1 : 0;
  return found;
}

// Beyond what every machine satisfies: what a generated one does.
void expectGenerated(const Machine& machine) {
  for (const Cpu& cpu : machine.cpus) EXPECT_EQ(cpu.kind == 0, cpu.capacity.value == 1000);
  int last = -1;
  for (std::size_t i = 0; i < machine.memoryNodes.size(); ++i) {
    const MemoryNode& node = machine.memoryNodes[i];
    EXPECT_GT(node.id, last);
    last = node.id;
    EXPECT_TRUE(node.near.isSubsetOf(machine.online));
    EXPECT_TRUE(node.cpus.empty() || node.kind == MemoryKind::Dram) << node.id;
    for (std::size_t other = 0; other < node.distance.size(); ++other) {
      EXPECT_EQ(node.distance[other], machine.memoryNodes[other].distance[i]) << "distances are the same both ways";
      EXPECT_EQ(node.distance[other] == 10, other == i) << "a node is nearest to itself";
    }
  }
}

TEST(MachineGenerator, EveryShapeIsConsistent) {
  for (const Machine& machine : allMachines()) {
    SCOPED_TRACE(machine.name);
    expectConsistent(machine);
    expectGenerated(machine);
    EXPECT_FALSE((machine.allowed - machine.isolated).empty());
    for (const Device& device : machine.devices) {
      const bool known =
          std::any_of(machine.memoryNodes.begin(), machine.memoryNodes.end(), [&](const MemoryNode& n) { return n.id == device.node; });
      EXPECT_EQ(known, device.node >= 0) << device.name;
      EXPECT_EQ(device.cpus.empty(), device.node < 0) << device.name;
    }
  }
}

TEST(MachineGenerator, NamesAreUniqueAndManyEnough) {
  const std::set<std::string_view> names(shapeNames().begin(), shapeNames().end());
  EXPECT_EQ(names.size(), shapeNames().size());
  EXPECT_GE(names.size(), 42U);
  EXPECT_FALSE(shapeNamed("no-such-machine"));
  for (const std::string_view name : shapeNames()) EXPECT_EQ(shapeNamed(name)->name, name);
}

struct Counted {
  const char* name;
  int cpus, sockets, nodes, caches, cores, memoryNodes;
};

// The seeds of the random histories depend on them.
TEST(MachineGenerator, TheTwelveOfTheHistoriesStayAsTheyAre) {
  const Counted twelve[] = {
      {"flat-2", 2, 1, 1, 0, 2, 1},
      {"smt-8", 8, 1, 1, 1, 4, 1},
      {"2x2-nodes", 16, 2, 4, 0, 8, 4},
      {"8-nodes-caches", 32, 2, 8, 16, 32, 8},
      {"performance-efficiency", 8, 1, 1, 2, 8, 1},
      {"memory-only", 8, 2, 2, 0, 8, 4},
      {"sparse-nodes", 16, 2, 8, 0, 16, 8},
      {"high-ids", 12, 2, 2, 0, 6, 2},
      {"1-cpu", 1, 1, 1, 0, 1, 1},
      {"34-nodes", 12, 2, 2, 0, 12, 34},
      {"offline", 9, 2, 2, 0, 6, 2},
      {"4-sockets-2-nodes", 16, 4, 8, 8, 16, 8},
  };
  ASSERT_EQ(machineNames().size(), std::size(twelve));
  for (std::size_t i = 0; i < std::size(twelve); ++i) {
    const Counted& wanted = twelve[i];
    EXPECT_EQ(machineNames()[i], wanted.name);
    const Machine machine = machineNamed(wanted.name);
    EXPECT_EQ(machine.online.count(), wanted.cpus) << wanted.name;
    EXPECT_EQ(count(machine, DomainLevel::Socket), wanted.sockets) << wanted.name;
    EXPECT_EQ(count(machine, DomainLevel::Node), wanted.nodes) << wanted.name;
    EXPECT_EQ(count(machine, DomainLevel::Cache), wanted.caches) << wanted.name;
    EXPECT_EQ(count(machine, DomainLevel::Core), wanted.cores) << wanted.name;
    EXPECT_EQ(static_cast<int>(machine.memoryNodes.size()), wanted.memoryNodes) << wanted.name;
  }
}

TEST(MachineGenerator, ShapesThatPeopleHave) {
  const Counted known[] = {
      {"xeon-2s-snc4-256", 256, 2, 8, 8, 128, 8},
      {"epyc-2s-nps4-12-caches-384", 384, 2, 8, 24, 192, 8},
      {"opteron-4s-8-nodes-64", 64, 4, 8, 8, 64, 8},
      {"grace-34-nodes-144", 144, 2, 2, 2, 144, 34},
      {"power9-gpu-memory-160", 160, 2, 2, 20, 40, 8},
      {"64-nodes-4096", 4096, 16, 64, 256, 2048, 64},
      {"hybrid-28", 28, 1, 1, 1, 20, 1},
      {"hybrid-3-kinds-22", 22, 1, 1, 1, 16, 1},
      {"offline-cpu-0-27", 27, 2, 2, 2, 14, 2},
      {"half-cores-20", 20, 2, 2, 2, 16, 2},
      {"vm-64-sockets", 64, 64, 64, 0, 64, 1},
      {"node-over-sockets-32", 32, 2, 2, 4, 16, 1},
      {"uneven-caches-44", 44, 1, 2, 4, 22, 2},
      {"eight-gpus-128", 128, 2, 8, 16, 128, 8},
      {"offline-node-48", 48, 2, 3, 3, 24, 4},
      {"8-nodes-512", 512, 2, 8, 32, 256, 8},
  };
  for (const Counted& wanted : known) {
    SCOPED_TRACE(wanted.name);
    const Machine machine = shapeNamed(wanted.name).value();
    EXPECT_EQ(machine.online.count(), wanted.cpus);
    EXPECT_EQ(count(machine, DomainLevel::Socket), wanted.sockets);
    EXPECT_EQ(count(machine, DomainLevel::Node), wanted.nodes);
    EXPECT_EQ(count(machine, DomainLevel::Cache), wanted.caches);
    EXPECT_EQ(count(machine, DomainLevel::Core), wanted.cores);
    EXPECT_EQ(static_cast<int>(machine.memoryNodes.size()), wanted.memoryNodes);
  }
}

TEST(MachineGenerator, DistancesGoThroughTheNodeThatMemoryHangsOn) {
  const Machine machine = shapeNamed("cxl-2s-64").value();  // nodes 0, 1 and, beside them, 2, 3 at 24
  EXPECT_EQ(machine.memoryNodes[0].distance, (std::vector<int>{10, 20, 24, 34}));
  EXPECT_EQ(machine.memoryNodes[2].distance, (std::vector<int>{24, 34, 10, 48}));
  EXPECT_EQ(machine.memoryNodes[2].near, machine.memoryNodes[0].cpus);
  EXPECT_EQ(shapeNamed("cxl-of-all-32")->memoryNodes[4].distance, (std::vector<int>{28, 28, 28, 28, 10}));
}

TEST(MachineGenerator, SiblingsAreHalfTheMachineApart) {
  const Machine machine = regularMachine("m", {4, 1, 0, 10, 2});
  EXPECT_EQ(machine.domains[static_cast<std::size_t>(machine.findCpu(3)->core)].cpus, (CpuSet{3, 43}));
  EXPECT_EQ(machine.domains[static_cast<std::size_t>(machine.findCpu(3)->node)].cpus, CpuSet::range(0, 9) | CpuSet::range(40, 49));
}

TEST(MachineGenerator, OrTogether) {
  const Machine machine = shapeNamed("power9-gpu-memory-160").value();
  EXPECT_EQ(machine.domains[static_cast<std::size_t>(machine.findCpu(5)->core)].cpus, (CpuSet{4, 5, 6, 7}));
  EXPECT_EQ(machine.memoryNodes[1].id, 8);
  EXPECT_EQ(machine.memoryNodes[7].kind, MemoryKind::Device);
}

TEST(MachineGenerator, OfflineCpusAndEmptyDomainsVanish) {
  const Machine machine = withOnline(machineNamed("2x2-nodes"), {2, 3, 10}, {2, 3});
  EXPECT_EQ(machine.cpus.size(), 3U);
  EXPECT_EQ(machine.allowed, (CpuSet{2, 3}));
  EXPECT_EQ(machine.memoryNodes.size(), 4U);
  EXPECT_FALSE(machineNamed("offline").online.contains(0));
}

}  // namespace
}  // namespace coterie
