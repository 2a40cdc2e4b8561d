// J, the cost of a placement, in quarters: what group selection, optional moves and the quality bench compare.
//
// J = sum over containers cpus*span + 1/4 sum over groups cpus*span(H) + 4*(core shared by a tenant pair) + 1*(last-level cache shared by a pair)
//     + 2*span between a group and the device that it names + caches left partly free. Span: within one cache 0, node 1, socket 4, machine 16. The
//     pool counts as one container and as a tenant of its own.
// O(n + sum of containers). Pure, integers. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/selection.h"

namespace coterie::allocation {

// Of one group: its containers' terms and its own.
[[nodiscard]] std::int64_t groupCost(const Layout& layout, const Positions& cpus, const std::vector<Positions>& containers);
// Per position, its span to the nearest of a device's CPUs; empty: there are none, or nobody knows which.
[[nodiscard]] std::vector<int> awayFrom(const Layout& layout, const CpuSet& device);
// Of a group, beside its groupCost(): how far it is from the device that it names. Nothing without CPUs, or without a device.
[[nodiscard]] std::int64_t deviceCost(const std::vector<int>& away, const Positions& cpus);
// Of one branch of cache level and its cores: shared cores, the shared cache, a cache partly free.
[[nodiscard]] std::int64_t cacheCost(const Board& board, int branch);
// Of the whole board.
[[nodiscard]] std::int64_t boardCost(const Board& board);

}  // namespace coterie::allocation
