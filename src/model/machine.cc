#include "model/machine.h"

#include <algorithm>

namespace coterie {

std::string_view memoryKindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Dram: return "dram";
    case MemoryKind::HighBandwidth: return "high-bandwidth";
    case MemoryKind::Slow: return "slow";
    case MemoryKind::Device: return "device";
  }
  return "?";
}

std::string_view deviceKindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::Gpu: return "gpu";
    case DeviceKind::Coprocessor: return "coprocessor";
    case DeviceKind::Network: return "network";
    case DeviceKind::Fabric: return "fabric";
    case DeviceKind::Storage: return "storage";
  }
  return "?";
}

const Cpu* Machine::findCpu(int id) const {
  const auto found = std::lower_bound(cpus.begin(), cpus.end(), id, [](const Cpu& cpu, int wanted) { return cpu.id < wanted; });
  return found != cpus.end() && found->id == id ? &*found : nullptr;
}

}  // namespace coterie
