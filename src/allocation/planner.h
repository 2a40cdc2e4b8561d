// decide() for one who asks again and again: it keeps what the next answer will need, too.
//
// Planner::decide(s, c) equals allocation::decide(s, c) for all s and c, whatever it was asked before; decide() is a Planner used once. Kept are the
// machine as the algorithm wants it (layout.h, MemoryMap) and the last placement (placement.h), each with a copy of all that it depends on, compared
// by value at every call. So a decision on a settled machine whose load changed costs the comparison, the loans and the steps: O(n + containers *
// n/64 + g log g + lanes * n/64) for n CPUs and g groups; anything else costs what decide() costs. Memory: O(n + domains above the cores * n/64 +
// containers
// * n/64). Pure: no clock, no I/O, no randomness. Thread-compatible: one thread at a time.
#pragma once

#include <memory>

#include "allocation/decide.h"

namespace coterie::allocation {

class Planner {
 public:
  Planner();
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // The plan, valid until the next call.
  const Plan& decide(const Snapshot& snapshot, const Config& config);
  // The last plan, for one who asks no more.
  [[nodiscard]] Plan take() &&;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie::allocation
