// A small machine's usable CPUs in the order of its tree, for the oracle: an order of its own, which shares no code with the planner's layout.
//
// Depths: 0 socket, 1 node, 2 last-level cache (the node where there are none), 3 core, 4 CPU. A span is the run of places that one domain takes.
// Assumes that every domain lies within one domain of the depth above. O(n log n). Thread-compatible; immutable.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "allocation/decide.h"

namespace coterie::allocation::quality {

inline constexpr int kCore = 3;
inline constexpr int kCache = 2;
inline constexpr int kNode = 1;
inline constexpr int kDepths = 5;

[[nodiscard]] constexpr int unitDepth(Isolation isolation) {
  return isolation == Isolation::Node ? kNode : isolation == Isolation::Cache ? kCache : kCore;
}

class Tree {
 public:
  struct Span {
    int begin{0};  // places [begin, end)
    int end{0};
    int twin{-1};  // the last span before it with the same parent and the same insides; -1: none
  };

  // marked: sets of CPUs that make a difference to somebody; what lies in one is no mirror image of what does not.
  explicit Tree(const Snapshot& snapshot, std::vector<CpuSet> marked = {});
  [[nodiscard]] int size() const { return static_cast<int>(cpus_.size()); }
  [[nodiscard]] double capacity() const { return capacity_; }  // milli-CPUs
  [[nodiscard]] const CpuSet& usable() const { return usable_; }
  [[nodiscard]] const Cpu& cpu(int place) const { return *cpus_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const std::vector<Span>& spans(int depth) const { return spans_[static_cast<std::size_t>(depth)]; }
  // The span at a depth that a place lies in.
  [[nodiscard]] int spanAt(int depth, int place) const { return at_[static_cast<std::size_t>(depth)][static_cast<std::size_t>(place)]; }
  // How far apart two places are: 0 within one cache, 1 node, 4 socket, 16 machine.
  [[nodiscard]] int distance(int a, int b) const;

 private:
  void addDepth(int depth);
  [[nodiscard]] std::string insides(int depth, const Span& span) const;

  CpuSet usable_;
  std::vector<CpuSet> marked_;
  double capacity_{0};
  std::vector<const Cpu*> cpus_;
  std::array<std::vector<Span>, kDepths> spans_;
  std::array<std::vector<int>, kDepths> at_;
};

}  // namespace coterie::allocation::quality
