#include "testing/sysfs_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace coterie::testing {
namespace {

namespace fs = std::filesystem;

// The kernel's mask: 32-bit words, highest first.
std::string maskOf(const CpuSet& set) {
  std::vector<unsigned> words(static_cast<std::size_t>(set.last() + 1) / 32 + 1);
  for (const int id : set) words[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<unsigned>(id) % 32);
  std::string text;
  for (auto word = words.rbegin(); word != words.rend(); ++word) text += fmt::format("{}{:08x}", text.empty() ? "" : ",", *word);
  return text;
}

class Tree {
 public:
  Tree(const Machine& machine, fs::path root) : machine_(machine), root_(std::move(root)) {}

  void write(const SysfsGaps& gaps) {
    cpus(gaps);
    if (!gaps.nodes) nodes();
    process();
    devices();
  }

 private:
  void file(const fs::path& path, std::string_view text) {
    const fs::path whole = root_ / path;
    fs::create_directories(whole.parent_path());
    std::ofstream out(whole);
    out << text << "\n";
    if (!out) std::abort();
  }
  [[nodiscard]] const Domain& domain(int index) const { return machine_.domains[static_cast<std::size_t>(index)]; }

  void cpus(const SysfsGaps& gaps) {
    const fs::path folder = "sys/devices/system/cpu";
    file(folder / "online", machine_.online.toString());
    file(folder / "possible", CpuSet::range(0, machine_.online.last()).toString());
    file(folder / "isolated", machine_.isolated.toString());
    const bool kinds = std::any_of(machine_.cpus.begin(), machine_.cpus.end(), [](const Cpu& cpu) { return cpu.kind > 0; });
    std::string info;
    for (const Cpu& cpu : machine_.cpus) {
      const fs::path own = folder / fmt::format("cpu{}", cpu.id);
      const std::string core = maskOf(domain(cpu.core).cpus);
      const std::string socket = maskOf(domain(cpu.socket).cpus);
      file(own / "topology/core_id", std::to_string(domain(cpu.core).id));
      file(own / "topology/physical_package_id", std::to_string(domain(cpu.socket).id));
      for (const char* name : {"core_cpus", "thread_siblings"}) file(own / "topology" / name, core);
      for (const char* name : {"package_cpus", "core_siblings"}) file(own / "topology" / name, socket);
      if (domain(cpu.cache).level == DomainLevel::Cache && !gaps.caches) cache(own / "cache/index0", domain(cpu.cache).cpus);
      if (kinds) file(own / "cpu_capacity", std::to_string((cpu.capacity.value * 1024 + 999) / 1000));
      info += fmt::format("processor\t: {}\nmodel name\t: {}\n\n", cpu.id, machine_.name);
    }
    file("proc/cpuinfo", info);
    file("proc/meminfo", fmt::format("MemTotal: {} kB", machine_.memory.value / 1024));
  }

  void cache(const fs::path& folder, const CpuSet& cpus) {
    file(folder / "shared_cpu_map", maskOf(cpus));
    file(folder / "level", "3");
    file(folder / "type", "Unified");
    file(folder / "size", "32768K");
    file(folder / "coherency_line_size", "64");
    file(folder / "number_of_sets", "32768");
    file(folder / "physical_line_partition", "1");
  }

  void nodes() {
    const fs::path folder = "sys/devices/system/node";
    CpuSet all;
    CpuSet withCpus;
    CpuSet initiators;
    for (const MemoryNode& node : machine_.memoryNodes) {
      all.add(node.id);
      if (!node.cpus.empty()) withCpus.add(node.id);
      if (node.kind == MemoryKind::Device) initiators.add(node.id);
    }
    for (const char* name : {"online", "possible"}) file(folder / name, all.toString());
    file(folder / "has_cpu", withCpus.toString());
    file(folder / "has_generic_initiator", initiators.toString());
    for (const MemoryNode& node : machine_.memoryNodes) {
      const fs::path own = folder / fmt::format("node{}", node.id);
      file(own / "cpumap", maskOf(node.cpus));
      file(own / "cpulist", node.cpus.toString());
      file(own / "meminfo", fmt::format("Node {} MemTotal: {} kB", node.id, node.size.value / 1024));
      std::string distances;
      for (const int distance : node.distance) distances += fmt::format("{}{}", distances.empty() ? "" : " ", distance);
      if (!distances.empty()) file(own / "distance", distances);
      bandwidth(own, node);
    }
  }

  // Only where memories differ does the firmware say how fast they are.
  void bandwidth(const fs::path& folder, const MemoryNode& node) {
    const auto isFast = [](const MemoryNode& one) { return one.kind == MemoryKind::HighBandwidth; };
    if (std::none_of(machine_.memoryNodes.begin(), machine_.memoryNodes.end(), isFast) || node.kind == MemoryKind::Device) return;
    const fs::path access = folder / "access0/initiators";
    for (const MemoryNode& from : machine_.memoryNodes) {
      const bool own = from.id == node.id && !node.cpus.empty();
      const bool beside = node.cpus.empty() && !from.cpus.empty() && node.near == from.cpus;
      if (own || beside) fs::create_directories(root_ / access / fmt::format("node{}", from.id));
    }
    const int speed = isFast(node) ? 400'000 : node.kind == MemoryKind::Dram ? 100'000 : 30'000;
    for (const char* name : {"read_bandwidth", "write_bandwidth"}) file(access / name, std::to_string(speed));
    for (const char* name : {"read_latency", "write_latency"}) file(access / name, "100");
  }

  void process() {
    if (machine_.allowed == machine_.online) return;
    CpuSet nodes;
    for (const MemoryNode& node : machine_.memoryNodes) nodes.add(node.id);
    file("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0");
    file("proc/self/cgroup", "0::/box");
    file("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory");
    for (const char* name : {"cpuset.cpus", "cpuset.cpus.effective"}) file(fs::path("sys/fs/cgroup/box") / name, machine_.allowed.toString());
    for (const char* name : {"cpuset.mems", "cpuset.mems.effective"}) file(fs::path("sys/fs/cgroup/box") / name, nodes.toString());
  }

  static const char* classOf(DeviceKind kind) {
    switch (kind) {
      case DeviceKind::Gpu: return "0x030200";
      case DeviceKind::Coprocessor: return "0x120000";
      case DeviceKind::Network: return "0x020000";
      case DeviceKind::Fabric: return "0x020700";
      case DeviceKind::Storage: return "0x010802";
    }
    return "0x000000";
  }

  void devices() {
    int bus = 1;
    for (const Device& device : machine_.devices) {
      const fs::path own = fs::path("sys/bus/pci/devices") / fmt::format("0000:{:02x}:00.0", bus++);
      file(own / "class", classOf(device.kind));
      file(own / "vendor", "0x10de");
      file(own / "device", "0x2330");
      file(own / "numa_node", std::to_string(device.node));
      file(own / "local_cpus", maskOf(device.node < 0 ? machine_.online : device.cpus));
    }
  }

  const Machine& machine_;
  fs::path root_;
};

}  // namespace

void writeSysfs(const Machine& machine, const std::string& folder, const SysfsGaps& gaps) { Tree(machine, folder).write(gaps); }

}  // namespace coterie::testing
