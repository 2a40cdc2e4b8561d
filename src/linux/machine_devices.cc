#include "linux/machine_devices.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace coterie::linux {
namespace {

// ---- memory ----

std::optional<MemoryKind> namedKind(hwloc_obj_t node) {
  const std::string_view subtype = node->subtype != nullptr ? node->subtype : "";
  const auto says = [&](std::string_view word) { return subtype.find(word) != std::string_view::npos; };
  if (says("GPUMemory")) return MemoryKind::Device;
  if (says("CXL") || says("NVM") || says("NVDIMM")) return MemoryKind::Slow;
  if (says("HBM") || says("MCDRAM")) return MemoryKind::HighBandwidth;
  if (says("DRAM")) return MemoryKind::Dram;
  return std::nullopt;
}

int idOf(hwloc_obj_t object) { return static_cast<int>(object->os_index); }

// How far a node is from being the home of the CPUs below an object; less is nearer.
int strangeness(hwloc_obj_t node, const KernelFacts& facts) {
  if (facts.nodesWithCpus) return facts.nodesWithCpus->contains(idOf(node)) ? 0 : 1;
  const auto kind = namedKind(node);
  return !kind || *kind == MemoryKind::Dram ? 0 : 1;
}

// The nodes attached to an object itself, memory-side caches seen through.
std::vector<hwloc_obj_t> nodesAt(hwloc_obj_t object) {
  std::vector<hwloc_obj_t> nodes;
  std::vector<hwloc_obj_t> open;
  for (hwloc_obj_t child = object->memory_first_child; child != nullptr; child = child->next_sibling) open.push_back(child);
  while (!open.empty()) {
    hwloc_obj_t one = open.back();
    open.pop_back();
    if (one->type == HWLOC_OBJ_NUMANODE) nodes.push_back(one);
    for (hwloc_obj_t child = one->memory_first_child; child != nullptr; child = child->next_sibling) open.push_back(child);
  }
  return nodes;
}

// Bytes per second that the CPUs near a node get from it; 0: unknown.
hwloc_uint64_t bandwidthOf(hwloc_topology_t topology, hwloc_obj_t node) {
  hwloc_uint64_t best = 0;
  hwloc_location who{};
  return hwloc_memattr_get_best_initiator(topology, HWLOC_MEMATTR_ID_BANDWIDTH, node, 0, &who, &best) == 0 ? best : 0;
}

// What is the same for all nodes when their kinds are told.
struct KindQuestion {
  hwloc_topology_t topology;
  const KernelFacts& facts;
  CpuSet standIns;  // ids of the nearest nodes of CPUs that have no memory of their own: it is ordinary memory, whatever node it was put into
  hwloc_uint64_t ordinary{};  // bandwidth of nodes with CPUs; 0: unknown
};

CpuSet standInsOf(const Machine& machine, const KernelFacts& facts) {
  const auto usable = [&](const MemoryNode& node) {
    return node.size.value > 0 && !(facts.initiatorNodes && facts.initiatorNodes->contains(node.id));
  };
  CpuSet found;
  for (std::size_t from = 0; from < machine.memoryNodes.size(); ++from) {
    const MemoryNode& node = machine.memoryNodes[from];
    if (node.cpus.empty() || node.size.value > 0 || node.distance.empty()) continue;
    const MemoryNode* nearest = nullptr;
    int least = 0;
    for (std::size_t to = 0; to < machine.memoryNodes.size(); ++to) {
      if (!usable(machine.memoryNodes[to]) || (nearest != nullptr && node.distance[to] >= least)) continue;
      nearest = &machine.memoryNodes[to];
      least = node.distance[to];
    }
    if (nearest != nullptr) found.add(nearest->id);
  }
  return found;
}

MemoryKind kindOf(const KindQuestion& question, hwloc_obj_t node, const MemoryNode& made) {
  const auto& [topology, facts, standIns, ordinary] = question;
  if (const auto kind = namedKind(node)) return *kind;
  if (!made.cpus.empty()) return MemoryKind::Dram;
  if (facts.initiatorNodes && facts.initiatorNodes->contains(made.id)) return MemoryKind::Device;
  const hwloc_obj_t socket = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  const bool power = infoOf(hwloc_get_root_obj(topology), "Architecture").starts_with("ppc64") || infoOf(socket, "CPUModel").starts_with("POWER9");
  if (power && made.id >= 240 && made.id <= 255) return MemoryKind::Device;
  if (standIns.contains(made.id)) return MemoryKind::Dram;
  const hwloc_uint64_t own = bandwidthOf(topology, node);
  return own > ordinary && ordinary > 0 ? MemoryKind::HighBandwidth : MemoryKind::Slow;
}

void fillDistances(hwloc_topology_t topology, Machine& machine) {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  const unsigned long kind = HWLOC_DISTANCES_KIND_FROM_OS | HWLOC_DISTANCES_KIND_MEANS_LATENCY;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &distances, kind, 0) != 0 || count == 0) return;
  std::map<int, unsigned> row;
  for (unsigned i = 0; i < distances->nbobjs; ++i) {
    if (distances->objs[i] != nullptr) row[idOf(distances->objs[i])] = i;
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

// ---- devices ----

std::optional<DeviceKind> kindOfClass(unsigned pciClass) {
  constexpr unsigned kInfiniband = 0x0c06;
  constexpr unsigned kFabricController = 0x0207;
  constexpr unsigned kProcessor = 0x0b40;
  if (pciClass == kInfiniband || pciClass == kFabricController) return DeviceKind::Fabric;
  if (pciClass == kProcessor) return DeviceKind::Coprocessor;
  switch (pciClass >> 8U) {
    case 0x01: return DeviceKind::Storage;
    case 0x02: return DeviceKind::Network;
    case 0x03: return DeviceKind::Gpu;
    case 0x12: return DeviceKind::Coprocessor;
    default: return std::nullopt;
  }
}

std::optional<DeviceKind> kindOfDevice(hwloc_obj_t device) {
  switch (device->attr->osdev.type) {
    case HWLOC_OBJ_OSDEV_BLOCK: return DeviceKind::Storage;
    case HWLOC_OBJ_OSDEV_GPU: return DeviceKind::Gpu;
    case HWLOC_OBJ_OSDEV_NETWORK: return DeviceKind::Network;
    case HWLOC_OBJ_OSDEV_OPENFABRICS: return DeviceKind::Fabric;
    case HWLOC_OBJ_OSDEV_COPROC: return DeviceKind::Coprocessor;
    default: return std::nullopt;
  }
}

std::string addressOf(hwloc_obj_t device) {
  const auto& pci = device->attr->pcidev;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), static_cast<unsigned>(pci.bus),
                static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
  return text.data();
}

