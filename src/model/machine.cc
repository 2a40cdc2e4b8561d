#include "model/machine.h"

#include <algorithm>

namespace coterie {

const Cpu* Machine::findCpu(int id) const {
  const auto found = std::lower_bound(cpus.begin(), cpus.end(), id, [](const Cpu& cpu, int wanted) { return cpu.id < wanted; });
  return found != cpus.end() && found->id == id ? &*found : nullptr;
}

}  // namespace coterie
