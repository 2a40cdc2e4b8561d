#include "dispatch/station.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace coterie::dispatch {

Station::Station(const StationOptions& options) : options_(options) {}

void Station::configure(const StationOptions& options) { options_ = options; }

void Station::setTenant(TenantId id, const TenantOptions& options) {
  assert(id.valid() && options.weight > 0);
  if (tenants_.size() <= static_cast<std::size_t>(id.value)) tenants_.resize(static_cast<std::size_t>(id.value) + 1);
  Tenant& tenant = tenantOf(id);
  if (tenant.active) bandOf(tenant).activeWeight += options.weight - tenant.options.weight;
  tenant.options.weight = options.weight;
  if (tenant.known && tenant.options.band != options.band) moveToBand(id, options.band);
  tenant.known = true;
  tenant.options = options;
}

bool Station::hasTenant(TenantId id) const { return id.valid() && static_cast<std::size_t>(id.value) < tenants_.size() && tenantOf(id).known; }

ServiceId Station::addService(const ServiceOptions& options) {
  const ServiceId id(static_cast<std::int32_t>(services_.size()));
  services_.emplace_back();
  setService(id, options);
  return id;
}

void Station::setService(ServiceId id, const ServiceOptions& options) {
  assert(options.weight > 0 && options.maxBatch > 0);
  Service& service = serviceOf(id);
  service.options = options;
  service.estimates.setInitial(options.initialRun);
}

void Station::removeService(ServiceId id, Instant now) {
  Service& service = serviceOf(id);
  service.removed = true;
  for (IndexHeap& backlog : service.backlog) {
    while (!backlog.empty()) {
      const Leaf& leaf = leaves_[leafFor(TenantId(static_cast<std::int32_t>(backlog.top())), id)];
      drop(queues_.first(leaf.root), {RefusalReason::ServiceRemoved, Seconds(1), 0}, now);
    }
  }
}

Station::Index Station::leafFor(TenantId tenantId, ServiceId serviceId) {
  Tenant& tenant = tenantOf(tenantId);
  const auto at = static_cast<std::size_t>(serviceId.value);
  if (tenant.leaves.size() <= at) tenant.leaves.resize(services_.size(), kNone);
  if (tenant.leaves[at] == kNone) {
    tenant.leaves[at] = static_cast<Index>(leaves_.size());
    leaves_.emplace_back();
    leaves_.back().tenant = tenantId;
    leaves_.back().service = serviceId;
  }
  return tenant.leaves[at];
}

bool Station::tenantLess(Index a, Index b) const {
  const Tenant& x = tenants_[a];
  const Tenant& y = tenants_[b];
  if (x.start != y.start) return x.start < y.start;
  if (x.stats.inFlight != y.stats.inFlight) return x.stats.inFlight < y.stats.inFlight;
  if (x.fresh != y.fresh) return x.fresh;
  return a < b;
}

// The band whose turn it is; its tenant with the least tag over the services with work and a free slot; then, of these, its service with the least.
std::optional<Station::Pick> Station::pick() const {
  if (ready_.empty() || (options_.concurrency > 0 && busy_ >= options_.concurrency)) return std::nullopt;
  std::array<bool, kBands> eligible{};
  for (const ServiceId id : ready_) {
    for (std::size_t i = 0; i < kBands; ++i) eligible[i] = eligible[i] || !serviceOf(id).backlog[i].empty();
  }
  const Turn turn = turnOf(eligible);
  const auto band = static_cast<std::size_t>(turn.band);
  Index best = kNone;
  for (const ServiceId id : ready_) {
    const IndexHeap& backlog = serviceOf(id).backlog[band];
    if (!backlog.empty() && (best == kNone || tenantLess(backlog.top(), best))) best = backlog.top();
  }
  const TenantId tenant(static_cast<std::int32_t>(best));
  const auto leafAt = [&](ServiceId id) -> const Leaf& { return leaves_[tenantOf(tenant).leaves[static_cast<std::size_t>(id.value)]]; };
  const auto before = [&](ServiceId x, ServiceId y) {
    const Leaf& a = leafAt(x);
    const Leaf& b = leafAt(y);
    if (a.start != b.start) return a.start < b.start;
    return a.inFlight != b.inFlight ? a.inFlight < b.inFlight : x < y;
  };
  ServiceId least;
  for (const ServiceId id : ready_) {
    if (serviceOf(id).backlog[band].contains(best) && (!least.valid() || before(id, least))) least = id;
  }
  return Pick{tenant, least, turn.guaranteed};
}

