// The machine as the algorithm wants it: the usable CPUs in domain order, so that every domain is a contiguous range of positions.
//
// Usable = allowed and online, minus reserved, minus isolcpus (which count only where nothing else is left). A position is an index into that order.
// The tree has five levels, machine > socket > node > cache > core, built from each CPU's own place; a level that the hardware lacks has one child.
// Within a domain CPUs and children stand by lowest CPU id, so that "the first" is "the lowest id". O(n log n + levels * n) time, O(n + domains above
// the cores * n/64) memory. Pure. Thread-compatible; immutable once built.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "model/machine.h"

namespace coterie::allocation {

inline constexpr int kLevels = 5;  // DomainLevel's values, machine first
inline constexpr int kMaxKinds = 4;

[[nodiscard]] CpuSet usableCpus(const Machine& machine, const CpuSet& reserved);

struct Layout {
  struct Branch {
    DomainLevel level{DomainLevel::Machine};
    int parent{-1};
    int begin{0};  // positions [begin, end)
    int end{0};
    int firstChild{0};  // children are [firstChild, lastChild) of `branches`; none at core level
    int lastChild{0};
    int id{0};  // the kernel's id, for people
    [[nodiscard]] int size() const { return end - begin; }
  };

  CpuSet usable;
  std::vector<int> ids;                         // position -> CPU id
  std::vector<int> kinds;                       // position -> kind, below kMaxKinds
  std::vector<std::array<int, kLevels>> paths;  // position -> branch at every level
  std::vector<Branch> branches;                 // by level, then position; [0] is the machine
  std::vector<CpuSet> cpusOf;                   // branch -> its CPUs, of those above core level
  int kindCount{1};
  std::array<int, kMaxKinds> cpusOfKind{};
  std::array<std::int64_t, kMaxKinds> capacityOfKind{};  // milli-CPUs of one CPU of the kind (mean)
  std::int64_t capacity{0};                              // milli-CPUs of all usable CPUs

  [[nodiscard]] int size() const { return static_cast<int>(ids.size()); }
  [[nodiscard]] int positionOf(int cpuId) const {
    return cpuId >= 0 && cpuId < static_cast<int>(positions.size()) ? positions[static_cast<std::size_t>(cpuId)] : -1;
  }
  [[nodiscard]] std::int64_t grain() const;  // milli-CPUs: the greatest of which the capacity of every kind is a multiple
  [[nodiscard]] CpuSet toSet(const std::vector<int>& chosen) const;
  [[nodiscard]] std::vector<int> toPositions(const CpuSet& cpus) const;  // ascending positions of the usable ones

  std::vector<int> positions;  // CPU id -> position, -1 where not usable
};
[[nodiscard]] Layout makeLayout(const Machine& machine, const CpuSet& reserved);

// How far apart CPUs are: 0 within one cache, 1 one node, 4 one socket, 16 the machine. Positions in any order; 0 if there are fewer than two.
[[nodiscard]] std::int64_t spanOf(const Layout& layout, const std::vector<int>& chosen);
// The level of the smallest domain that holds them all (Core at the deepest).
[[nodiscard]] DomainLevel commonLevel(const Layout& layout, const std::vector<int>& chosen);

}  // namespace coterie::allocation
