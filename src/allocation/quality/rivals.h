// One history of joins, leaves and resizes on one machine, under one policy: what its placements cost those who run there. Tests and benches only.
//
// Sizes are equal under every policy: a group asks for a whole number of CPUs for each of its containers, floor and ceiling alike, and joins or grows
// only if there is room, so that nobody waits and nobody is given more. That needs CPUs of one kind; a machine with several has no history. After
// each event the plan is applied and looked at. The events depend on the seed and the machine alone. Pure. Thread-compatible.
#pragma once

#include <cstdint>

#include "allocation/decide.h"

namespace coterie::allocation::quality {

struct Placements {
  std::int64_t crossNodeContainers{0};  // containers whose CPUs lie on more than one node, summed over the events
  std::int64_t sharedCores{0};          // cores on which CPUs of several tenants lie, summed over the events
  std::int64_t moves{0};                // CPUs taken from a container that goes on running: what it runs there must go elsewhere
  std::int64_t unequal{0};              // groups that wait, or have not what they asked for (policy none: not counted)
  std::int64_t decisions{0};
};

[[nodiscard]] bool comparable(const Machine& machine);  // eight usable CPUs at least, of one kind
[[nodiscard]] Placements runHistory(const Machine& machine, PolicyName policy, std::uint64_t seed, int events);

}  // namespace coterie::allocation::quality
