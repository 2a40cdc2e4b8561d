#include "allocation/layout.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// A CPU with the keys that order it: the lowest usable CPU id of its socket, node, cache and core, and its own.
struct Keyed {
  std::array<int, kLevels> key{};
  const Cpu* cpu{nullptr};
};

std::vector<Keyed> orderedCpus(const Machine& machine, const CpuSet& usable) {
  std::vector<int> lowest(machine.domains.size(), std::numeric_limits<int>::max());
  std::vector<int> lowestUncached = lowest;  // per node: of those that share no cache where others do
  std::vector<Keyed> ordered;
  ordered.reserve(machine.cpus.size());
  for (const Cpu& cpu : machine.cpus) {
    if (!usable.contains(cpu.id)) continue;
    for (const int domain : {cpu.socket, cpu.node, cpu.cache, cpu.core}) lowest[at(domain)] = std::min(lowest[at(domain)], cpu.id);
    if (cpu.cache == cpu.node) lowestUncached[at(cpu.node)] = std::min(lowestUncached[at(cpu.node)], cpu.id);
    ordered.push_back({{}, &cpu});
  }
  for (Keyed& one : ordered) {
    const Cpu& cpu = *one.cpu;
    const int lowestOfCache = cpu.cache == cpu.node ? lowestUncached[at(cpu.node)] : lowest[at(cpu.cache)];
    one.key = {lowest[at(cpu.socket)], lowest[at(cpu.node)], lowestOfCache, lowest[at(cpu.core)], cpu.id};
  }
  std::sort(ordered.begin(), ordered.end(), [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
  return ordered;
}

int domainAt(const Cpu& cpu, int level) {
  switch (static_cast<DomainLevel>(level)) {
    case DomainLevel::Machine: return 0;
    case DomainLevel::Socket: return cpu.socket;
    case DomainLevel::Node: return cpu.node;
    case DomainLevel::Cache: return cpu.cache;
    case DomainLevel::Core: return cpu.core;
  }
  return 0;
}

// Adds the branches of one level: a new one wherever the parent or the domain changes.
void addLevel(Layout& layout, const Machine& machine, const std::vector<Keyed>& ordered, int level) {
  int lastDomain = -1;
  int lastParent = -1;
  for (std::size_t position = 0; position < ordered.size(); ++position) {
    const int parent = level == 0 ? -1 : layout.paths[position][at(level - 1)];
    const int domain = domainAt(*ordered[position].cpu, level);
    if (position == 0 || domain != lastDomain || parent != lastParent) {
      const int index = static_cast<int>(layout.branches.size());
      Layout::Branch branch;
      branch.level = static_cast<DomainLevel>(level);
      branch.parent = parent;
      branch.begin = static_cast<int>(position);
      branch.id = machine.domains.empty() ? 0 : machine.domains[at(domain)].id;
      if (parent >= 0) {
        if (parent != lastParent) layout.branches[at(parent)].firstChild = index;
        layout.branches[at(parent)].lastChild = index + 1;
      }
      layout.branches.push_back(branch);
      lastDomain = domain;
      lastParent = parent;
    }
    layout.branches.back().end = static_cast<int>(position) + 1;
    layout.paths[position][at(level)] = static_cast<int>(layout.branches.size()) - 1;
  }
}
}  // namespace

CpuSet usableCpus(const Machine& machine, const CpuSet& reserved) {
  const CpuSet open = (machine.allowed & machine.online) - reserved;
  const CpuSet shared = open - machine.isolated;
  return shared.empty() ? open : shared;
}

Layout makeLayout(const Machine& machine, const CpuSet& reserved) {
  Layout layout;
  layout.usable = usableCpus(machine, reserved);
  const std::vector<Keyed> ordered = orderedCpus(machine, layout.usable);
  layout.positions.assign(at(layout.usable.last() + 1), -1);
  layout.paths.resize(ordered.size());
  for (std::size_t position = 0; position < ordered.size(); ++position) {
    const Cpu& cpu = *ordered[position].cpu;
    const int kind = std::clamp(cpu.kind, 0, kMaxKinds - 1);
    layout.ids.push_back(cpu.id);
    layout.kinds.push_back(kind);
    layout.positions[at(cpu.id)] = static_cast<int>(position);
    layout.kindCount = std::max(layout.kindCount, kind + 1);
    ++layout.cpusOfKind[at(kind)];
    layout.capacityOfKind[at(kind)] += cpu.capacity.value;
    layout.capacity += cpu.capacity.value;
  }
  for (int kind = 0; kind < layout.kindCount; ++kind) {
    if (layout.cpusOfKind[at(kind)] > 0)
      layout.capacityOfKind[at(kind)] = std::max<std::int64_t>(1, layout.capacityOfKind[at(kind)] / layout.cpusOfKind[at(kind)]);
  }
  for (int level = 0; level < kLevels; ++level) addLevel(layout, machine, ordered, level);
  for (const Layout::Branch& branch : layout.branches) {
    if (branch.level == DomainLevel::Core) break;
    CpuSet& cpus = layout.cpusOf.emplace_back();
    for (int position = branch.end - 1; position >= branch.begin; --position) cpus.add(layout.ids[at(position)]);
  }
  return layout;
}

std::int64_t Layout::grain() const {
  std::int64_t common = 0;
  for (int kind = 0; kind < kindCount; ++kind) {
    if (cpusOfKind[at(kind)] > 0) common = std::gcd(common, capacityOfKind[at(kind)]);
  }
  return std::max<std::int64_t>(1, common);
}

CpuSet Layout::toSet(const std::vector<int>& chosen) const {
  CpuSet set;
  int highest = -1;
  for (const int position : chosen) highest = std::max(highest, ids[at(position)]);
  if (highest >= 0) set.add(highest);  // one allocation
  for (const int position : chosen) set.add(ids[at(position)]);
  return set;
}

std::vector<int> Layout::toPositions(const CpuSet& cpus) const {
  std::vector<int> found;
  for (const int id : cpus) {
    if (const int position = positionOf(id); position >= 0) found.push_back(position);
  }
  std::sort(found.begin(), found.end());
  return found;
}

DomainLevel commonLevel(const Layout& layout, const std::vector<int>& chosen) {
  if (chosen.empty()) return DomainLevel::Core;
  // Domains are ranges of positions, so the extremes decide.
  const auto [low, high] = std::minmax_element(chosen.begin(), chosen.end());
  int level = kLevels - 1;
  while (level > 0 && layout.paths[at(*low)][at(level)] != layout.paths[at(*high)][at(level)]) --level;
  return static_cast<DomainLevel>(level);
}

std::int64_t spanOf(const Layout& layout, const std::vector<int>& chosen) {
  switch (commonLevel(layout, chosen)) {
    case DomainLevel::Core:
    case DomainLevel::Cache: return 0;
    case DomainLevel::Node: return 1;
    case DomainLevel::Socket: return 4;
    case DomainLevel::Machine: return 16;
  }
  return 0;
}

}  // namespace coterie::allocation
