#include "linux/machine_reader.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "linux/hwloc_topology.h"
#include "linux/hwloc_xml.h"
#include "linux/machine_devices.h"

namespace coterie::linux {
namespace {

// Where one CPU sits, as hwloc sees it; -1: no such level.
struct Place {
  int cpu{0};
  int socket{0};  // kernel's id
  int node{0};    // kernel's id
  int cache{-1};  // logical index of the L3 (or shared L2)
  int cacheId{0};
  int core{0};  // logical index
  int coreId{0};
};

hwloc_obj_t clusterCache(hwloc_topology_t topology, hwloc_obj_t pu) {
  if (hwloc_obj_t l3 = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L3CACHE, pu)) return l3;
  hwloc_obj_t l2 = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_L2CACHE, pu);
  hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
  const bool shared = l2 != nullptr && core != nullptr && hwloc_bitmap_weight(l2->cpuset) > hwloc_bitmap_weight(core->cpuset);
  return shared ? l2 : nullptr;
}

std::vector<Place> placesOf(hwloc_topology_t topology, const KernelFacts& facts) {
  std::vector<Place> places;
  for (hwloc_obj_t pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, nullptr); pu != nullptr;
       pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) {
    Place place;
    place.cpu = static_cast<int>(pu->os_index);
    if (hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, pu)) place.socket = static_cast<int>(socket->os_index);
    place.node = homeNode(pu, facts);
    if (hwloc_obj_t cache = clusterCache(topology, pu)) {
      place.cache = static_cast<int>(cache->logical_index) * 2 + (cache->type == HWLOC_OBJ_L3CACHE ? 0 : 1);  // L2 and L3 never mix up
      place.cacheId = static_cast<int>(cache->logical_index);
    }
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, pu);
    place.core = core != nullptr ? static_cast<int>(core->logical_index) * 2 : place.cpu * 2 + 1;  // a machine without cores: each CPU is one
    place.coreId = core != nullptr ? static_cast<int>(core->os_index) : place.cpu;
    places.push_back(place);
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.cpu < b.cpu; });
  return places;
}

// Builds the domains level by level, so that parents come first. A domain is found by its parent and its key below it.
class TreeBuilder {
 public:
  explicit TreeBuilder(Machine& machine) : machine_(machine) { machine_.domains.push_back(Domain{DomainLevel::Machine, -1, 0, machine_.online}); }
  int at(DomainLevel level, int parent, int key, int id, int cpu) {
    const auto [found, fresh] = known_.try_emplace({level, parent, key}, static_cast<int>(machine_.domains.size()));
    if (fresh) machine_.domains.push_back(Domain{level, parent, id, {}});
    machine_.domains[static_cast<std::size_t>(found->second)].cpus.add(cpu);
    return found->second;
  }

 private:
  Machine& machine_;
  std::map<std::tuple<DomainLevel, int, int>, int> known_;
};

void buildTree(const std::vector<Place>& places, Machine& machine) {
  TreeBuilder tree(machine);
  for (const Place& place : places) {
    Cpu cpu;
    cpu.id = place.cpu;
    cpu.socket = tree.at(DomainLevel::Socket, 0, place.socket, place.socket, place.cpu);
    machine.cpus.push_back(cpu);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    Cpu& cpu = machine.cpus[i];
    cpu.node = tree.at(DomainLevel::Node, cpu.socket, places[i].node, places[i].node, cpu.id);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    Cpu& cpu = machine.cpus[i];
    cpu.cache = places[i].cache < 0 ? cpu.node : tree.at(DomainLevel::Cache, cpu.node, places[i].cache, places[i].cacheId, cpu.id);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    Cpu& cpu = machine.cpus[i];
    cpu.core = tree.at(DomainLevel::Core, cpu.cache, places[i].core, places[i].coreId, cpu.id);
  }
}

std::int64_t infoNumber(const hwloc_info_s* infos, unsigned count, const char* name) {
  for (unsigned i = 0; i < count; ++i) {
    if (std::strcmp(infos[i].name, name) == 0) return std::strtoll(infos[i].value, nullptr, 10);
  }
  return 0;
}

struct Kind {
  CpuSet cpus;
  int efficiency{0};
  std::int64_t capacity{0};
  std::int64_t frequency{0};
};

