// Container resource assignment: which of its group's CPUs each container gets.
//
// Sizes are equal up to one CPU; who holds the larger share keeps it. A container keeps what it holds, gives up its most distant CPUs first, and is
// filled with the nearest unassigned ones; one that holds nothing gets the run of CPUs that spans least. With fewer CPUs than containers each gets
// one CPU, shared evenly. Its memory nodes follow from the whole set: memory_fit.h. O(k * n log n) for k containers and n CPUs. Pure.
// Thread-compatible. Source: Liu & Guitart, IEEE CLOUD 2025 (container resource assignment).
#pragma once

#include <vector>

#include "allocation/layout.h"

namespace coterie::allocation {

using Positions = std::vector<int>;  // ascending

// cpus: the group's, at least one; held[c]: what container c holds of them (any subset). Every result is non-empty; together they are `cpus`.
[[nodiscard]] std::vector<Positions> assignContainers(const Layout& layout, const Positions& cpus, const std::vector<Positions>& held);

}  // namespace coterie::allocation
