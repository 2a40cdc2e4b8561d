// The rules that every plan keeps about memory (H6 and its bounds): a part of invariants.h, in which they are explained. Pure. Thread-compatible.
#pragma once

#include <vector>

#include "allocation/invariants.h"

namespace coterie::allocation {

// Adds what is wrong with the memory nodes of a plan's targets. O(containers^2 * nodes/64).
void checkMemory(const Snapshot& before, const Plan& plan, const Config& config, std::vector<Violation>& found);

[[nodiscard]] std::int64_t sizeOf(const Machine& machine, const CpuSet& nodes);  // bytes

}  // namespace coterie::allocation
