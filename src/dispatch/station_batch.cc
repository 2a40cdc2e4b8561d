// Batches: which requests run as one.
#include <algorithm>
#include <cassert>

#include "dispatch/station.h"

namespace coterie::dispatch {

// Those that wait, spread over the slots that are free: a batch takes only what no other slot could start now. Before a slot is taken.
int Station::mostTogether(const Service& service) const {
  if (service.options.maxBatch <= 1) return 1;
  auto free = static_cast<std::int64_t>(service.freeOwn.size() + service.freeLoan.size());
  if (options_.concurrency > 0) free = std::min<std::int64_t>(free, options_.concurrency - busy_);
  const std::int64_t each = (service.queued + free - 1) / free;
  return static_cast<int>(std::min<std::int64_t>(each, std::min(service.options.maxBatch, BatchCosts::kMost)));
}

// Whether this request may join those of the slot, which take `run` together one by one: of their key, and none of them would end late by it.
bool Station::fits(const Service& service, const Slot& slot, Index id, Nanos run, Instant now) const {
  const Node& node = nodes_[id];
  const Node& first = nodes_[slot.first];
  if (node.request.batchKey != first.request.batchKey || node.request.version != first.request.version) return false;
  const Nanos together(mulDiv((run + node.estimate.t50).count(), service.batches.ratio(slot.members + 1), 1000));
  Instant due = node.request.deadline;
  for (Index member = slot.first; member != kNone; member = nodes_[member].nextInRun) due = std::min(due, nodes_[member].request.deadline);
  return now + together <= due;
}

// Whose turn is next among those who share, else the first one's next. Only the most urgent of a queue is looked at: order is kept.
std::optional<Station::Pick> Station::nextTogether(const Pick& first, const Slot& slot, Nanos run, Instant now) {
  Service& service = serviceOf(first.service);
  if (!service.batches.growsTo(slot.members + 1)) return std::nullopt;
  const auto mayJoin = [&](TenantId tenant) {
    const Leaf& leaf = leaves_[leafFor(tenant, first.service)];
    return leaf.queued > 0 && fits(service, slot, queues_.first(leaf.root), run, now);
  };
  if (tenantOf(first.tenant).options.sharesBatches) {
    std::array<bool, kBands> eligible{};
    for (std::size_t i = 0; i < kBands; ++i) eligible[i] = !service.backlog[i].empty();
    if (std::find(eligible.begin(), eligible.end(), true) == eligible.end()) return std::nullopt;
    const Turn turn = turnOf(eligible);
    const TenantId next(static_cast<std::int32_t>(service.backlog[static_cast<std::size_t>(turn.band)].top()));
    if (tenantOf(next).options.sharesBatches && mayJoin(next)) return Pick{next, first.service, turn.guaranteed};
  }
  if (!mayJoin(first.tenant)) return std::nullopt;
  return Pick{first.tenant, first.service, nodes_[slot.first].guaranteed};
}

// A member of a batch that failed: it waits where it waited before, and runs alone.
void Station::runAgain(Index id) {
  Node& node = nodes_[id];
  node.request.batchKey = 0;
  node.latestStart = node.request.deadline - node.estimate.t50;
  enter(id);
}

}  // namespace coterie::dispatch
