#include "linux/machine_reader.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "linux/files.h"

namespace coterie::linux {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

CpuSet toSet(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  for (int id = hwloc_bitmap_first(bitmap); id >= 0 && id < CpuSet::kMaxId; id = hwloc_bitmap_next(bitmap, id)) set.add(id);
  return set;
}

Result<Topology> load(const MachineReading& reading) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{Code::Internal, "MachineUnreadable", "hwloc cannot start: " + std::string(std::strerror(errno))};
  Topology topology(raw);
  int set = 0;
  if (reading.origin == MachineOrigin::Xml) set = hwloc_topology_set_xml(raw, reading.text.c_str());
  if (reading.origin == MachineOrigin::Synthetic) set = hwloc_topology_set_synthetic(raw, reading.text.c_str());
  if (set != 0) return Error{Code::NotFound, "MachineUnreadable", "\"" + reading.text + "\" is no readable machine description"};
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (hwloc_topology_load(raw) != 0) {
    return Error{Code::NotFound, "MachineUnreadable", "hwloc cannot read the machine" + (reading.text.empty() ? "" : " \"" + reading.text + "\"")};
  }
  if (reading.origin == MachineOrigin::Live && hwloc_topology_is_thissystem(raw) == 0) {
    return Error{Code::InvalidArgument, "NotThisMachine", "an HWLOC_ variable in the environment describes another machine: unset it"};
  }
  return topology;
}

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

int nodeOf(hwloc_obj_t pu) {
  for (hwloc_obj_t up = pu; up != nullptr; up = up->parent) {
    int lowest = -1;
    for (hwloc_obj_t child = up->memory_first_child; child != nullptr; child = child->next_sibling) {
      hwloc_obj_t node = child;
      while (node != nullptr && node->type != HWLOC_OBJ_NUMANODE) node = node->memory_first_child;  // below a memory-side cache
      if (node != nullptr && (lowest < 0 || static_cast<int>(node->os_index) < lowest)) lowest = static_cast<int>(node->os_index);
    }
    if (lowest >= 0) return lowest;
  }
  return 0;
}

std::vector<Place> placesOf(hwloc_topology_t topology) {
  std::vector<Place> places;
  for (hwloc_obj_t pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, nullptr); pu != nullptr;
       pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu)) {
    Place place;
    place.cpu = static_cast<int>(pu->os_index);
    if (hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, pu)) place.socket = static_cast<int>(socket->os_index);
    place.node = nodeOf(pu);
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

void fillMemory(hwloc_topology_t topology, Machine& machine) {
  for (hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, nullptr); node != nullptr;
       node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) {
    machine.memoryNodes.push_back({static_cast<int>(node->os_index),
                                   Bytes(static_cast<std::int64_t>(node->attr->numanode.local_memory)),
                                   toSet(node->cpuset) & machine.online,
                                   {}});
  }
  std::sort(machine.memoryNodes.begin(), machine.memoryNodes.end(), [](const MemoryNode& a, const MemoryNode& b) { return a.id < b.id; });
  machine.memory = Bytes(static_cast<std::int64_t>(hwloc_get_root_obj(topology)->total_memory));

  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  const unsigned long kind = HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &distances, kind, 0) != 0 || count == 0) return;
  std::map<int, unsigned> row;
  for (unsigned i = 0; i < distances->nbobjs; ++i) {
    if (distances->objs[i] != nullptr) row[static_cast<int>(distances->objs[i]->os_index)] = i;
  }
  const bool complete =
      std::all_of(machine.memoryNodes.begin(), machine.memoryNodes.end(), [&](const MemoryNode& node) { return row.count(node.id) > 0; });
  for (MemoryNode& from : machine.memoryNodes) {
    for (const MemoryNode& to : machine.memoryNodes) {
      if (complete) from.distance.push_back(static_cast<int>(distances->values[row[from.id] * distances->nbobjs + row[to.id]]));
    }
  }
  hwloc_distances_release(topology, distances);
}

std::string nameOf(hwloc_topology_t topology, const MachineReading& reading) {
  hwloc_obj_t socket = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  for (hwloc_obj_t object : {socket, hwloc_get_root_obj(topology)}) {
    const char* model = object != nullptr ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (model != nullptr) return model;
  }
  return reading.text.empty() ? "unknown CPU" : reading.text;
}

}  // namespace

Result<Machine> readMachine(const MachineReading& reading) {
  Result<Topology> loaded = load(reading);
  if (!loaded) return loaded.error();
  hwloc_topology_t topology = loaded->get();
  Machine machine;
  machine.name = nameOf(topology, reading);
  machine.online = toSet(hwloc_topology_get_topology_cpuset(topology));
  machine.allowed = toSet(hwloc_topology_get_allowed_cpuset(topology)) & machine.online;
  if (machine.online.empty()) return Error{Code::Internal, "MachineUnreadable", "hwloc reports no online CPU"};
  buildTree(placesOf(topology), machine);
  fillKinds(topology, machine);
  fillMemory(topology, machine);
  const bool hasFiles = reading.origin == MachineOrigin::Live || !reading.sysRoot.empty();
  if (const auto list = hasFiles ? readText(reading.sysRoot + "/sys/devices/system/cpu/isolated") : std::nullopt) {
    if (const auto isolated = CpuSet::parse(*list)) machine.isolated = *isolated & machine.online;
  }
  if (reading.origin == MachineOrigin::Live) {
    if (const auto own = affinityOf(0)) machine.allowed &= *own;
  }
  return machine;
}

}  // namespace coterie::linux
