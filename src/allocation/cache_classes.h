// Which tenants have a class of their own in the last-level caches, and which ways of each cache every class has.
//
// Who asks has a class of its own, as long as the kernel has classes and every cache has room: those who own most first. All others share one class,
// the rest. In a cache those classes divide the ways of which a tenant owns CPUs below it, in proportion to those CPUs, at least `leastWays` each:
// way by way to whoever is furthest below its exact share (so the sum of squared distances to the exact shares is least), ties to the lowest tenant.
// How many ways there are for whom depends on nothing but the CPUs; where they lie is chosen so that as few masks as possible change. A class without
// CPUs below a cache (it may borrow some there) has the uppermost `leastWays` of it, which never move. Bandwidth: where a tenant with a class of its
// own asks for it, the others' cores on the same memory nodes are held to `othersBandwidth` percent each, and nobody else's: what the hardware holds
// is a core's rate, and how much of the whole that is, it does not say.
// Guarantees: masks of classes with CPUs below a cache are disjoint runs of at least leastWays, and their sum is all that may be given. O(classes *
// ways) for each cache, and O(2^k k) for the k classes with CPUs below it where a mask must change; k <= mostClasses. Pure: no clock, no I/O.
// Thread-compatible. Source of the division: Ibaraki & Katoh, Resource Allocation Problems (greedy for separable convex costs); the hardware's rules:
// Linux, x86/resctrl.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/units.h"
#include "model/cache_class.h"
#include "model/ids.h"

namespace coterie::allocation {

struct ClassConfig {
  int othersBandwidth{50};      // percent
  std::size_t mostClasses{16};  // more are not looked for, whatever the kernel has
};

// What a tenant owns. Those of which no owner is known by itself (a pool's) may come as one claim that asks for nothing.
struct ClassClaim {
  TenantId tenant;
  bool own{false};                // asks for a class of its own
  bool bandwidth{false};          // asks that others on its memory nodes are held back
  std::map<int, MilliCpu> owned;  // by cache id, capacity of its CPUs
  CpuSet near;                    // all CPUs of the memory nodes where it owns some; with `bandwidth`
};

struct ClassTarget {
  std::optional<TenantId> tenant;  // none: the rest
  ClassShares shares;
  friend bool operator==(const ClassTarget&, const ClassTarget&) = default;
};

struct ClassPlan {
  std::vector<ClassTarget> classes;  // ascending tenant, the rest last; empty: there is nothing to divide
  std::vector<TenantId> without;     // they asked, and share the rest: no class or no way was left
  [[nodiscard]] const ClassTarget* of(std::optional<TenantId> tenant) const;
  friend bool operator==(const ClassPlan&, const ClassPlan&) = default;
};

// Claims: each tenant at most once, in any order. before: what is in force.
[[nodiscard]] ClassPlan planClasses(const CacheControl& control, std::vector<ClassClaim> claims, const ClassPlan& before,
                                    const ClassConfig& config = {});

// What `othersBandwidth` is in the steps that the hardware has, in percent.
[[nodiscard]] int heldBandwidth(const CacheControl& control, const ClassConfig& config);

// The two parts of it, for tests against an oracle. Exact division of `ways` by weight, at least `least` each; weights > 0, least * n <= ways.
[[nodiscard]] std::vector<int> divideWays(int ways, int least, const std::vector<MilliCpu>& weights);
// Runs of these lengths, which fill `room` (a run), so that most of them are what they were; 0 before: it was nothing.
[[nodiscard]] std::vector<CacheWays> layWays(CacheWays room, const std::vector<int>& lengths, const std::vector<CacheWays>& before);

}  // namespace coterie::allocation