void Station::dispatch(const Pick& pick, Instant now, Decisions& out) {
  Service& service = serviceOf(pick.service);
  const int most = mostTogether(service);
  const SlotId id = takeSlot(service);
  start(pick, id, out);
  Slot& slot = slotOf(id);
  Nanos run = nodes_[slot.first].estimate.t50;
  if (nodes_[slot.first].request.batchKey != 0) {
    while (slot.members < most) {
      const auto next = nextTogether(pick, slot, run, now);
      if (!next) break;
      run += nodes_[queues_.first(leaves_[leafFor(next->tenant, next->service)].root)].estimate.t50;
      start(*next, id, out);
    }
  }
  slot.started = now;
  slot.chargeDue = now + slot.cost + kOverrunStep;
  slot.predictedEnd = now + Nanos(mulDiv(run.count(), service.batches.ratio(slot.members), 1000));
  ++busy_;
  const auto index = static_cast<Index>(id.value);
  service.running.push(index, [this](Index a, Index b) { return slots_[a].predictedEnd < slots_[b].predictedEnd; });
  overruns_.push(index, [this](Index a, Index b) { return slots_[a].chargeDue < slots_[b].chargeDue; });
}

// The most urgent request of this tenant's for this service, to the slot.
void Station::start(const Pick& pick, SlotId slotId, Decisions& out) {
  Tenant& tenant = tenantOf(pick.tenant);
  Service& service = serviceOf(pick.service);
  const Index leafIndex = leafFor(pick.tenant, pick.service);
  Leaf& leaf = leaves_[leafIndex];
  const Index id = queues_.first(leaf.root);
  Node& node = nodes_[id];

  if (services_.size() > 1) {  // it may have been blocked: at most one request of catch-up
    bandCatchesUp(tenant.options.band, node.estimate.cost);
    leaf.start = std::max(leaf.start, tenant.virtualTime - scaled(node.estimate.cost, service.options.weight));
  }
  tenant.virtualTime = std::max(tenant.virtualTime, leaf.start);

  dequeue(id);
  reach(service, tenant);
  node.state = State::Running;
  node.slot = slotId;
  node.band = tenant.options.band;
  node.guaranteed = pick.guaranteed;
  node.abandoned = false;
  node.charged = node.estimate.cost;
  Slot& slot = slotOf(slotId);
  const bool together = slot.first != kNone;
  node.nextInRun = together ? nodes_[slot.first].nextInRun : kNone;  // the first stays the first
  if (together) {
    nodes_[slot.first].nextInRun = id;
  } else {
    slot.first = id;
  }
  ++slot.members;
  ++slot.awaited;
  slot.cost += node.estimate.cost;
  tenant.fresh = false;
  ++tenant.stats.inFlight;
  ++leaf.inFlight;
  ++service.inFlight;
  charge(node, node.charged);
  out.dispatches.push_back({{id, node.generation}, node.request.cookie, slotId, slot.cookie, together});
}

void Station::charge(const Node& node, Nanos amount) {
  Leaf& leaf = leaves_[node.leaf];
  Tenant& tenant = tenantOf(leaf.tenant);
  tenant.start += scaled(amount, tenant.options.weight);
  leaf.start += scaled(amount, serviceOf(leaf.service).options.weight);
  tenant.stats.charged += amount;
  chargeBand(node, amount);
  rekey(leaf.tenant);
}

