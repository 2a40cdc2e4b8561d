#include "model/machine_generator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

namespace coterie {

namespace {
constexpr int kNear = 10;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Builder {
 public:
  explicit Builder(std::string name) {
    machine_.name = std::move(name);
    machine_.domains.push_back({DomainLevel::Machine, -1, 0, {}});
  }

  void addAll(std::vector<CpuPlace> places) {
    std::sort(places.begin(), places.end(), [](const CpuPlace& a, const CpuPlace& b) { return a.id < b.id; });
    // Level by level, so that parents come first.
    for (const CpuPlace& place : places) socketOf(place);
    for (const CpuPlace& place : places) nodeOf(place);
    for (const CpuPlace& place : places) cacheOf(place);
    for (const CpuPlace& place : places) coreOf(place);
    for (const CpuPlace& place : places) add(place);
  }

  void addMemory(const std::vector<CpuPlace>& places, const MachineShape& shape) {
    std::map<int, MemoryNode> nodes;
    std::map<int, int> sockets;
    for (const CpuPlace& place : places) {
      MemoryNode& node = nodes[place.node];
      node.size = shape.nodeSize;
      node.cpus.add(place.id);
      sockets[place.node] = place.socket;
    }
    for (const int id : shape.noMemory) nodes[id].size = Bytes(0);
    for (const ExtraMemory& extra : shape.memory) {
      MemoryNode& node = nodes[extra.id];
      node.size = extra.size;
      node.kind = extra.kind;
      if (extra.beside >= 0) node.near = nodes[extra.beside].cpus;
    }
    for (auto& [id, node] : nodes) {
      node.id = id;
      for (const auto& [other, unused] : nodes) node.distance.push_back(distance(id, other, sockets, shape));
      if (node.kind != MemoryKind::Device) machine_.memory += node.size;
      machine_.memoryNodes.push_back(node);
    }
  }

  void addDevices(const std::vector<DevicePlace>& devices) {
    for (const DevicePlace& place : devices) {
      Device device{place.name, place.kind, {}, place.node};
      for (const MemoryNode& node : machine_.memoryNodes) {
        if (node.id == place.node) device.cpus = node.cpus;
      }
      machine_.devices.push_back(std::move(device));
    }
    std::sort(machine_.devices.begin(), machine_.devices.end(), [](const Device& a, const Device& b) { return a.name < b.name; });
  }

  Machine take() {
    machine_.present = machine_.allowed = machine_.online;
    return std::move(machine_);
  }

 private:
  static int distance(int from, int to, const std::map<int, int>& sockets, const MachineShape& shape) {
    if (from == to) return kNear;
    const auto extraOf = [&](int id) {
      const auto found = std::find_if(shape.memory.begin(), shape.memory.end(), [&](const ExtraMemory& extra) { return extra.id == id; });
      return found == shape.memory.end() ? nullptr : &*found;
    };
    // A memory-only node: to the node it hangs on, and on from there.
    int way = 0;
    for (int* end : {&from, &to}) {
      const ExtraMemory* extra = extraOf(*end);
      if (extra == nullptr) continue;
      if (extra->beside < 0) return std::max(extra->distance, kNear);
      way += extra->distance - kNear;
      *end = extra->beside;
    }
    if (from == to) return kNear + way;
    const auto one = sockets.find(from);
    const auto two = sockets.find(to);
    const bool same = one != sockets.end() && two != sockets.end() && one->second == two->second;
    return (same ? shape.sameSocket : shape.otherSocket) + way;
  }

  int domain(DomainLevel level, int parent, int id) {
    const auto [found, fresh] = indices_.try_emplace({level, parent, id}, static_cast<int>(machine_.domains.size()));
    if (fresh) machine_.domains.push_back({level, parent, id, {}});
    return found->second;
  }
  int socketOf(const CpuPlace& place) { return domain(DomainLevel::Socket, 0, place.socket); }
  int nodeOf(const CpuPlace& place) { return domain(DomainLevel::Node, socketOf(place), place.node); }
  int cacheOf(const CpuPlace& place) { return place.cache < 0 ? nodeOf(place) : domain(DomainLevel::Cache, nodeOf(place), place.cache); }
  int coreOf(const CpuPlace& place) { return domain(DomainLevel::Core, cacheOf(place), place.core); }

  void add(const CpuPlace& place) {
    Cpu cpu;
    cpu.id = place.id;
    cpu.socket = socketOf(place);
    cpu.node = nodeOf(place);
    cpu.cache = cacheOf(place);
    cpu.core = coreOf(place);
    cpu.kind = place.kind;
    cpu.capacity = place.capacity;
    for (int index = cpu.core; index >= 0; index = machine_.domains[at(index)].parent) machine_.domains[at(index)].cpus.add(place.id);
    machine_.online.add(place.id);
    machine_.cpus.push_back(cpu);
  }

  Machine machine_;
  std::map<std::tuple<DomainLevel, int, int>, int> indices_;
};

void addSlowCores(const MachineShape& shape, int fastCores, std::vector<CpuPlace>& places) {
  const int caches = std::max(1, shape.cachesPerNode);
  int id = shape.firstCpu + fastCores * shape.threadsPerCore;
  int core = fastCores;
  for (int socket = 0; socket < shape.sockets; ++socket) {
    const int node = (socket + 1) * shape.nodesPerSocket - 1;
    for (int i = 0; i < shape.slowCores; ++i) {
      CpuPlace place;
      place.id = id++;
      place.socket = socket;
      place.node = node;
      place.cache = shape.cachesPerNode > 0 ? (node + 1) * caches - 1 : -1;
      place.core = core++;
      place.kind = 1;
      place.capacity = MilliCpu(500);
      places.push_back(place);
    }
  }
}

Machine performanceAndEfficiency() {
  std::vector<CpuPlace> places = regularPlaces({1, 1, 2, 4, 1});
  for (CpuPlace& place : places) {
    if (place.id < 4) continue;
    place.kind = 1;
    place.capacity = MilliCpu(500);
  }
  return machineFrom("performance-efficiency", places);
}

Machine sparseNodes() {
  constexpr std::array<int, 8> kIds{0, 1, 2, 33, 34, 45, 72, 73};
  std::vector<CpuPlace> places = regularPlaces({2, 4, 0, 2, 1});
  for (CpuPlace& place : places) place.node = kIds[at(place.node)];
  return machineFrom("sparse-nodes", places);
}

Machine highIds() {
  std::vector<CpuPlace> places = regularPlaces({2, 1, 0, 3, 2});
  for (CpuPlace& place : places) place.id += 1020;
  return machineFrom("high-ids", places);
}

Machine manyNodes() {
  std::vector<int> extra;
  for (int node = 2; node < 34; ++node) extra.push_back(node);
  return machineFrom("34-nodes", regularPlaces({2, 1, 0, 6, 1}), extra);
}

Machine offline() {
  const Machine whole = regularMachine("offline", {2, 1, 0, 3, 2});
  const CpuSet online = whole.online - CpuSet{0, 4, 7};
  return withOnline(whole, online, online);
}
}  // namespace

std::vector<CpuPlace> regularPlaces(const MachineShape& shape) {
  const int caches = std::max(1, shape.cachesPerNode);
  const int cores = shape.sockets * shape.nodesPerSocket * caches * shape.coresPerCache;
  std::vector<CpuPlace> places;
  for (int thread = 0; thread < shape.threadsPerCore; ++thread) {
    for (int core = 0; core < cores; ++core) {
      CpuPlace place;
      place.id = shape.firstCpu + (shape.numbering == CpuNumbering::ThreadsApart ? thread * cores + core : core * shape.threadsPerCore + thread);
      place.core = core;
      const int cache = core / shape.coresPerCache;
      place.cache = shape.cachesPerNode > 0 ? cache : -1;
      place.node = cache / caches;
      place.socket = place.node / shape.nodesPerSocket;
      places.push_back(place);
    }
  }
  addSlowCores(shape, cores, places);
  for (CpuPlace& place : places) {
    if (!shape.nodeIds.empty()) place.node = shape.nodeIds[at(place.node)];
  }
  return places;
}

Machine machineFrom(std::string name, const std::vector<CpuPlace>& places, const std::vector<int>& extraMemory) {
  MachineShape shape;
  for (const int id : extraMemory) shape.memory.push_back({id});
  return machineWith(std::move(name), places, shape);
}

Machine machineWith(std::string name, const std::vector<CpuPlace>& places, const MachineShape& shape) {
  Builder builder(std::move(name));
  builder.addAll(places);
  builder.addMemory(places, shape);
  builder.addDevices(shape.devices);
  Machine machine = builder.take();
  machine.isolated = shape.isolated;
  if (shape.offline.empty() && shape.forbidden.empty()) return machine;
  const CpuSet online = machine.online - shape.offline;
  return withOnline(machine, online, online - shape.forbidden);
}

Machine regularMachine(std::string name, const MachineShape& shape) { return machineWith(std::move(name), regularPlaces(shape), shape); }

Machine bigMachine(int cpus) {
  const std::string name = "big-" + std::to_string(cpus);
  switch (cpus) {
    case 8: return regularMachine(name, {1, 1, 1, 4, 2});
    case 64: return regularMachine(name, {1, 2, 2, 8, 2});
    case 128: return regularMachine(name, {2, 2, 2, 8, 2});
    case 256: return regularMachine(name, {2, 4, 2, 8, 2});
    case 512: return regularMachine(name, {2, 4, 4, 8, 2});
    default: std::abort();
  }
}

const std::vector<std::string_view>& machineNames() {
  static const std::vector<std::string_view> names{
      "flat-2",   "smt-8", "2x2-nodes", "8-nodes-caches", "performance-efficiency", "memory-only", "sparse-nodes",
      "high-ids", "1-cpu", "34-nodes",  "offline",        "4-sockets-2-nodes"};
  return names;
}

Machine machineNamed(std::string_view name) {
  if (name == "flat-2") return regularMachine("flat-2", {1, 1, 0, 2, 1});
  if (name == "smt-8") return regularMachine("smt-8", {1, 1, 1, 4, 2});
  if (name == "2x2-nodes") return regularMachine("2x2-nodes", {2, 2, 0, 2, 2});
  if (name == "8-nodes-caches") return regularMachine("8-nodes-caches", {2, 4, 2, 2, 1});
  if (name == "performance-efficiency") return performanceAndEfficiency();
  if (name == "memory-only") return machineFrom("memory-only", regularPlaces({2, 1, 0, 4, 1}), {4, 250});
  if (name == "sparse-nodes") return sparseNodes();
  if (name == "high-ids") return highIds();
  if (name == "1-cpu") return regularMachine("1-cpu", {1, 1, 0, 1, 1});
  if (name == "34-nodes") return manyNodes();
  if (name == "offline") return offline();
  if (name == "4-sockets-2-nodes") return regularMachine("4-sockets-2-nodes", {4, 2, 1, 2, 1});
  std::abort();
}

Machine withOnline(const Machine& machine, const CpuSet& online, const CpuSet& allowed) {
  std::vector<CpuPlace> places;
  for (const Cpu& cpu : machine.cpus) {
    if (!online.contains(cpu.id)) continue;
    const auto idOf = [&](int domain) { return machine.domains[at(domain)].id; };
    const bool caches = machine.domains[at(cpu.cache)].level == DomainLevel::Cache;
    places.push_back({cpu.id, idOf(cpu.socket), idOf(cpu.node), caches ? idOf(cpu.cache) : -1, idOf(cpu.core), cpu.kind, cpu.capacity});
  }
  Builder builder(machine.name);
  builder.addAll(places);
  Machine result = builder.take();
  result.allowed = allowed & result.online;
  result.present = machine.present | machine.online;
  result.isolated = machine.isolated & result.online;
  result.memory = machine.memory;
  result.memoryNodes = machine.memoryNodes;
  for (MemoryNode& node : result.memoryNodes) {
    node.cpus &= result.online;
    node.near &= result.online;
  }
  result.devices = machine.devices;
  for (Device& device : result.devices) device.cpus &= result.online;
  return result;
}

}  // namespace coterie
