// Memory of nodes and containers, as it is now: what plans are made by. Noise makes no plan.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/drc_impl.h"

namespace coterie::agent {

namespace {
// Less of a change than this part is noise: of a node's size, and of what a container has.
constexpr std::int64_t kPartOfNode = 64;
constexpr std::int64_t kPartOfContainer = 16;
constexpr Bytes kLittle{std::int64_t{16} << 20};

bool differ(Bytes one, Bytes other, Bytes noise) { return std::abs(one.value - other.value) > noise.value; }
}  // namespace

void Drc::Impl::pollMemory() {
  const Instant now = ports_.loop.clock().now();
  if (now - memoryLooked_ < config_.memoryInterval) return;
  memoryLooked_ = now;
  bool changed = nodesChanged();
  for (auto& [id, container] : containers_) {
    if (container.registered && memoryChanged(container, now)) changed = true;
  }
  if (changed && config_.allocation.memoryNodes) schedule(Trigger::Memory);  // else nothing would come of it
}

bool Drc::Impl::nodesChanged() {
  std::vector<NodeFree> free = ports_.machine.memoryFree();
  const auto same = [this](const NodeFree& one, const NodeFree& before) {
    if (one.node != before.node) return false;
    const auto node = std::find_if(machine_.memoryNodes.begin(), machine_.memoryNodes.end(), [&](const MemoryNode& n) { return n.id == one.node; });
    return node != machine_.memoryNodes.end() && !differ(one.free, before.free, Bytes(node->size.value / kPartOfNode));
  };
  if (std::equal(free.begin(), free.end(), memoryFree_.begin(), memoryFree_.end(), same)) return false;
  memoryFree_ = std::move(free);
  return true;
}

bool Drc::Impl::memoryChanged(ContainerRecord& container, Instant now) const {
  const ContainerMemory memory = ports_.controller.memoryOf(container.id);
  if (memory.resident.value == 0) return false;  // it has gone: that is told by another
  const int much = config_.allocation.memoryPressure;
  if (much > 0 && memory.pressure.value_or(0) >= much) container.waitsUntil = now + config_.pressureHeld;
  const bool waits = container.waitsUntil && now < *container.waitsUntil;
  bool changed = std::exchange(container.waitsForMemory, waits) != waits;
  const Bytes noise = std::max(kLittle, Bytes(container.resident.value / kPartOfContainer));
  if (differ(memory.resident, container.resident, noise)) {
    container.resident = memory.resident;
    changed = true;
  }
  return changed;
}

}  // namespace coterie::agent
