#include "allocation/newcomers.h"

#include <algorithm>
#include <utility>

namespace coterie::allocation {

namespace {
constexpr int kFull = 100;  // more than the farthest device

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Bytes needOf(const GroupState& group) {
  Bytes need;
  for (const ContainerState& container : group.containers) need += std::max(container.resident, container.expected);
  return need;
}

int spanOfLevel(DomainLevel level) {
  switch (level) {
    case DomainLevel::Machine: return 16;
    case DomainLevel::Socket: return 4;
    case DomainLevel::Node: return 1;
    case DomainLevel::Cache:
    case DomainLevel::Core: return 0;
  }
  return 0;
}
}  // namespace

std::vector<int> Newcomers::ranks(const GroupState& group) {
  const Bytes need = needOf(group);
  const CpuSet device = deviceCpus(*problem_.snapshot.machine, group);
  std::vector<int> ranks;
  if (need.value == 0 && device.empty()) return ranks;
  ranks.assign(problem_.layout.branches.size(), 0);
  if (need.value > 0) addMemory(group, need, ranks);
  if (!device.empty()) addDevice(device, ranks);
  return ranks;
}

// Children stand behind their parents.
void Newcomers::addMemory(const GroupState& group, Bytes need, std::vector<int>& ranks) {
  if (!room_) room_.emplace(problem_);
  const Layout& layout = problem_.layout;
  for (std::size_t b = ranks.size(); b-- > 0;) {
    const Layout::Branch& branch = layout.branches[b];
    if (branch.level > DomainLevel::Node) continue;
    const bool full = branch.level == DomainLevel::Node
                          ? !room_->holds(layout.cpusOf[b], group.memory, need)
                          : std::all_of(ranks.begin() + branch.firstChild, ranks.begin() + branch.lastChild, [](int one) { return one >= kFull; });
    if (full) ranks[b] = kFull;
  }
}

void Newcomers::addDevice(const CpuSet& device, std::vector<int>& ranks) const {
  const Layout& layout = problem_.layout;
  std::vector<bool> there(ranks.size(), false);
  for (std::size_t b = 0; b < layout.cpusOf.size(); ++b) there[b] = layout.cpusOf[b].intersects(device);
  for (std::size_t b = 0; b < layout.cpusOf.size(); ++b) {
    if (there[b]) continue;
    int above = layout.branches[b].parent;
    while (above >= 0 && !there[at(above)]) above = layout.branches[at(above)].parent;
    ranks[b] += spanOfLevel(above < 0 ? DomainLevel::Machine : layout.branches[at(above)].level);
  }
}

void Newcomers::placed(const GroupState& group, const CpuSet& cpus) {
  if (const Bytes need = needOf(group); room_ && need.value > 0) room_->take(cpus, group.memory, need);
}

CpuSet deviceCpus(const Machine& machine, const GroupState& group) {
  if (group.device.empty()) return {};
  const auto found = std::find_if(machine.devices.begin(), machine.devices.end(), [&](const Device& one) { return one.name == group.device; });
  return found == machine.devices.end() ? CpuSet{} : found->cpus;
}

DomainLevel levelTo(const Layout& layout, const CpuSet& cpus, const CpuSet& device) {
  DomainLevel nearest = DomainLevel::Machine;
  int last = -1;
  for (const int position : layout.toPositions(cpus)) {
    const auto& path = layout.paths[at(position)];
    const int cache = path[at(static_cast<int>(DomainLevel::Cache))];
    if (cache == last) continue;
    last = cache;
    for (const DomainLevel level : {DomainLevel::Cache, DomainLevel::Node, DomainLevel::Socket}) {
      if (level <= nearest) break;
      if (layout.cpusOf[at(path[at(static_cast<int>(level))])].intersects(device)) nearest = level;
    }
  }
  return nearest;
}

}  // namespace coterie::allocation