void Station::rekey(TenantId id) {
  const auto index = static_cast<Index>(id.value);
  const auto band = static_cast<std::size_t>(tenantOf(id).options.band);
  const auto less = [this](Index a, Index b) { return tenantLess(a, b); };
  for (const Index leaf : tenantOf(id).leaves) {
    if (leaf != kNone && leaves_[leaf].queued > 0) serviceOf(leaves_[leaf].service).backlog[band].update(index, less);
  }
}

void Station::chargeOverruns(Instant now) {
  const auto byCharge = [this](Index a, Index b) { return slots_[a].chargeDue < slots_[b].chargeDue; };
  while (!overruns_.empty() && slots_[overruns_.top()].chargeDue <= now) {
    const Index id = overruns_.top();
    Slot& slot = slots_[id];
    const Nanos due = kOverrunStep * ((now - slot.chargeDue) / kOverrunStep + 1);
    slot.chargeDue += due;
    overruns_.update(id, byCharge);
    for (Index member = slot.first; member != kNone; member = nodes_[member].nextInRun) {
      Node& node = nodes_[member];
      const Nanos part(mulDiv(due.count(), node.estimate.cost.count(), slot.cost.count()));
      node.charged += part;
      charge(node, part);
    }
    // Overdue: nobody knows when it ends; the next look at it is the best guess.
    slot.predictedEnd = std::max(slot.predictedEnd, slot.chargeDue);
    serviceOf(slot.service).running.update(id, [this](Index a, Index b) { return slots_[a].predictedEnd < slots_[b].predictedEnd; });
  }
}

void Station::dropExpired(Instant now, Decisions& out) {
  while (!expiries_.empty() && nodes_[expiries_.top()].latestStart < now) {
    const Index id = expiries_.top();
    serviceOf(nodes_[id].request.service).margin.record(false, now);
    drop(id, {RefusalReason::ExpiredInQueue, Nanos{}, 0}, now);
  }
  out.drops.insert(out.drops.end(), pendingDrops_.begin(), pendingDrops_.end());
  pendingDrops_.clear();
}

void Station::next(Instant now, Decisions& out) {
  chargeOverruns(now);
  dropExpired(now, out);
  while (const auto chosen = pick()) dispatch(*chosen, now, out);
}

Station::Node* Station::find(RequestHandle handle) {
  if (handle.index >= nodes_.size()) return nullptr;
  Node& node = nodes_[handle.index];
  return node.state != State::Free && node.generation == handle.generation ? &node : nullptr;
}

bool Station::completed(RequestHandle handle, const Usage& usage, Outcome outcome, Instant now) {
  const Node* found = find(handle);
  if (found == nullptr || found->state != State::Running) return false;
  const SlotId slotId = found->slot;
  Slot& slot = slotOf(slotId);
  Service& service = serviceOf(slot.service);
  const Nanos seen = std::max(now - slot.started, Nanos{});
  const Nanos held = std::clamp(usage.held, Nanos{}, seen);
  Nanos actual = seen;
  if (outcome == Outcome::NeverStarted) actual = Nanos{};
  if (outcome == Outcome::Succeeded) {
    actual = held - std::clamp(usage.queuedForCpu, Nanos{}, held);
    learn(service, slot, {held, usage.queuedForCpu, usage.cpu}, actual);
  }
  const auto index = static_cast<Index>(slotId.value);
  overruns_.erase(index, [this](Index a, Index b) { return slots_[a].chargeDue < slots_[b].chargeDue; });
  service.running.erase(index, [this](Index a, Index b) { return slots_[a].predictedEnd < slots_[b].predictedEnd; });
  --busy_;

  const bool again = outcome == Outcome::Failed && slot.members > 1 && !service.removed;
  const Nanos cost = slot.cost;
  Nanos rest = actual;
  for (Index id = slot.first; id != kNone;) {
    const Index following = nodes_[id].nextInRun;
    const Nanos part = following == kNone ? rest : Nanos(mulDiv(actual.count(), nodes_[id].estimate.cost.count(), cost.count()));
    rest -= part;
    settle(id, part, outcome, again, now);
    id = following;
  }
  slot.first = kNone;
  slot.members = slot.awaited = 0;
  slot.cost = Nanos{};
  if (slot.leaving) {
    slot = Slot{};
    freeSlotIds_.push_back(slotId);
  } else if (slot.open) {
    offer(slotId);
  }
  return again;
}

