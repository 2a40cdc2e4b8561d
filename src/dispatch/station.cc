#include "dispatch/station.h"

#include <algorithm>
#include <cassert>

namespace coterie::dispatch {

namespace {
Wide scaled(Nanos amount, std::int64_t weight) { return static_cast<Wide>(amount.count()) * (1 << 20) / weight; }
}  // namespace

Station::Station(const StationOptions& options) : options_(options) {}

void Station::configure(const StationOptions& options) { options_ = options; }

void Station::setTenant(TenantId id, const TenantOptions& options) {
  assert(id.valid() && options.weight > 0);
  if (tenants_.size() <= static_cast<std::size_t>(id.value)) tenants_.resize(static_cast<std::size_t>(id.value) + 1);
  Tenant& tenant = tenantOf(id);
  if (tenant.active) activeWeight_ += options.weight - tenant.options.weight;
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
  assert(options.weight > 0);
  Service& service = serviceOf(id);
  service.options = options;
  service.estimates.setInitial(options.initialRun);
}

void Station::removeService(ServiceId id, Instant now) {
  Service& service = serviceOf(id);
  service.removed = true;
  while (!service.backlog.empty()) {
    const Leaf& leaf = leaves_[leafFor(TenantId(static_cast<std::int32_t>(service.backlog.top())), id)];
    drop(queues_.first(leaf.root), {RefusalReason::ServiceRemoved, Seconds(1), 0}, now);
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

// The tenant with the least tag over the services with work and a free slot; then, of these, its service with the least tag.
std::optional<Station::Pick> Station::pick() const {
  if (ready_.empty() || (options_.concurrency > 0 && busy_ >= options_.concurrency)) return std::nullopt;
  Index best = kNone;
  for (const ServiceId id : ready_) {
    const Index top = serviceOf(id).backlog.top();
    if (best == kNone || tenantLess(top, best)) best = top;
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
    if (serviceOf(id).backlog.contains(best) && (!least.valid() || before(id, least))) least = id;
  }
  return Pick{tenant, least};
}

void Station::dispatch(const Pick& pick, Instant now, Decisions& out) {
  Tenant& tenant = tenantOf(pick.tenant);
  Service& service = serviceOf(pick.service);
  const Index leafIndex = leafFor(pick.tenant, pick.service);
  Leaf& leaf = leaves_[leafIndex];
  const Index id = queues_.first(leaf.root);
  Node& node = nodes_[id];

  if (services_.size() > 1) {  // it may have been blocked: at most one request of catch-up
    tenant.start = std::max(tenant.start, virtualTime_ - scaled(node.estimate.cost, tenant.options.weight));
    leaf.start = std::max(leaf.start, tenant.virtualTime - scaled(node.estimate.cost, service.options.weight));
  }
  virtualTime_ = std::max(virtualTime_, tenant.start);
  tenant.virtualTime = std::max(tenant.virtualTime, leaf.start);

  dequeue(id);
  node.state = State::Running;
  node.slot = takeSlot(service);
  node.started = now;
  node.charged = node.estimate.cost;
  node.chargeDue = now + node.estimate.cost + kOverrunStep;
  node.predictedEnd = now + node.estimate.t50;
  Slot& slot = slotOf(node.slot);
  slot.request = id;
  ++busy_;
  tenant.fresh = false;
  ++tenant.stats.inFlight;
  ++leaf.inFlight;
  ++service.inFlight;
  service.running.push(id, [this](Index a, Index b) { return nodes_[a].predictedEnd < nodes_[b].predictedEnd; });
  overruns_.push(id, [this](Index a, Index b) { return nodes_[a].chargeDue < nodes_[b].chargeDue; });
  charge(leaf, node.charged);
  out.dispatches.push_back({{id, node.generation}, node.request.cookie, node.slot, slot.cookie});
}

void Station::charge(Leaf& leaf, Nanos amount) {
  Tenant& tenant = tenantOf(leaf.tenant);
  tenant.start += scaled(amount, tenant.options.weight);
  leaf.start += scaled(amount, serviceOf(leaf.service).options.weight);
  tenant.stats.charged += amount;
  rekey(leaf.tenant);
}

void Station::rekey(TenantId id) {
  const auto index = static_cast<Index>(id.value);
  const auto less = [this](Index a, Index b) { return tenantLess(a, b); };
  for (const Index leaf : tenantOf(id).leaves) {
    if (leaf != kNone && leaves_[leaf].queued > 0) serviceOf(leaves_[leaf].service).backlog.update(index, less);
  }
}

void Station::chargeOverruns(Instant now) {
  const auto byCharge = [this](Index a, Index b) { return nodes_[a].chargeDue < nodes_[b].chargeDue; };
  while (!overruns_.empty() && nodes_[overruns_.top()].chargeDue <= now) {
    const Index id = overruns_.top();
    Node& node = nodes_[id];
    const Nanos due = kOverrunStep * ((now - node.chargeDue) / kOverrunStep + 1);
    node.charged += due;
    node.chargeDue += due;
    overruns_.update(id, byCharge);
    charge(leaves_[node.leaf], due);
    // Overdue: nobody knows when it ends; the next look at it is the best guess.
    node.predictedEnd = std::max(node.predictedEnd, node.chargeDue);
    serviceOf(node.request.service).running.update(id, [this](Index a, Index b) { return nodes_[a].predictedEnd < nodes_[b].predictedEnd; });
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

void Station::completed(RequestHandle handle, const Usage& usage, Outcome outcome, Instant now) {
  Node* found = find(handle);
  if (found == nullptr || found->state != State::Running) return;
  Node& node = *found;
  const Index id = handle.index;
  Leaf& leaf = leaves_[node.leaf];
  Tenant& tenant = tenantOf(leaf.tenant);
  Service& service = serviceOf(leaf.service);
  const Nanos seen = std::max(now - node.started, Nanos{});
  const Nanos held = std::clamp(usage.held, Nanos{}, seen);
  Nanos actual = seen;
  if (outcome == Outcome::NeverStarted) actual = Nanos{};
  if (outcome == Outcome::Succeeded) {
    actual = held - std::clamp(usage.queuedForCpu, Nanos{}, held);
    service.estimates.record(node.request.version, node.request.inputElements, held, actual);
    const Nanos cpu = std::clamp(usage.cpu, Nanos{}, std::max(held * 64, Nanos{}));
    service.meanCpu = service.meanCpu == Nanos{} ? cpu : service.meanCpu + (cpu - service.meanCpu) / 8;
    service.meanHeld = service.meanHeld == Nanos{} ? actual : service.meanHeld + (actual - service.meanHeld) / 8;
    service.margin.record(now <= node.request.deadline, now);
  }

  overruns_.erase(id, [this](Index a, Index b) { return nodes_[a].chargeDue < nodes_[b].chargeDue; });
  service.running.erase(id, [this](Index a, Index b) { return nodes_[a].predictedEnd < nodes_[b].predictedEnd; });
  --busy_;
  --tenant.stats.inFlight;
  --leaf.inFlight;
  --service.inFlight;
  ++tenant.stats.completed;
  charge(leaf, actual - node.charged);

  const SlotId slotId = node.slot;
  Slot& slot = slotOf(slotId);
  slot.request = kNone;
  release(id, now);
  if (slot.leaving) {
    slot = Slot{};
    freeSlotIds_.push_back(slotId);
  } else if (slot.open) {
    offer(slotId);
  }
}

CancelResult Station::cancel(RequestHandle handle, Instant now) {
  const Node* node = find(handle);
  if (node == nullptr) return CancelResult::Unknown;
  if (node->state == State::Running) return CancelResult::Running;
  dequeue(handle.index);
  release(handle.index, now);
  return CancelResult::Removed;
}

// A tenant counts as active for a while from when its last request is gone.
void Station::release(Index id, Instant now) {
  const TenantId tenant = nodes_[id].request.tenant;
  if (const TenantStats& stats = tenantOf(tenant).stats; stats.queued == 0 && stats.inFlight == 0) moveToNewest(tenant, now);
  nodes_[id].state = State::Free;
  freeNodes_.push_back(id);
}

std::optional<Instant> Station::nextEvent() const {
  if (!pendingDrops_.empty()) return Instant{};
  std::optional<Instant> event;
  if (!expiries_.empty()) event = nodes_[expiries_.top()].latestStart + Nanos(1);
  if (queued_ > 0 && !overruns_.empty()) {
    const Instant due = nodes_[overruns_.top()].chargeDue;
    if (!event || due < *event) event = due;
  }
  return event;
}

Demand Station::demand(ServiceId id, Instant now) const {
  const Service& service = serviceOf(id);
  return {service.arrivals.at(now), service.meanCpu, service.meanHeld, service.queued, service.inFlight, service.queuedBytes};
}

TenantStats Station::stats(TenantId tenant) const { return hasTenant(tenant) ? tenantOf(tenant).stats : TenantStats{}; }

Estimate Station::estimate(ServiceId service, std::uint32_t version, std::uint64_t elements) const {
  return serviceOf(service).estimates.get(version, elements);
}

int Station::marginPermille(ServiceId service) const { return serviceOf(service).margin.permille(); }

}  // namespace coterie::dispatch
