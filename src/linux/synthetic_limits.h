// How large a machine may be that somebody describes in hwloc's synthetic syntax: looked at before hwloc builds an object of it.
//
// A description of a dozen letters can stand for millions of CPUs, which hwloc would build one by one. The limits are the largest machine that the
// kernel can be built for (CONFIG_NR_CPUS 8,192 and 1,024 NUMA nodes on x86), twice the CPUs that the benches plan for. Every level is the product of
// the counts so far: where it passes a limit, the field that makes it do so is named, and so is memory of a node, or a cache, above what 64 bits
// count safely for a machine of all nodes (1 PiB, as much as an object of Coterie may ask for). Text that does not follow the syntax passes: hwloc
// says what is wrong with it. hwloc compares each object with its brothers, so a thousand of them is the most that it builds in a moment (8,192 take
// half a minute). O(length). Pure. Source: hwloc's documentation, "Synthetic topologies": [TYPE:]COUNT, attributes in (), attached memory in [].
#pragma once

#include <string_view>

#include "base/result.h"

namespace coterie::linux {

inline constexpr int kMostSyntheticCpus = 8192;
inline constexpr int kMostSyntheticNodes = 1024;
inline constexpr int kMostSyntheticTebibytes = 1024;  // of one node, or one cache
inline constexpr int kMostSyntheticSiblings = 1024;   // of one field, below one object

// InvalidArgument/MachineTooLarge.
[[nodiscard]] Status checkSyntheticSize(std::string_view description);

}  // namespace coterie::linux
