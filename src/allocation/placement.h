// Placement: where everybody's home is. The part of policy drc in which load plays no part, so that it holds from decision to decision.
//
// Entitlements -> whole CPUs -> group resource selection -> optional moves -> container resource assignment -> memory nodes: see sizing.h,
// selection.h, improve.h, assignment.h, memory_fit.h. What homes depend on: the machine, every group's tenant, band, weights, cap, floor, ceiling,
// isolation, time of joining and containers with their homes, the pool, the options; of the time and the bucket only whether optional moves that are
// worth it may be made now; and where newcomers need memory, on all that memory nodes depend on: what is resident, expected and held, and what the
// kernel says of memory. KeptPlacement keeps the last one with a copy of all of that: it makes a new one only if the homes may differ, and fits
// memory again only if that may; its answer equals place()'s for every problem. O(n log n + n*g/64 + moves*n) to make, O(g + n/64 * containers) to
// find unchanged, memory_fit.h's to fit memory again. Pure. Thread-compatible. Source: Liu & Guitart, IEEE CLOUD 2025.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "allocation/home_map.h"
#include "allocation/memory_fit.h"
#include "allocation/policy.h"

namespace coterie::allocation {

enum class DeferredBy : std::uint8_t { Interval, Bucket };
// An optional move that waits: which reason says so, and of which group.
struct Deferral {
  std::size_t reason{0};
  std::size_t group{0};
  DeferredBy by{DeferredBy::Interval};
};

struct Placement {
  std::vector<GroupTarget> groups;  // ascending id; without loans
  CpuSet pool;
  HomeMap homes;
  std::vector<Reason> reasons;  // by group; those of the deferrals without their time
  std::vector<Deferral> deferrals;
  MemoryFit memory;           // of the groups' memory nodes, which are those with everything paid
  MilliCpu tokensUsed;        // of the bucket
  bool memoryHadASay{false};  // there are newcomers, whose place depends on what they and others need of memory
  bool limited{false};        // bucket and intervals had a say: see improve.h
  MilliCpu bucketFrom;
  MilliCpu bucketBelow;
};

// The bucket, refilled to now.
[[nodiscard]] MoveBucket bucketNow(const Problem& problem);
// Is the group's last optional move long enough ago?
[[nodiscard]] bool mayMove(const GroupState& group, const Problem& problem);

// pinned: per group, whether it stays in the units that it holds (isolation.h).
[[nodiscard]] Placement place(const Problem& problem, const std::vector<bool>& pinned);

class KeptPlacement {
 public:
  // The placement with nobody pinned; of it only `homes` is to be changed. The machine must be the same as at the last call, unless forget() was
  // called since.
  [[nodiscard]] Placement& of(const Problem& problem);
  void forget() { known_ = false; }
  // Was this placement taken over into the caller's plan before, and nothing else since? It is from now on, until leave().
  [[nodiscard]] bool taken() { return std::exchange(taken_, true); }
  void leave() { taken_ = false; }
  // All that containers hold, if nobody's home is another than that; else null.
  [[nodiscard]] const CpuSet* homesAtRest() const { return atRest_ ? &held_ : nullptr; }

 private:
  [[nodiscard]] bool holds(const Problem& problem);
  void keep(const Problem& problem);
  void renewMemory(const Problem& problem);

  bool known_{false};
  bool taken_{false};
  bool sameMemory_{false};  // as far as memory nodes depend on it, all is as it was
  Placement placement_;
  CpuSet held_;  // by all containers
  bool atRest_{false};
  // What it was made for.
  std::vector<GroupState> groups_;  // ascending id
  CpuSet pool_;
  Config config_;
  std::vector<bool> mayMove_;  // per group
  std::vector<NodeFree> memoryFree_;
};

}  // namespace coterie::allocation
