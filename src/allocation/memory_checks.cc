#include "allocation/memory_checks.h"

#include <algorithm>

#include "allocation/memory_map.h"

namespace coterie::allocation {

namespace {
struct Placed {
  const GroupState* group;
  const ContainerState* state;
  const ContainerTarget* target;
  [[nodiscard]] std::int64_t need() const { return std::max(state->resident, state->expected).value; }
};

std::vector<Placed> placedIn(const Snapshot& snapshot, const Plan& plan) {
  std::vector<Placed> placed;
  for (const GroupTarget& target : plan.groups) {
    for (const GroupState& group : snapshot.groups) {
      if (group.id != target.id || target.pending) continue;
      for (std::size_t c = 0; c < target.containers.size(); ++c) placed.push_back({&group, &group.containers[c], &target.containers[c]});
    }
  }
  return placed;
}

// Of what is resident, what may lie on nodes that the plan takes away.
std::int64_t movedBytes(const Snapshot& snapshot, const Placed& one) {
  std::int64_t used = 0;
  for (const MemoryNode& node : snapshot.machine->memoryNodes) {
    if (!one.state->memoryNodes.contains(node.id) || one.target->memoryNodes.contains(node.id)) continue;
    const auto known =
        std::find_if(snapshot.memoryFree.begin(), snapshot.memoryFree.end(), [&](const NodeFree& free) { return free.node == node.id; });
    used += std::max<std::int64_t>(0, node.size.value - (known == snapshot.memoryFree.end() ? 0 : known->free.value));
  }
  return std::min(one.state->resident.value, used);
}
}  // namespace

std::int64_t sizeOf(const Machine& machine, const CpuSet& nodes) {
  std::int64_t bytes = 0;
  for (const MemoryNode& node : machine.memoryNodes) bytes += nodes.contains(node.id) ? node.size.value : 0;
  return bytes;
}

void checkMemory(const Snapshot& before, const Plan& plan, const Config& config, std::vector<Violation>& found) {
  const MemoryMap memory(*before.machine);
  const std::vector<Placed> placed = placedIn(before, plan);
  std::int64_t moved = 0;
  std::int64_t largestMove = 0;
  for (const Placed& one : placed) {
    const auto fail = [&](int node, std::string_view what) { found.push_back({6, one.group->id, one.target->id, node, what}); };
    const CpuSet& nodes = one.target->memoryNodes;
    const CpuSet near = memory.nearest(one.target->home, one.group->memory);
    if (!near.isSubsetOf(nodes)) fail((near - nodes).first(), "a node nearest to the home is missing in the target");
    if (!nodes.isSubsetOf(memory.usable())) fail((nodes - memory.usable()).first(), "a target on a node that nobody may allocate from");
    if (nodes == memory.usable()) continue;
    std::int64_t needed = 0;
    for (const Placed& other : placed) {
      const CpuSet& theirs = other.target->memoryNodes;
      if (theirs.isSubsetOf(nodes) && theirs != memory.usable()) needed += other.need();
    }
    if (needed > sizeOf(*before.machine, nodes)) fail(nodes.first(), "memory nodes are too small for what can be nowhere else");
  }
  if (!config.memoryNodes || config.migrationPerMinute.value <= 0) return;
  for (const Placed& one : placed) {
    if ((one.state->memoryNodes & memory.usable()).isSubsetOf(one.target->memoryNodes)) continue;
    const std::int64_t moves = movedBytes(before, one);
    moved += moves;
    largestMove = std::max(largestMove, moves);
  }
  // One may go beyond it, when the bucket is full.
  if (moved - largestMove > config.migrationPerMinute.value) found.push_back({6, {}, {}, -1, "more pages move than the budget has"});
}

}  // namespace coterie::allocation
