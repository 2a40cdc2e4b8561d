#include "allocation/home_map.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

HomeMap::HomeMap(const Layout& layout, const std::vector<GroupTarget>& targets, const CpuSet& pool)
    : homes_(targets.size() + 2), owners_(layout.positions.size(), static_cast<int>(targets.size()) + 1), near_(targets.size() + 1) {
  CpuSet nobodys = layout.usable;
  for (std::size_t owner = 0; owner <= targets.size(); ++owner) {
    CpuSet& home = homes_[owner];
    if (owner == targets.size()) {
      home = pool;
    } else if (!targets[owner].inPool) {
      for (const ContainerTarget& container : targets[owner].containers) home |= container.home;
    }
    nobodys -= home;
    for (const int cpu : home) owners_[at(cpu)] = static_cast<int>(owner);
  }
  homes_.back() = nobodys;
}

HomeMap::Near HomeMap::around(const Layout& layout, const CpuSet& home) {
  Near near;
  std::array<int, kLevels> last{};
  for (const int cpu : home) {
    const auto& path = layout.paths[at(layout.positionOf(cpu))];
    for (int level = kLevels - 1; level > 0 && path[at(level)] != last[at(level)]; --level) {
      const int branch = last[at(level)] = path[at(level)];
      if (at(branch) < layout.cpusOf.size()) {
        near[at(level)] |= layout.cpusOf[at(branch)];
        continue;
      }
      const Layout::Branch& core = layout.branches[at(branch)];
      for (int position = core.begin; position < core.end; ++position) near[at(level)].add(layout.ids[at(position)]);
    }
  }
  return near;
}

int HomeMap::nearestTo(const Layout& layout, std::size_t owner, const CpuSet& cpus) {
  const int lowest = cpus.first();
  if (cpus.next(lowest) < 0) return lowest;
  std::optional<Near>& near = near_[owner];
  if (!near) near = around(layout, homes_[owner]);
  for (int level = kLevels - 1; level > 0; --level) {
    if (const int cpu = cpus.firstIn((*near)[at(level)]); cpu >= 0) return cpu;
  }
  return lowest;
}

}  // namespace coterie::allocation
