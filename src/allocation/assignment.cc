#include "allocation/assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

int commonDepth(const Layout& layout, int a, int b) {
  int level = kLevels - 1;
  while (level > 0 && layout.paths[at(a)][at(level)] != layout.paths[at(b)][at(level)]) --level;
  return level;
}

// Equal sizes; the containers that hold most get the larger ones.
std::vector<int> sizesFor(std::size_t cpus, const std::vector<Positions>& held) {
  const std::size_t count = held.size();
  std::vector<int> sizes(count, static_cast<int>(cpus / count));
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return held[a].size() != held[b].size() ? held[a].size() > held[b].size() : a < b; });
  for (std::size_t i = 0; i < cpus % count; ++i) ++sizes[order[i]];
  return sizes;
}

// Keeps `size` of the held CPUs: those in the domains where the container holds most.
void trim(const Layout& layout, Positions& held, int size) {
  if (static_cast<int>(held.size()) <= size) return;
  const auto ownIn = [&](int position, int level) {
    const int branch = layout.paths[at(position)][at(level)];
    return std::count_if(held.begin(), held.end(), [&](int other) { return layout.paths[at(other)][at(level)] == branch; });
  };
  struct Ranked {
    std::array<std::ptrdiff_t, kLevels> own;
    int position;
  };
  std::vector<Ranked> ranked;
  for (const int position : held) {
    Ranked one{{}, position};
    for (int level = 1; level < kLevels; ++level) one.own[at(level)] = ownIn(position, level);
    ranked.push_back(one);
  }
  std::sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) { return a.own != b.own ? a.own > b.own : a.position < b.position; });
  held.clear();
  for (int i = 0; i < size; ++i) held.push_back(ranked[at(i)].position);
  std::sort(held.begin(), held.end());
}

void moveOver(Positions& from, Positions& to, const std::vector<int>& chosen) {
  for (const int position : chosen) {
    from.erase(std::lower_bound(from.begin(), from.end(), position));
    to.insert(std::lower_bound(to.begin(), to.end(), position), position);
  }
}

void fillNear(const Layout& layout, Positions& spare, Positions& own, int missing) {
  std::vector<std::pair<int, int>> ranked;  // deepest common domain first
  for (const int position : spare) {
    const int low = std::min(position, own.front());
    const int high = std::max(position, own.back());
    int nearest = 0;
    for (const int mine : own) nearest = std::max(nearest, commonDepth(layout, position, mine));
    ranked.emplace_back(-(commonDepth(layout, low, high) * kLevels + nearest), position);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<int> chosen;
  for (int i = 0; i < missing; ++i) chosen.push_back(ranked[at(i)].second);
  moveOver(spare, own, chosen);
}

void fillFresh(const Layout& layout, Positions& spare, Positions& own, int size) {
  std::size_t best = 0;
  int bestDepth = -1;
  for (std::size_t start = 0; start + at(size) <= spare.size(); ++start) {
    const int depth = commonDepth(layout, spare[start], spare[start + at(size) - 1]);
    if (depth > bestDepth) best = start, bestDepth = depth;
  }
  const auto first = spare.begin() + static_cast<std::ptrdiff_t>(best);
  own.assign(first, first + size);
  spare.erase(first, first + size);
}

std::vector<Positions> shareEvenly(const Positions& cpus, const std::vector<Positions>& held) {
  const std::size_t least = held.size() / cpus.size();
  std::size_t larger = held.size() % cpus.size();  // CPUs that take one container more
  std::vector<std::size_t> load(cpus.size(), 0);
  std::vector<Positions> result(held.size());
  const auto place = [&](std::size_t container, std::size_t cpu) {
    if (load[cpu] >= least) {
      if (load[cpu] > least || larger == 0) return false;
      --larger;
    }
    ++load[cpu];
    result[container] = {cpus[cpu]};
    return true;
  };
  for (std::size_t container = 0; container < held.size(); ++container) {
    for (const int position : held[container]) {
      const auto found = std::lower_bound(cpus.begin(), cpus.end(), position);
      if (place(container, static_cast<std::size_t>(found - cpus.begin()))) break;
    }
  }
  for (std::size_t container = 0; container < held.size(); ++container) {
    for (std::size_t cpu = 0; cpu < cpus.size() && result[container].empty(); ++cpu) {
      if (load[cpu] < least) place(container, cpu);
    }
    for (std::size_t cpu = 0; cpu < cpus.size() && result[container].empty(); ++cpu) place(container, cpu);
  }
  return result;
}
// A CPU that two containers hold stays with the first.
std::vector<Positions> split(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held, const std::vector<int>& fixed) {
  std::vector<Positions> result(held.size());
  Positions spare = cpus;
  for (std::size_t container = 0; container < held.size(); ++container) {
    for (const int position : held[container]) {
      if (std::binary_search(spare.begin(), spare.end(), position)) moveOver(spare, result[container], {position});
    }
  }
  const std::vector<int> sizes = fixed.empty() ? sizesFor(cpus.size(), result) : fixed;
  for (std::size_t container = 0; container < result.size(); ++container) {
    const Positions before = result[container];
    trim(layout, result[container], sizes[container]);
    for (const int position : before) {
      if (!std::binary_search(result[container].begin(), result[container].end(), position))
        spare.insert(std::lower_bound(spare.begin(), spare.end(), position), position);
    }
  }
  for (std::size_t container = 0; container < result.size(); ++container) {
    const int missing = sizes[container] - static_cast<int>(result[container].size());
    if (missing > 0 && !result[container].empty()) fillNear(layout, spare, result[container], missing);
  }
  for (std::size_t container = 0; container < result.size(); ++container) {
    if (result[container].empty()) fillFresh(layout, spare, result[container], sizes[container]);
  }
  return result;
}

// Those with a size of their own apart, the others together as one; then these among themselves.
std::vector<Positions> splitFixed(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held, const std::vector<int>& sizes) {
  std::vector<Positions> parts(1);
  std::vector<int> counts{static_cast<int>(cpus.size())};
  std::vector<Positions> others;
  for (std::size_t container = 0; container < held.size(); ++container) {
    if (sizes[container] > 0) {
      parts.push_back(held[container]);
      counts.push_back(sizes[container]);
      counts.front() -= sizes[container];
      continue;
    }
    others.push_back(held[container]);
    parts.front().insert(parts.front().end(), held[container].begin(), held[container].end());
  }
  std::sort(parts.front().begin(), parts.front().end());
  parts.front().erase(std::unique(parts.front().begin(), parts.front().end()), parts.front().end());
  const std::vector<Positions> apart = split(layout, cpus, parts, counts);
  for (Positions& one : others)
    std::erase_if(one, [&](int position) { return !std::binary_search(apart.front().begin(), apart.front().end(), position); });
  std::vector<Positions> even = assignContainers(layout, apart.front(), others);
  std::vector<Positions> result;
  std::size_t nextApart = 1;
  std::size_t nextEven = 0;
  for (const int size : sizes) result.push_back(size > 0 ? apart[nextApart++] : std::move(even[nextEven++]));
  return result;
}
}  // namespace