void place(hwloc_topology_t topology, hwloc_obj_t object, const Machine& machine, Device& device) {
  const hwloc_obj_t parent = hwloc_get_non_io_ancestor_obj(topology, object);
  if (parent == nullptr) return;
  device.cpus = toSet(parent->cpuset) & machine.online;
  int nodes = 0;
  int all = 0;
  for (const MemoryNode& node : machine.memoryNodes) {
    if (node.cpus.empty()) continue;
    ++all;
    if (!node.cpus.intersects(device.cpus)) continue;
    ++nodes;
    device.node = node.id;
  }
  if (nodes != 1) device.node = -1;
  if (device.cpus == machine.online && all > 1) device.cpus.clear();  // near to all of it: the kernel does not know
}

}  // namespace

int homeNode(hwloc_obj_t pu, const KernelFacts& facts) {
  std::pair<int, int> chosen{2, 0};  // strangeness, id
  for (hwloc_obj_t up = pu; up != nullptr && chosen.first > 0; up = up->parent) {
    std::pair<int, int> here{2, 0};
    for (hwloc_obj_t node : nodesAt(up)) here = std::min(here, std::pair(strangeness(node, facts), idOf(node)));
    if (here.first < chosen.first) chosen = here;
  }
  return chosen.second;
}

void fillMemory(hwloc_topology_t topology, const KernelFacts& facts, const std::vector<int>& homes, Machine& machine) {
  std::map<int, CpuSet> local;
  for (std::size_t i = 0; i < machine.cpus.size(); ++i) local[homes[i]].add(machine.cpus[i].id);
  std::map<int, hwloc_obj_t> objects;
  for (hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, nullptr); node != nullptr;
       node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node))
    objects[idOf(node)] = node;
  hwloc_uint64_t ordinary = 0;
  for (const auto& [id, object] : objects) {
    MemoryNode node;
    node.id = id;
    node.size = Bytes(static_cast<std::int64_t>(object->attr->numanode.local_memory));
    node.cpus = local[id];
    if (node.cpus.empty()) node.near = toSet(object->cpuset) & machine.online;
    if (node.near == machine.online) node.near.clear();
    if (!node.cpus.empty()) ordinary = std::max(ordinary, bandwidthOf(topology, object));
    machine.memoryNodes.push_back(std::move(node));
  }
  fillDistances(topology, machine);
  const KindQuestion question{topology, facts, standInsOf(machine, facts), ordinary};
  for (MemoryNode& node : machine.memoryNodes) {
    node.kind = kindOf(question, objects[node.id], node);
    if (node.kind != MemoryKind::Device) machine.memory += node.size;
  }
}

std::vector<Device> devicesOf(hwloc_topology_t topology, const Machine& machine) {
  std::vector<Device> devices;
  const auto add = [&](std::string name, std::optional<DeviceKind> kind, hwloc_obj_t object) {
    if (!kind) return;
    Device device{std::move(name), *kind, {}, -1};
    place(topology, object, machine, device);
    devices.push_back(std::move(device));
  };
  for (hwloc_obj_t object = hwloc_get_next_osdev(topology, nullptr); object != nullptr; object = hwloc_get_next_osdev(topology, object)) {
    if (object->name != nullptr) add(object->name, kindOfDevice(object), object);
  }
  for (hwloc_obj_t object = hwloc_get_next_pcidev(topology, nullptr); object != nullptr; object = hwloc_get_next_pcidev(topology, object)) {
    if (object->io_first_child == nullptr) add(addressOf(object), kindOfClass(object->attr->pcidev.class_id), object);
  }
  std::sort(devices.begin(), devices.end(), [](const Device& a, const Device& b) { return a.name < b.name; });
  return devices;
}

}  // namespace coterie::linux