// Kinds, fastest first; empty where the cores do not differ or nobody knows how.
std::vector<Kind> kindsOf(hwloc_topology_t topology) {
  std::vector<Kind> kinds;
  const int count = std::max(0, hwloc_cpukinds_get_nr(topology, 0));
  for (int i = 0; i < count; ++i) {
    Kind kind;
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    unsigned infoCount = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(i), cpus, &kind.efficiency, &infoCount, &infos, 0) == 0) {
      kind.cpus = toSet(cpus);
      kind.capacity = infoNumber(infos, infoCount, "LinuxCapacity");
      kind.frequency = infoNumber(infos, infoCount, "FrequencyMaxMHz");
      if (kind.efficiency >= 0) kinds.push_back(kind);
    }
    hwloc_bitmap_free(cpus);
  }
  if (kinds.size() < 2) return {};
  std::sort(kinds.begin(), kinds.end(),
            [](const Kind& a, const Kind& b) { return std::pair(-a.efficiency, a.cpus.first()) < std::pair(-b.efficiency, b.cpus.first()); });
  return kinds;
}

// Thousandths of the fastest kind's speed; 1000 where nothing says by how much they differ.
std::int64_t permilleOf(const Kind& kind, const Kind& fastest) {
  if (kind.capacity > 0 && fastest.capacity > 0) return std::clamp<std::int64_t>(kind.capacity * 1000 / fastest.capacity, 1, 1000);
  if (kind.frequency > 0 && fastest.frequency > 0) return std::clamp<std::int64_t>(kind.frequency * 1000 / fastest.frequency, 1, 1000);
  return 1000;
}

void fillKinds(hwloc_topology_t topology, Machine& machine) {
  const std::vector<Kind> kinds = kindsOf(topology);
  int index = 0;
  std::int64_t previous = 1000;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::int64_t permille = permilleOf(kinds[i], kinds.front());
    const bool knownSpeed = kinds[i].capacity > 0 || kinds[i].frequency > 0;
    if (i > 0 && (!knownSpeed || permille * 100 < previous * 95)) {
      ++index;
      previous = permille;
    }
    for (Cpu& cpu : machine.cpus) {
      if (!kinds[i].cpus.contains(cpu.id)) continue;
      cpu.kind = index;
      cpu.capacity = MilliCpu(previous);
    }
  }
}

// "Intel(R) ..." as the sockets say; else what was read.
std::string nameOf(hwloc_topology_t topology, const MachineReading& reading) {
  for (hwloc_obj_t object : {hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr), hwloc_get_root_obj(topology)}) {
    if (std::string model = infoOf(object, "CPUModel"); !model.empty()) return model;
  }
  if (reading.text.empty()) return "unknown CPU";
  return reading.origin == MachineOrigin::Synthetic ? reading.text : std::filesystem::path(reading.text).filename().string();
}

}  // namespace

Result<Machine> readMachine(const MachineReading& reading) {
  const Result<Topology> loaded = loadTopology(reading);
  if (!loaded) return loaded.error();
  hwloc_topology_t topology = loaded->get();
  const KernelFacts facts = factsOf(reading, topology);
  Machine machine;
  machine.name = nameOf(topology, reading);
  machine.online = toSet(hwloc_topology_get_topology_cpuset(topology));
  machine.present = facts.present | machine.online;
  machine.allowed = toSet(hwloc_topology_get_allowed_cpuset(topology)) & machine.online;
  if (facts.allowed) machine.allowed &= *facts.allowed;
  machine.isolated = facts.isolated & machine.online;
  if (machine.online.empty()) return Error{Code::Internal, "MachineUnreadable", "hwloc reports no online CPU"};
  const std::vector<Place> places = placesOf(topology, facts);
  CpuSet placed;
  for (const Place& place : places) {
    if (place.cpu < 0 || place.cpu >= CpuSet::kMaxId || placed.contains(place.cpu) || !machine.online.contains(place.cpu))
      return Error{Code::InvalidArgument, "MachineUnreadable",
                   nameOf(topology, reading) + ": CPU " + std::to_string(place.cpu) + " is there twice, or in no set of CPUs online"};
    placed.add(place.cpu);
  }
  buildTree(places, machine);
  fillKinds(topology, machine);
  std::vector<int> homes;
  for (const Place& place : places) homes.push_back(place.node);
  fillMemory(topology, facts, homes, machine);
  machine.devices = devicesOf(topology, machine);
  return machine;
}

Result<std::string> recordMachine(const MachineReading& reading) {
  const Result<Topology> loaded = loadTopology(reading);
  if (!loaded) return loaded.error();
  hwloc_topology_t topology = loaded->get();
  KernelFacts facts = factsOf(reading, topology);
  const CpuSet allowed = toSet(hwloc_topology_get_allowed_cpuset(topology));
  facts.allowed = facts.allowed ? *facts.allowed & allowed : allowed;
  addFacts(topology, facts);
  char* text = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) != 0) return Error{Code::Internal, "MachineUnreadable", "hwloc cannot write XML"};
  const std::string xml(text, static_cast<std::size_t>(std::max(0, length - 1)));  // the length counts the terminating zero
  hwloc_free_xmlbuffer(topology, text);
  return withoutIdentity(xml);
}

}  // namespace coterie::linux