std::vector<Positions> assignContainers(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held,
                                        const std::vector<int>& sizes) {
  if (held.size() == 1) return {cpus};
  const auto fixed = static_cast<std::size_t>(std::accumulate(sizes.begin(), sizes.end(), 0));
  if (fixed > 0 && fixed < cpus.size()) return splitFixed(layout, cpus, held, sizes);
  return cpus.size() < held.size() ? shareEvenly(cpus, held) : split(layout, cpus, held, {});
}

namespace {
constexpr int kOrphan = -1;
constexpr int kAbsent = -2;

// A node that containers may allocate from. The memory of a GPU is the GPU's, however near it is: what lands there is lost to its owner, and is slow.
bool mayAllocateFrom(const MemoryNode& node) { return node.size.value > 0 && node.kind != MemoryKind::Device; }
}  // namespace

MemoryMap::MemoryMap(const Machine& machine) {
  const auto& known = machine.memoryNodes;
  nodes_.resize(known.size());
  nodeOf_.assign(at(machine.online.last() + 1), kAbsent);
  for (const int cpu : machine.online) nodeOf_[at(cpu)] = kOrphan;
  for (std::size_t from = 0; from < known.size(); ++from) {
    Node& node = nodes_[from];
    node.id = known[from].id;
    node.size = known[from].size;
    node.usable = mayAllocateFrom(known[from]);
    if (node.usable) all_.add(node.id);
    if (known[from].cpus.empty()) continue;
    for (const int cpu : known[from].cpus) {
      if (at(cpu) >= nodeOf_.size()) nodeOf_.resize(at(cpu) + 1, kAbsent);
      nodeOf_[at(cpu)] = static_cast<int>(from);
    }
    const auto& row = known[from].distance;
    int least = std::numeric_limits<int>::max();
    for (std::size_t to = 0; to < known.size(); ++to) {
      node.distance.push_back(to < row.size() ? row[to] : from == to ? 10 : 20);
      if (!mayAllocateFrom(known[to])) continue;
      if (node.distance[to] < least) least = node.distance[to], node.nearest.clear();
      if (node.distance[to] == least) node.nearest.add(known[to].id);
    }
  }
}

CpuSet MemoryMap::nearest(const CpuSet& cpus) const {
  CpuSet nodes;
  int last = kAbsent;
  for (const int cpu : cpus) {
    const int node = at(cpu) < nodeOf_.size() ? nodeOf_[at(cpu)] : kAbsent;
    if (node == last) continue;
    last = node;
    if (node != kAbsent) nodes |= node == kOrphan ? all_ : nodes_[at(node)].nearest;
  }
  return nodes;
}

CpuSet MemoryMap::nodesFor(const CpuSet& cpus, Bytes resident) const {
  CpuSet nodes = nearest(cpus);
  Bytes held;
  auto node = nodes_.begin();
  for (const int id : nodes) {
    while (node->id != id) ++node;
    held += node->size;
  }
  if (held < resident) widen(nodes, held, cpus, resident);
  return nodes;
}

void MemoryMap::widen(CpuSet& nodes, Bytes held, const CpuSet& cpus, Bytes resident) const {
  std::vector<int> nearest(nodes_.size(), std::numeric_limits<int>::max());  // distance to the nearest node of the set
  int last = kAbsent;
  for (const int cpu : cpus) {
    const int from = at(cpu) < nodeOf_.size() ? nodeOf_[at(cpu)] : kAbsent;
    if (from == last) continue;
    last = from;
    if (from < 0) continue;
    for (std::size_t to = 0; to < nodes_.size(); ++to) nearest[to] = std::min(nearest[to], nodes_[at(from)].distance[to]);
  }
  std::vector<std::pair<int, std::size_t>> others;
  for (std::size_t to = 0; to < nodes_.size(); ++to) {
    if (nodes_[to].usable && !nodes.contains(nodes_[to].id)) others.emplace_back(nearest[to], to);
  }
  std::sort(others.begin(), others.end());
  for (const auto& [far, to] : others) {
    if (held >= resident) break;
    nodes.add(nodes_[to].id);
    held += nodes_[to].size;
  }
}

}  // namespace coterie::allocation
