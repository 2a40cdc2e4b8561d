#include "allocation/assignment.h"

#include <algorithm>
#include <array>
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
}  // namespace

std::vector<Positions> assignContainers(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held) {
  if (held.size() == 1) return {cpus};
  if (cpus.size() < held.size()) return shareEvenly(cpus, held);

  // A CPU that two containers hold stays with the first.
  std::vector<Positions> result(held.size());
  Positions spare = cpus;
  for (std::size_t container = 0; container < held.size(); ++container) {
    for (const int position : held[container]) {
      if (std::binary_search(spare.begin(), spare.end(), position)) moveOver(spare, result[container], {position});
    }
  }
  const std::vector<int> sizes = sizesFor(cpus.size(), result);
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

}  // namespace coterie::allocation
