// What every machine that was read must satisfy, and the folders and commands that its tests need. Tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "linux/machine_reader.h"

namespace coterie::linux {

// Domains of one level by id: a node over two sockets, in two parts, counts once.
inline int countOf(const Machine& machine, DomainLevel level) {
  std::set<int> ids;
  int all = 0;
  for (const Domain& domain : machine.domains) {
    if (domain.level != level) continue;
    ids.insert(domain.id);
    ++all;
  }
  return level == DomainLevel::Core ? all : static_cast<int>(ids.size());  // core ids repeat in every socket
}

inline int distanceOf(const Machine& machine, std::size_t from, std::size_t to) {
  const auto& row = machine.memoryNodes[from].distance;
  if (to < row.size()) return row[to];
  return from == to ? 10 : 20;
}

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

// The same machine, whatever it was read from.
inline void expectSame(const Machine& read, const Machine& wanted) {
  EXPECT_EQ(read.online, wanted.online);
  EXPECT_EQ(read.allowed, wanted.allowed);
  EXPECT_EQ(read.isolated, wanted.isolated);
  EXPECT_EQ(read.memory, wanted.memory);
  ASSERT_EQ(read.cpus.size(), wanted.cpus.size());
  for (std::size_t i = 0; i < wanted.cpus.size(); ++i) {
    const Cpu& cpu = read.cpus[i];
    const Cpu& expected = wanted.cpus[i];
    ASSERT_EQ(cpu.id, expected.id);
    const auto at = [](const Machine& machine, int index) -> const Domain& { return machine.domains[static_cast<std::size_t>(index)]; };
    for (const auto& [one, other] : {std::pair{cpu.core, expected.core}, std::pair{cpu.cache, expected.cache}, std::pair{cpu.node, expected.node},
                                     std::pair{cpu.socket, expected.socket}})
      ASSERT_EQ(at(read, one).cpus, at(wanted, other).cpus) << "CPU " << cpu.id << ", level " << static_cast<int>(at(wanted, other).level);
    ASSERT_EQ(at(read, cpu.node).id, at(wanted, expected.node).id);
    ASSERT_EQ(at(read, cpu.socket).id, at(wanted, expected.socket).id);
    ASSERT_EQ(cpu.kind, expected.kind) << cpu.id;
    ASSERT_EQ(cpu.capacity, expected.capacity) << cpu.id;
  }
  ASSERT_EQ(read.memoryNodes.size(), wanted.memoryNodes.size());
  for (std::size_t i = 0; i < wanted.memoryNodes.size(); ++i) {
    const MemoryNode& node = read.memoryNodes[i];
    const MemoryNode& expected = wanted.memoryNodes[i];
    EXPECT_EQ(node.id, expected.id);
    EXPECT_EQ(node.size, expected.size) << node.id;
    EXPECT_EQ(node.cpus, expected.cpus) << node.id;
    EXPECT_EQ(node.near, expected.near) << node.id;
    EXPECT_EQ(memoryKindName(node.kind), memoryKindName(expected.kind)) << node.id;
    for (std::size_t to = 0; to < wanted.memoryNodes.size(); ++to) EXPECT_EQ(distanceOf(read, i, to), distanceOf(wanted, i, to)) << i << " to " << to;
  }
}

// A folder of the test's own, where thousands of small files cost little.
class Scratch {
 public:
  Scratch() {
    static int count = 0;
    const std::filesystem::path room =
        std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
    path_ = room / ("coterie-machines-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string contentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace coterie::linux
