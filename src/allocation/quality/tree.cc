#include "allocation/quality/tree.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace coterie::allocation::quality {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

int domainOf(const Cpu& cpu, int depth) {
  switch (depth) {
    case 0: return cpu.socket;
    case kNode: return cpu.node;
    case kCache: return cpu.cache;
    case kCore: return cpu.core;
    default: return cpu.id;
  }
}
}  // namespace

Tree::Tree(const Snapshot& snapshot, std::vector<CpuSet> marked) : marked_(std::move(marked)) {
  const Machine& machine = *snapshot.machine;
  usable_ = (machine.allowed & machine.online) - snapshot.reserved - machine.isolated;
  for (const Cpu& cpu : machine.cpus) {
    if (!usable_.contains(cpu.id)) continue;
    cpus_.push_back(&cpu);
    capacity_ += static_cast<double>(cpu.capacity.value);
  }
  std::sort(cpus_.begin(), cpus_.end(), [](const Cpu* a, const Cpu* b) {
    return std::tuple(a->socket, a->node, a->cache, a->core, a->id) < std::tuple(b->socket, b->node, b->cache, b->core, b->id);
  });
  for (int depth = 0; depth < kDepths; ++depth) addDepth(depth);
  for (int depth = 0; depth < kDepths; ++depth) {
    std::vector<Span>& spans = spans_[at(depth)];
    for (std::size_t one = 1; one < spans.size(); ++one) {
      for (std::size_t other = one; other > 0 && spans[one].twin < 0; --other) {
        const Span& before = spans[other - 1];
        const bool siblings = depth == 0 || spanAt(depth - 1, before.begin) == spanAt(depth - 1, spans[one].begin);
        if (siblings && insides(depth, before) == insides(depth, spans[one])) spans[one].twin = static_cast<int>(other) - 1;
      }
    }
  }
}

void Tree::addDepth(int depth) {
  for (int place = 0; place < size(); ++place) {
    const bool first = place == 0 || domainOf(cpu(place), depth) != domainOf(cpu(place - 1), depth);
    if (first) spans_[at(depth)].push_back({place, place, -1});
    spans_[at(depth)].back().end = place + 1;
    at_[at(depth)].push_back(static_cast<int>(spans_[at(depth)].size()) - 1);
  }
}

// What makes two domains mirror images: the kinds of the CPUs, their marks, and where the domains below begin.
std::string Tree::insides(int depth, const Span& span) const {
  std::string text;
  for (int place = span.begin; place < span.end; ++place) {
    for (int below = depth + 1; below < kDepths; ++below) {
      if (spans(below)[at(spanAt(below, place))].begin == place) text += static_cast<char>('a' + below);
    }
    text += static_cast<char>('0' + cpu(place).kind);
    for (const CpuSet& set : marked_) text += set.contains(cpu(place).id) ? '+' : '-';
  }
  return text;
}

int Tree::distance(int a, int b) const {
  if (spanAt(kCache, a) == spanAt(kCache, b)) return 0;
  if (spanAt(kNode, a) == spanAt(kNode, b)) return 1;
  return spanAt(0, a) == spanAt(0, b) ? 4 : 16;
}

}  // namespace coterie::allocation::quality
