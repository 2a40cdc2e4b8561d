// How the peers pick CPUs: whole idle domains first, from the broadest down, then single threads. For their policies only.
//
// Free CPUs are taken as whole sockets while one fits, then whole nodes, optionally whole cache groups (with what is left taken from the cache group
// that fits it tightest), whole cores, and last single threads. Among equals the domain with the fewest free CPUs goes first, then the lowest id.
// Distance to what the taker has already plays no part beyond that. O(n log n) a call. Pure. Thread-compatible. Source: the documented order of
// kubelet's CPU manager ("Control CPU Management Policies on the Node", options of the static policy) and of nri-plugins' allocator (idle packages,
// clusters, cache groups, idle cores, threads).
#pragma once

#include <vector>

#include "allocation/assignment.h"
#include "allocation/layout.h"

namespace coterie::allocation {

class TopologyPicker {
 public:
  explicit TopologyPicker(const Layout& layout);

  void occupy(const Positions& cpus);
  void release(const Positions& cpus);
  [[nodiscard]] bool free(int position) const { return free_[static_cast<std::size_t>(position)]; }
  [[nodiscard]] int freeIn(int branch) const;

  // Takes `count` free CPUs of a domain (0: the machine); empty, and nothing taken, if it has fewer.
  [[nodiscard]] Positions take(int count, int branch = 0, bool wholeCaches = false);
  // The same, in equal parts from as few nodes as can give them; where none can, as take().
  [[nodiscard]] Positions takeAcrossNodes(int count);
  // The branches of one level, those that have fewest free CPUs first.
  [[nodiscard]] std::vector<int> tightestFirst(DomainLevel level, int below = 0) const;

 private:
  void takeWhole(DomainLevel level, int below, int& missing, Positions& taken);
  void takeThreads(int below, int& missing, Positions& taken);
  void takeAll(int branch, int& missing, Positions& taken);

  const Layout& layout_;
  std::vector<bool> free_;
};

}  // namespace coterie::allocation