// From what ran to its end. A batch says what batches cost, one alone what requests cost.
void Station::learn(Service& service, const Slot& slot, const Usage& usage, Nanos actual) {
  const Request& first = nodes_[slot.first].request;
  if (slot.members == 1) {
    service.estimates.record(first.version, first.inputElements, usage.held, actual);
  } else {
    service.batches.record(slot.members, actual, slot.cost);
  }
  const Nanos cpu = std::clamp(usage.cpu, Nanos{}, std::max(usage.held * 64, Nanos{})) / slot.members;
  const Nanos mine = actual / slot.members;
  service.meanCpu = service.meanCpu == Nanos{} ? cpu : service.meanCpu + (cpu - service.meanCpu) / 8;
  service.meanHeld = service.meanHeld == Nanos{} ? mine : service.meanHeld + (mine - service.meanHeld) / 8;
}

void Station::settle(Index id, Nanos actual, Outcome outcome, bool again, Instant now) {
  Node& node = nodes_[id];
  Leaf& leaf = leaves_[node.leaf];
  Tenant& tenant = tenantOf(leaf.tenant);
  Service& service = serviceOf(leaf.service);
  if (outcome == Outcome::Succeeded) service.margin.record(now <= node.request.deadline, now);
  --tenant.stats.inFlight;
  --leaf.inFlight;
  --service.inFlight;
  charge(node, actual - node.charged);
  if (again && !node.abandoned) return runAgain(id);
  ++tenant.stats.completed;
  release(id, now);
}

CancelResult Station::cancel(RequestHandle handle, Instant now) {
  Node* node = find(handle);
  if (node == nullptr) return CancelResult::Unknown;
  if (node->state == State::Running) {
    Slot& slot = slotOf(node->slot);
    if (!std::exchange(node->abandoned, true)) --slot.awaited;
    return slot.awaited > 0 ? CancelResult::Shared : CancelResult::Running;
  }
  dequeue(handle.index);
  release(handle.index, now);
  return CancelResult::Removed;
}

// A tenant counts as active for a while from when its last request is gone.
void Station::release(Index id, Instant now) {
  const TenantId tenant = nodes_[id].request.tenant;
  if (const TenantStats& stats = tenantOf(tenant).stats; stats.queued == 0 && stats.inFlight == 0) {
    moveToNewest(tenant, now);
  } else if (const Leaf& leaf = leaves_[nodes_[id].leaf]; leaf.queued == 0 && leaf.inFlight == 0) {
    leaveService(leaf);
  }
  --bandOf(tenantOf(tenant)).present;
  nodes_[id].state = State::Free;
  freeNodes_.push_back(id);
}

std::optional<Instant> Station::nextEvent() const {
  if (!pendingDrops_.empty()) return Instant{};
  std::optional<Instant> event;
  if (!expiries_.empty()) event = nodes_[expiries_.top()].latestStart + Nanos(1);
  if (queued_ > 0 && !overruns_.empty()) {
    const Instant due = slots_[overruns_.top()].chargeDue;
    if (!event || due < *event) event = due;
  }
  return event;
}

Demand Station::demand(ServiceId id, Instant now) const {
  const Service& service = serviceOf(id);
  return {service.arrivals.at(now), service.meanCpu, service.meanHeld, service.queued, service.inFlight, service.queuedBytes};
}

Nanos Station::queuedCost(TenantId tenant) const { return hasTenant(tenant) ? tenantOf(tenant).queuedCost : Nanos{}; }
TenantStats Station::stats(TenantId tenant) const { return hasTenant(tenant) ? tenantOf(tenant).stats : TenantStats{}; }

Estimate Station::estimate(ServiceId service, std::uint32_t version, std::uint64_t elements) const {
  return serviceOf(service).estimates.get(version, elements);
}

int Station::marginPermille(ServiceId service) const { return serviceOf(service).margin.permille(); }

}  // namespace coterie::dispatch
