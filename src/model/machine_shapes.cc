// The named shapes: what data centres, desks and odd corners have, and what recordings showed. A shape is one line where its counts say it all, else
// a function. Names say make, sockets, nodes or what is special, and CPUs.
#include <algorithm>
#include <array>

#include "model/machine_generator.h"

namespace coterie {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct CountedShape {
  std::string_view name;
  MachineShape shape;
};

// Sockets, nodes per socket, caches per node, cores per cache, threads.
const std::vector<CountedShape>& countedShapes() {
  static const std::vector<CountedShape> shapes{
      {"smt-2", {1, 1, 1, 1, 2}},
      {"no-caches-16", {2, 1, 0, 4, 2}},
      {"xeon-2s-64", {2, 1, 1, 16, 2}},
      {"xeon-2s-snc2-128", {2, 2, 1, 16, 2}},
      {"xeon-2s-snc4-256", {2, 4, 1, 16, 2}},
      {"xeon-8s-384", {8, 1, 1, 24, 2}},
      {"epyc-2s-8-caches-128", {2, 1, 8, 4, 2}},
      {"epyc-2s-nps2-8-caches-256", {2, 2, 4, 8, 2}},
      {"epyc-2s-nps4-8-caches-256", {2, 4, 2, 8, 2}},
      {"epyc-2s-12-caches-384", {2, 1, 12, 8, 2}},
      {"epyc-2s-nps2-12-caches-384", {2, 2, 6, 8, 2}},
      {"epyc-2s-nps4-12-caches-384", {2, 4, 3, 8, 2}},
      {"arm-2s-clusters-128", {2, 2, 8, 4, 1}},
      {"8-nodes-512", {2, 4, 4, 8, 2}},
      {"64-nodes-4096", {16, 4, 4, 8, 2}},
  };
  return shapes;
}

Machine opteron(std::string name) {
  MachineShape shape{4, 2, 1, 8, 1};
  shape.sameSocket = 16;
  shape.otherSocket = 22;
  return regularMachine(std::move(name), shape);
}

Machine manySockets(std::string name) {
  MachineShape shape{24, 1, 1, 8, 2};
  shape.otherSocket = 65;
  return regularMachine(std::move(name), shape);
}

// Two CPUs' nodes and, per GPU, eight nodes that its memory can be split into: one holds all of it, the others nothing.
Machine grace(std::string name) {
  MachineShape shape{2, 1, 1, 72, 1};
  shape.nodeSize = Bytes(480 * kGiB);
  shape.otherSocket = 40;
  for (int node = 2; node < 34; ++node) {
    const bool whole = (node - 2) % 8 == 0;
    shape.memory.push_back({node, MemoryKind::Device, Bytes(whole ? 186 * kGiB : 0), node < 18 ? 0 : 1, 80});
  }
  for (int gpu = 0; gpu < 4; ++gpu) shape.devices.push_back({"gpu" + std::to_string(gpu), DeviceKind::Gpu, gpu / 2});
  return regularMachine(std::move(name), shape);
}

// Siblings together, a cache for each pair of cores, nodes 0 and 8, and the memory of six GPUs as nodes 250 to 255.
Machine power9(std::string name) {
  MachineShape shape{2, 1, 10, 2, 4};
  shape.numbering = CpuNumbering::ThreadsTogether;
  shape.nodeIds = {0, 8};
  shape.nodeSize = Bytes(256 * kGiB);
  shape.otherSocket = 40;
  for (int gpu = 0; gpu < 6; ++gpu) {
    const int node = gpu < 3 ? 0 : 8;
    shape.memory.push_back({255 - gpu, MemoryKind::Device, Bytes(16 * kGiB), node, 80});
    shape.devices.push_back({"gpu" + std::to_string(gpu), DeviceKind::Gpu, node});
  }
  return regularMachine(std::move(name), shape);
}

Machine cxl(std::string name) {
  MachineShape shape{2, 1, 1, 16, 2};
  shape.memory = {{2, MemoryKind::Slow, Bytes(128 * kGiB), 0, 24}, {3, MemoryKind::Slow, Bytes(128 * kGiB), 1, 24}};
  return regularMachine(std::move(name), shape);
}

Machine cxlOfAll(std::string name) {
  MachineShape shape{2, 2, 1, 4, 2};
  shape.memory = {{4, MemoryKind::Slow, Bytes(256 * kGiB), -1, 28}};
  return regularMachine(std::move(name), shape);
}

Machine highBandwidth(std::string name) {
  MachineShape shape{2, 1, 1, 16, 2};
  shape.memory = {{2, MemoryKind::HighBandwidth, Bytes(64 * kGiB), 0, 13}, {3, MemoryKind::HighBandwidth, Bytes(64 * kGiB), 1, 13}};
  return regularMachine(std::move(name), shape);
}

Machine highBandwidthSubNodes(std::string name) {
  MachineShape shape{2, 4, 1, 7, 2};
  for (int node = 0; node < 8; ++node) shape.memory.push_back({8 + node, MemoryKind::HighBandwidth, Bytes(16 * kGiB), node, 13});
  return regularMachine(std::move(name), shape);
}

// Everything at once: DRAM, HBM, CXL and a GPU's memory beside one socket.
Machine allMemories(std::string name) {
  MachineShape shape{1, 2, 2, 4, 2};
  shape.memory = {{2, MemoryKind::HighBandwidth, Bytes(32 * kGiB), 0, 13},
                  {3, MemoryKind::Slow, Bytes(64 * kGiB), 1, 24},
                  {4, MemoryKind::Device, Bytes(80 * kGiB), 0, 14}};
  shape.devices = {{"gpu0", DeviceKind::Gpu, 0}};
  return regularMachine(std::move(name), shape);
}

Machine hybrid(std::string name) {
  MachineShape shape{1, 1, 1, 8, 2};
  shape.numbering = CpuNumbering::ThreadsTogether;
  shape.slowCores = 12;
  return regularMachine(std::move(name), shape);
}

// Six fast cores with two threads and eight slow ones below one cache; two slower ones below none.
Machine hybridThreeKinds(std::string name) {
  MachineShape shape{1, 1, 1, 6, 2};
  shape.numbering = CpuNumbering::ThreadsTogether;
  shape.slowCores = 8;
  std::vector<CpuPlace> places = regularPlaces(shape);
  for (int i = 0; i < 2; ++i) places.push_back({20 + i, 0, 0, -1, 14 + i, 2, MilliCpu(300)});
  return machineWith(std::move(name), places, shape);
}

Machine bigLittle(std::string name) {
  std::vector<CpuPlace> places = regularPlaces({1, 1, 2, 4, 1});
  for (CpuPlace& place : places) {  // the little ones come first
    place.kind = place.id < 4 ? 1 : 0;
    place.capacity = MilliCpu(place.id < 4 ? 435 : 1000);
  }
  return machineFrom(std::move(name), places);
}

Machine sparse(std::string name) {
  MachineShape shape{4, 2, 1, 6, 1};
  shape.nodeIds = {0, 1, 2, 33, 34, 45, 72, 73};
  shape.sameSocket = 16;
  shape.otherSocket = 22;
  return regularMachine(std::move(name), shape);
}

Machine idsAbove1024(std::string name) {
  MachineShape shape{2, 2, 2, 4, 2};
  shape.firstCpu = 2048;
  return regularMachine(std::move(name), shape);
}

Machine offlineZero(std::string name) {
  MachineShape shape{2, 1, 1, 8, 2};
  shape.offline = {0, 5, 16, 21, 22};
  return regularMachine(std::move(name), shape);
}

Machine offlineNode(std::string name) {
  MachineShape shape{2, 2, 1, 8, 2};
  shape.offline = CpuSet::range(8, 15) | CpuSet::range(40, 47);
  return regularMachine(std::move(name), shape);
}

// SMT switched off on one socket and on half of the other.
Machine halfCores(std::string name) {
  MachineShape shape{2, 1, 1, 8, 2};
  shape.offline = CpuSet::range(20, 31);
  return regularMachine(std::move(name), shape);
}

Machine noNodes(std::string name) {
  Machine machine = regularMachine(std::move(name), {1, 1, 1, 8, 1});
  machine.memoryNodes.front().distance.clear();
  return machine;
}

Machine isolated(std::string name) {
  MachineShape shape{2, 1, 1, 8, 2};
  shape.isolated = CpuSet::range(8, 15) | CpuSet::range(24, 31);
  return regularMachine(std::move(name), shape);
}

Machine restricted(std::string name) {
  MachineShape shape{2, 2, 1, 8, 2};
  shape.forbidden = CpuSet::range(0, 3) | CpuSet::range(12, 35) | CpuSet::range(44, 63);
  return regularMachine(std::move(name), shape);
}

// A virtual machine as hypervisors like to show it: every CPU a socket, all on one node.
Machine virtualSockets(std::string name) {
  std::vector<CpuPlace> places = regularPlaces({64, 1, 0, 1, 1});
  for (CpuPlace& place : places) place.node = 0;
  return machineFrom(std::move(name), places);
}

// NUMA switched off: one node over two sockets.
Machine nodeOverSockets(std::string name) {
  std::vector<CpuPlace> places = regularPlaces({2, 1, 2, 4, 2});
  for (CpuPlace& place : places) place.node = 0;
  return machineFrom(std::move(name), places);
}

// Chiplets of which some cores were fused off.
Machine unevenCaches(std::string name) {
  constexpr std::array<int, 4> kCores{8, 6, 6, 2};
  std::vector<CpuPlace> places;
  int core = 0;
  for (int cache = 0; cache < 4; ++cache) {
    for (int i = 0; i < kCores[at(cache)]; ++i, ++core) {
      for (int thread = 0; thread < 2; ++thread) places.push_back({core + 22 * thread, 0, cache / 2, cache, core, 0, MilliCpu(1000)});
    }
  }
  return machineFrom(std::move(name), places);
}

Machine memoryless(std::string name) {
  MachineShape shape{2, 2, 1, 8, 2};
  shape.noMemory = {1, 3};
  return regularMachine(std::move(name), shape);
}

Machine eightGpus(std::string name) {
  MachineShape shape{2, 4, 2, 8, 1};
  shape.sameSocket = 12;
  shape.otherSocket = 32;
  for (int i = 0; i < 8; ++i) {
    shape.devices.push_back({"gpu" + std::to_string(i), DeviceKind::Gpu, i});
    shape.devices.push_back({"mlx5_" + std::to_string(i), DeviceKind::Fabric, i});
  }
  shape.devices.push_back({"nvme0n1", DeviceKind::Storage, 3});
  shape.devices.push_back({"eth0", DeviceKind::Network, -1});
  return regularMachine(std::move(name), shape);
}

struct MadeShape {
  std::string_view name;
  Machine (*make)(std::string name);
};

constexpr std::array kMadeShapes{
    MadeShape{"opteron-4s-8-nodes-64", opteron},
    MadeShape{"uv-24s-384", manySockets},
    MadeShape{"grace-34-nodes-144", grace},
    MadeShape{"power9-gpu-memory-160", power9},
    MadeShape{"cxl-2s-64", cxl},
    MadeShape{"cxl-of-all-32", cxlOfAll},
    MadeShape{"hbm-2s-64", highBandwidth},
    MadeShape{"hbm-2s-snc4-112", highBandwidthSubNodes},
    MadeShape{"all-memories-32", allMemories},
    MadeShape{"hybrid-28", hybrid},
    MadeShape{"hybrid-3-kinds-22", hybridThreeKinds},
    MadeShape{"big-little-8", bigLittle},
    MadeShape{"sparse-nodes-48", sparse},
    MadeShape{"ids-above-1024-64", idsAbove1024},
    MadeShape{"offline-cpu-0-27", offlineZero},
    MadeShape{"offline-node-48", offlineNode},
    MadeShape{"half-cores-20", halfCores},
    MadeShape{"no-nodes-8", noNodes},
    MadeShape{"isolated-32", isolated},
    MadeShape{"restricted-64", restricted},
    MadeShape{"vm-64-sockets", virtualSockets},
    MadeShape{"node-over-sockets-32", nodeOverSockets},
    MadeShape{"uneven-caches-44", unevenCaches},
    MadeShape{"memoryless-nodes-64", memoryless},
    MadeShape{"eight-gpus-128", eightGpus},
};

}  // namespace

const std::vector<std::string_view>& shapeNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all = machineNames();
    for (const CountedShape& one : countedShapes()) all.push_back(one.name);
    for (const MadeShape& one : kMadeShapes) all.push_back(one.name);
    return all;
  }();
  return names;
}

std::optional<Machine> shapeNamed(std::string_view name) {
  const auto& twelve = machineNames();
  if (std::find(twelve.begin(), twelve.end(), name) != twelve.end()) return machineNamed(name);
  for (const CountedShape& one : countedShapes()) {
    if (one.name == name) return regularMachine(std::string(name), one.shape);
  }
  for (const MadeShape& one : kMadeShapes) {
    if (one.name == name) return one.make(std::string(name));
  }
  return std::nullopt;
}

}  // namespace coterie
