#include "allocation/memory_map.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace coterie::allocation {

namespace {
constexpr int kOrphan = -1;
constexpr int kAbsent = -2;
constexpr int kHere = 10;  // the kernel's distances where the firmware names none
constexpr int kElsewhere = 20;

std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

int MemoryMap::rank(MemoryKind kind, MemoryTier tier) {
  switch (tier) {
    case MemoryTier::Usual: return kind == MemoryKind::Slow ? 1 : 0;
    case MemoryTier::Dram: return kind == MemoryKind::Dram ? 0 : kind == MemoryKind::HighBandwidth ? 1 : 2;
    case MemoryTier::HighBandwidth: return kind == MemoryKind::HighBandwidth ? 0 : kind == MemoryKind::Dram ? 1 : 2;
    case MemoryTier::Any: return 0;
  }
  return 0;
}

MemoryMap::MemoryMap(const Machine& machine) {
  const auto& known = machine.memoryNodes;
  bestRank_.fill(std::numeric_limits<int>::max());
  nodeOf_.assign(at(machine.online.last() + 1), kAbsent);
  for (const int cpu : machine.online) nodeOf_[at(cpu)] = kOrphan;
  for (const MemoryNode& node : known) {
    nodes_.push_back({node.id, node.size, node.kind, node.size.value > 0 && node.kind != MemoryKind::Device});
    if (!nodes_.back().usable) continue;
    usable_.add(node.id);
    for (std::size_t tier = 0; tier < kMemoryTiers; ++tier) {
      const int its = rank(node.kind, static_cast<MemoryTier>(tier));
      if (its < bestRank_[tier]) bestRank_[tier] = its, best_[tier].clear();
      if (its == bestRank_[tier]) best_[tier].add(node.id);
    }
  }
  sources_.resize(known.size());
  for (std::size_t from = 0; from < known.size(); ++from) {
    if (known[from].cpus.empty()) continue;
    for (const int cpu : known[from].cpus) {
      if (at(cpu) >= nodeOf_.size()) nodeOf_.resize(at(cpu) + 1, kAbsent);
      nodeOf_[at(cpu)] = static_cast<int>(from);
    }
    Source& source = sources_[from];
    const auto& row = known[from].distance;
    for (std::size_t to = 0; to < known.size(); ++to) source.distance.push_back(to < row.size() ? row[to] : from == to ? kHere : kElsewhere);
    for (std::size_t tier = 0; tier < kMemoryTiers; ++tier) {
      int least = std::numeric_limits<int>::max();
      for (std::size_t to = 0; to < known.size(); ++to) {
        if (!best_[tier].contains(known[to].id)) continue;
        if (source.distance[to] < least) least = source.distance[to], source.nearest[tier].clear();
        if (source.distance[to] == least) source.nearest[tier].add(known[to].id);
      }
    }
  }
}

// CPUs of one node mostly stand together.
template <typename Visit>
void MemoryMap::eachNodeOf(const CpuSet& cpus, const Visit& visit) const {
  int last = kAbsent;
  for (const int cpu : cpus) {
    const int node = at(cpu) < nodeOf_.size() ? nodeOf_[at(cpu)] : kAbsent;
    if (node == last) continue;
    last = node;
    if (node != kAbsent) visit(node);
  }
}

CpuSet MemoryMap::nearest(const CpuSet& cpus, MemoryTier tier) const {
  CpuSet nodes;
  const auto which = static_cast<std::size_t>(tier);
  eachNodeOf(cpus, [&](int node) { nodes |= node == kOrphan ? best_[which] : sources_[at(node)].nearest[which]; });
  return nodes;
}

std::vector<std::size_t> MemoryMap::order(const CpuSet& cpus, MemoryTier tier) const {
  std::vector<int> distance(nodes_.size(), std::numeric_limits<int>::max());
  eachNodeOf(cpus, [&](int node) {
    if (node == kOrphan) return;
    for (std::size_t to = 0; to < nodes_.size(); ++to) distance[to] = std::min(distance[to], sources_[at(node)].distance[to]);
  });
  std::vector<std::size_t> sorted;
  for (std::size_t to = 0; to < nodes_.size(); ++to) {
    if (nodes_[to].usable) sorted.push_back(to);
  }
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(rank(nodes_[a].kind, tier), distance[a], a) < std::tuple(rank(nodes_[b].kind, tier), distance[b], b);
  });
  return sorted;
}

}  // namespace coterie::allocation
