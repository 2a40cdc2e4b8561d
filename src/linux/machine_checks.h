// How machines that were read are compared, and the folders that their tests need. What each must satisfy: model/machine_checks.h. Tests only.
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
#include "model/machine_checks.h"

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
