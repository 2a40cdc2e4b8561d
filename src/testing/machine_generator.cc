#include "testing/machine_generator.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <utility>

namespace coterie::testing {

namespace {
constexpr std::int64_t kNodeBytes = std::int64_t{16} << 30;
constexpr int kNear = 10;
constexpr int kSameSocket = 12;
constexpr int kFar = 20;

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
    for (const CpuPlace& place : places) domain(DomainLevel::Socket, place.socket, 0);
    for (const CpuPlace& place : places) domain(DomainLevel::Node, place.node, domain(DomainLevel::Socket, place.socket, 0));
    for (const CpuPlace& place : places) {
      if (place.cache >= 0) domain(DomainLevel::Cache, place.cache, nodeOf(place));
    }
    for (const CpuPlace& place : places) domain(DomainLevel::Core, place.core, place.cache >= 0 ? cacheOf(place) : nodeOf(place));
    for (const CpuPlace& place : places) add(place);
  }

  void addMemory(const std::vector<CpuPlace>& places, const std::vector<int>& extra) {
    std::map<int, CpuSet> nodes;
    std::map<int, int> socketOf;
    for (const CpuPlace& place : places) nodes[place.node].add(place.id), socketOf[place.node] = place.socket;
    for (const int id : extra) nodes[id], socketOf[id] = -1;
    for (const auto& [id, cpus] : nodes) {
      MemoryNode node;
      node.id = id;
      node.size = Bytes(kNodeBytes);
      node.cpus = cpus;
      for (const auto& [other, theirs] : nodes) {
        const bool near = socketOf[id] >= 0 && socketOf[id] == socketOf[other];
        node.distance.push_back(other == id ? kNear : near ? kSameSocket : kFar);
      }
      machine_.memory += node.size;
      machine_.memoryNodes.push_back(std::move(node));
    }
  }

  Machine take() {
    machine_.allowed = machine_.online;
    return std::move(machine_);
  }

 private:
  int domain(DomainLevel level, int id, int parent) {
    const auto [found, fresh] = indices_.try_emplace({level, id}, static_cast<int>(machine_.domains.size()));
    if (fresh) machine_.domains.push_back({level, parent, id, {}});
    return found->second;
  }
  int nodeOf(const CpuPlace& place) { return domain(DomainLevel::Node, place.node, 0); }
  int cacheOf(const CpuPlace& place) { return domain(DomainLevel::Cache, place.cache, 0); }

  void add(const CpuPlace& place) {
    Cpu cpu;
    cpu.id = place.id;
    cpu.socket = domain(DomainLevel::Socket, place.socket, 0);
    cpu.node = nodeOf(place);
    cpu.cache = place.cache >= 0 ? cacheOf(place) : cpu.node;
    cpu.core = domain(DomainLevel::Core, place.core, 0);
    cpu.kind = place.kind;
    cpu.capacity = place.capacity;
    for (int index = cpu.core; index >= 0; index = machine_.domains[at(index)].parent) machine_.domains[at(index)].cpus.add(place.id);
    machine_.online.add(place.id);
    machine_.cpus.push_back(cpu);
  }

  Machine machine_;
  std::map<std::pair<DomainLevel, int>, int> indices_;
};

std::vector<CpuPlace> regularPlaces(const MachineShape& shape) {
  const int caches = std::max(1, shape.cachesPerNode);
  const int cores = shape.sockets * shape.nodesPerSocket * caches * shape.coresPerCache;
  std::vector<CpuPlace> places;
  for (int thread = 0; thread < shape.threadsPerCore; ++thread) {
    for (int core = 0; core < cores; ++core) {
      CpuPlace place;
      place.id = thread * cores + core;
      place.core = core;
      const int cache = core / shape.coresPerCache;
      place.cache = shape.cachesPerNode > 0 ? cache : -1;
      place.node = cache / caches;
      place.socket = place.node / shape.nodesPerSocket;
      places.push_back(place);
    }
  }
  return places;
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

Machine machineFrom(std::string name, const std::vector<CpuPlace>& places, const std::vector<int>& extraMemory) {
  Builder builder(std::move(name));
  builder.addAll(places);
  builder.addMemory(places, extraMemory);
  return builder.take();
}

Machine regularMachine(std::string name, const MachineShape& shape) { return machineFrom(std::move(name), regularPlaces(shape)); }

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
  result.isolated = machine.isolated;
  result.memory = machine.memory;
  result.memoryNodes = machine.memoryNodes;
  for (MemoryNode& node : result.memoryNodes) node.cpus &= result.online;
  return result;
}

}  // namespace coterie::testing
