#include "allocation/topology_picker.h"

#include <algorithm>
#include <utility>

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

TopologyPicker::TopologyPicker(const Layout& layout) : layout_(layout), free_(layout.ids.size(), true) {}

void TopologyPicker::occupy(const Positions& cpus) {
  for (const int position : cpus) free_[at(position)] = false;
}

void TopologyPicker::release(const Positions& cpus) {
  for (const int position : cpus) free_[at(position)] = true;
}

int TopologyPicker::freeIn(int branch) const {
  const Layout::Branch& domain = layout_.branches[at(branch)];
  return static_cast<int>(std::count(free_.begin() + domain.begin, free_.begin() + domain.end, true));
}

std::vector<int> TopologyPicker::tightestFirst(DomainLevel level, int below) const {
  const Layout::Branch& bounds = layout_.branches[at(below)];
  std::vector<std::pair<int, int>> order;
  for (std::size_t branch = 0; branch < layout_.branches.size(); ++branch) {
    const Layout::Branch& domain = layout_.branches[branch];
    if (domain.level != level || domain.begin < bounds.begin || domain.end > bounds.end) continue;
    if (const int free = freeIn(static_cast<int>(branch)); free > 0) order.emplace_back(free, static_cast<int>(branch));
  }
  std::sort(order.begin(), order.end());
  std::vector<int> branches;
  for (const auto& [free, branch] : order) branches.push_back(branch);
  return branches;
}

void TopologyPicker::takeAll(int branch, int& missing, Positions& taken) {
  const Layout::Branch& domain = layout_.branches[at(branch)];
  for (int position = domain.begin; position < domain.end && missing > 0; ++position) {
    if (!free_[at(position)]) continue;
    free_[at(position)] = false;
    taken.push_back(position);
    --missing;
  }
}

// Whole idle domains of the level, while one still fits into what is missing.
void TopologyPicker::takeWhole(DomainLevel level, int below, int& missing, Positions& taken) {
  for (const int branch : tightestFirst(level, below)) {
    const int size = layout_.branches[at(branch)].size();
    if (size <= missing && freeIn(branch) == size) takeAll(branch, missing, taken);
  }
}

// Domain by domain, the fullest first: threads of cores that are in use already before those of idle ones.
void TopologyPicker::takeThreads(int below, int& missing, Positions& taken) {
  for (const int socket : tightestFirst(DomainLevel::Socket, below)) {
    for (const int node : tightestFirst(DomainLevel::Node, socket)) {
      for (const int core : tightestFirst(DomainLevel::Core, node)) takeAll(core, missing, taken);
    }
  }
  takeAll(below, missing, taken);  // where `below` is smaller than a node
}

Positions TopologyPicker::take(int count, int branch, bool wholeCaches) {
  Positions taken;
  if (count <= 0 || freeIn(branch) < count) return taken;
  int missing = count;
  for (const DomainLevel level : {DomainLevel::Socket, DomainLevel::Node}) takeWhole(level, branch, missing, taken);
  if (wholeCaches && missing > 0) {
    takeWhole(DomainLevel::Cache, branch, missing, taken);
    for (const int cache : tightestFirst(DomainLevel::Cache, branch)) {
      if (missing > 0 && freeIn(cache) >= missing) {
        takeWhole(DomainLevel::Core, cache, missing, taken);
        takeAll(cache, missing, taken);
      }
    }
  }
  // Cores of the fullest socket and node first, so that idle ones stay whole.
  for (const int socket : tightestFirst(DomainLevel::Socket, branch)) {
    for (const int node : tightestFirst(DomainLevel::Node, socket)) takeWhole(DomainLevel::Core, node, missing, taken);
  }
  takeThreads(branch, missing, taken);
  std::sort(taken.begin(), taken.end());
  return taken;
}

Positions TopologyPicker::takeAcrossNodes(int count) {
  std::vector<int> nodes = tightestFirst(DomainLevel::Node);
  std::sort(nodes.begin(), nodes.end(), [&](int a, int b) { return std::pair(-freeIn(a), a) < std::pair(-freeIn(b), b); });
  for (int parts = 1; parts <= static_cast<int>(nodes.size()); ++parts) {
    bool fits = true;
    for (int part = 0; part < parts; ++part) fits = fits && freeIn(nodes[at(part)]) >= count / parts + (part < count % parts ? 1 : 0);
    if (!fits) continue;
    Positions taken;
    for (int part = 0; part < parts; ++part) {
      const Positions piece = take(count / parts + (part < count % parts ? 1 : 0), nodes[at(part)]);
      taken.insert(taken.end(), piece.begin(), piece.end());
    }
    std::sort(taken.begin(), taken.end());
    return taken;
  }
  return take(count);
}

}  // namespace coterie::allocation
