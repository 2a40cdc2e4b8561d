// Admission: what a station accepts, whom it refuses, and whose request gives way when a shared cap is met.
#include <algorithm>
#include <cassert>

#include "dispatch/station.h"

namespace coterie::dispatch {

namespace {
constexpr Nanos kLongestWait = std::chrono::hours(24);
constexpr Nanos kLeastRetry = Seconds(1);

Nanos perShare(Nanos cost, std::int64_t share) {
  return std::min(Nanos(mulDiv(std::min(cost, DeadlineTree::kMaxLoad).count(), 1000, share)), DeadlineTree::kMaxLoad);
}
Nanos withMargin(Nanos t90, int permille) { return Nanos(mulDiv(t90.count(), permille, 1000)); }
Refusal later(RefusalReason reason, Nanos retry, std::int64_t limit = 0) { return {reason, std::max(retry, kLeastRetry), limit}; }
}  // namespace

Admission Station::enqueue(const Request& wanted, Instant now) {
  assert(hasTenant(wanted.tenant));
  Request request = wanted;
  request.deadline = std::min(request.deadline, now + kLongestWait);
  Tenant& tenant = tenantOf(request.tenant);
  Service& service = serviceOf(request.service);
  touch(request.tenant, now);
  ++tenant.stats.arrivals;
  service.arrivals.arrive(now);
  const auto refuse = [&](const Refusal& refusal) {
    ++tenant.stats.refused;
    return Admission{{}, refusal};
  };

  if (request.deadline <= now) return refuse({RefusalReason::DeadlinePassed, Nanos{}, 0});
  if (service.removed || service.openSlots == 0) return refuse(later(RefusalReason::NoInstance, kLeastRetry));
  const Estimate estimate = service.estimates.get(request.version, request.inputElements);
  for (const Caps& caps : {tenant.options.caps, service.options.caps, options_.caps}) {
    if (caps.bytes.value > 0 && request.bytes > caps.bytes) return refuse({RefusalReason::RequestTooLarge, Nanos{}, caps.bytes.value});
  }
  if (const auto refusal = checkCaps(request, estimate)) return refuse(*refusal);
  const Index leafIndex = leafFor(request.tenant, request.service);
  const bool probe = service.queued == 0 && hasFreeSlot(service);
  if (!probe) {
    if (const auto refusal = checkTime(request, estimate, leaves_[leafIndex], now)) return refuse(*refusal);
  }
  if (const auto refusal = makeRoom(request, now)) return refuse(*refusal);
  return {insert(request, estimate, leafIndex, probe ? request.deadline : request.deadline - estimate.t50), {}};
}

std::optional<Refusal> Station::checkCaps(const Request& request, const Estimate& estimate) const {
  const Tenant& tenant = tenantOf(request.tenant);
  const TenantOptions& options = tenant.options;
  if (options.caps.requests > 0 && tenant.stats.queued >= options.caps.requests) {
    return later(RefusalReason::TenantQueueFull, estimate.cost, options.caps.requests);
  }
  if (options.queuedCost > Nanos{} && tenant.stats.queued > 0 && tenant.queuedCost + estimate.cost > options.queuedCost) {
    return later(RefusalReason::TenantQueueFull, estimate.cost, options.queuedCost.count());
  }
  if (options.caps.bytes.value > 0 && tenant.stats.queuedBytes + request.bytes.value > options.caps.bytes.value) {
    return later(RefusalReason::TenantBytesFull, estimate.cost, options.caps.bytes.value);
  }
  return std::nullopt;
}

std::optional<Refusal> Station::checkTime(const Request& request, const Estimate& estimate, Leaf& leaf, Instant now) {
  const Service& service = serviceOf(request.service);
  const std::int64_t share = shareOf(tenantOf(request.tenant), service);
  if (share != leaf.share) {
    leaf.share = share;
    queues_.rescale(leaf.root, [&](Index id) { return perShare(nodes_[id].estimate.held, share); });
  }
  Nanos residual{};
  if (!hasFreeSlot(service) && !service.running.empty()) residual = std::max(slots_[service.running.top()].predictedEnd - now, Nanos{});
  const Nanos run = withMargin(estimate.t90, serviceOf(request.service).margin.permille(now));
  const Nanos allowed = request.deadline - now;
  const DeadlineTree::Around around = queues_.look(leaf.root, request.deadline);

  if (run > allowed) return Refusal{RefusalReason::DeadlineTooShort, Nanos{}, 0};
  if (residual + run > allowed) return later(RefusalReason::NoSlotInTime, residual + run - allowed);
  const Nanos wait = residual + around.loadBefore;
  if (wait + run > allowed) return later(RefusalReason::TenantBacklog, wait + run - allowed);
  if (around.leastLatestStart == Instant::max()) return std::nullopt;
  const Nanos slack = around.leastLatestStart - (now + residual);
  const Nanos added = perShare(estimate.held, share);
  if (slack < added) return later(RefusalReason::TenantBacklog, added - slack);
  return std::nullopt;
}

// --- Whose share: tenants with work here now or in the last 10 s, in a list by when they were last seen ---

void Station::touch(TenantId id, Instant now) {
  moveToNewest(id, now);
  forgetInactive(now);
}

void Station::moveToNewest(TenantId id, Instant now) {
  Tenant& tenant = tenantOf(id);
  if (tenant.active) {
    (tenant.previous.valid() ? tenantOf(tenant.previous).following : oldestActive_) = tenant.following;
    (tenant.following.valid() ? tenantOf(tenant.following).previous : newestActive_) = tenant.previous;
  } else {
    bandOf(tenant).activeWeight += tenant.options.weight;
  }
  tenant.active = true;
  tenant.lastSeen = now;
  tenant.previous = newestActive_;
  tenant.following = TenantId();
  (newestActive_.valid() ? tenantOf(newestActive_).following : oldestActive_) = id;
  newestActive_ = id;
}

void Station::forgetInactive(Instant now) {
  while (oldestActive_.valid() && tenantOf(oldestActive_).lastSeen + kActiveWindow < now) {
    const TenantId id = oldestActive_;
    Tenant& tenant = tenantOf(id);
    if (tenant.stats.queued > 0 || tenant.stats.inFlight > 0) {
      moveToNewest(id, now);  // it is here
      continue;
    }
    oldestActive_ = tenant.following;
    (oldestActive_.valid() ? tenantOf(oldestActive_).previous : newestActive_) = TenantId();
    tenant.active = false;
    bandOf(tenant).activeWeight -= tenant.options.weight;
  }
}

std::int64_t Station::shareOf(const Tenant& tenant, const Service& service) const {
  const std::int64_t slots = options_.concurrency > 0 ? std::min(options_.concurrency, service.openSlots) : service.openSlots;
  return std::max<std::int64_t>(1, mulDiv(slots * partOf(tenant.options.band), tenant.options.weight, bandOf(tenant).activeWeight));
}

// --- Shared caps: the tenant furthest over its weighted share gives way ---

struct Station::Scope {
  ServiceId service;  // invalid: the whole station
  const Caps& caps;
  const std::int64_t& queued;
  const std::int64_t& queuedBytes;
  RefusalReason reason;
};

std::optional<Refusal> Station::makeRoom(const Request& request, Instant now) {
  const Service& service = serviceOf(request.service);
  const Scope own{request.service, service.options.caps, service.queued, service.queuedBytes, RefusalReason::ServiceQueueFull};
  const Scope all{ServiceId(), options_.caps, queued_, queuedBytes_, RefusalReason::StationFull};
  if (auto refusal = makeRoomIn(own, request, now)) return refusal;
  return makeRoomIn(all, request, now);
}

std::optional<Refusal> Station::makeRoomIn(const Scope& scope, const Request& request, Instant now) {
  while (true) {
    const bool tooMany = scope.caps.requests > 0 && scope.queued >= scope.caps.requests;
    const bool tooBig = scope.caps.bytes.value > 0 && scope.queuedBytes + request.bytes.value > scope.caps.bytes.value;
    if (!tooMany && !tooBig) return std::nullopt;
    const std::int64_t limit = tooMany ? scope.caps.requests : scope.caps.bytes.value;
    const TenantId victim = furthestOver(scope, request, !tooMany);
    const Index latest = latestQueued(victim, scope.service);
    if (latest == kNone || (victim == request.tenant && nodes_[latest].request.deadline <= request.deadline))
      return later(scope.reason, kLeastRetry, limit);
    drop(latest, later(RefusalReason::DisplacedByShare, kLeastRetry, limit), now);
  }
}

// O(tenants), and only at a full queue. The newcomer counts as queued; on a tie its own tenant gives way.
TenantId Station::furthestOver(const Scope& scope, const Request& request, bool byBytes) const {
  const auto use = [&](TenantId id) {
    const Tenant& tenant = tenantOf(id);
    std::int64_t requests = tenant.stats.queued;
    std::int64_t bytes = tenant.stats.queuedBytes;
    if (scope.service.valid()) {
      const auto at = static_cast<std::size_t>(scope.service.value);
      const Index leaf = at < tenant.leaves.size() ? tenant.leaves[at] : kNone;
      requests = leaf == kNone ? 0 : leaves_[leaf].queued;
      bytes = leaf == kNone ? 0 : leaves_[leaf].queuedBytes;
    }
    if (id == request.tenant) {
      ++requests;
      bytes += request.bytes.value;
    }
    return byBytes ? bytes : requests;
  };
  TenantId worst = request.tenant;
  std::int64_t worstUse = use(worst);
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    const TenantId id(static_cast<std::int32_t>(i));
    if (id == request.tenant || tenants_[i].stats.queued == 0) continue;
    const std::int64_t mine = use(id);
    if (static_cast<Wide>(mine) * tenantOf(worst).options.weight <= static_cast<Wide>(worstUse) * tenants_[i].options.weight) continue;
    worst = id;
    worstUse = mine;
  }
  return worst;
}

Station::Index Station::latestQueued(TenantId id, ServiceId only) const {
  Index latest = kNone;
  for (const Index leaf : tenantOf(id).leaves) {
    if (leaf == kNone || (only.valid() && leaves_[leaf].service != only)) continue;
    const Index last = queues_.last(leaves_[leaf].root);
    if (last == kNone) continue;
    if (latest == kNone || nodes_[last].request.deadline > nodes_[latest].request.deadline) latest = last;
  }
  return latest;
}

// --- In and out of the queue ---

RequestHandle Station::insert(const Request& request, const Estimate& estimate, Index leafIndex, Instant latestStart) {
  Leaf& leaf = leaves_[leafIndex];
  Tenant& tenant = tenantOf(request.tenant);
  Service& service = serviceOf(request.service);
  if (leaf.share == 0) leaf.share = shareOf(tenant, service);
  if (tenant.stats.queued == 0 && tenant.stats.inFlight == 0) {
    bandArrives(tenant);
    const Tag virtualTime = virtualTimeAt(service, tenant.options.band);
    tenant.fresh = tenant.start <= virtualTime;
    tenant.start = std::max(tenant.start, virtualTime);
  } else if (leaf.queued == 0 && leaf.inFlight == 0) {
    joinService(leaf);
  }
  ++bandOf(tenant).present;
  if (leaf.queued == 0 && leaf.inFlight == 0) leaf.start = std::max(leaf.start, tenant.virtualTime);

  Index id;
  if (freeNodes_.empty()) {
    id = static_cast<Index>(nodes_.size());
    nodes_.emplace_back();
  } else {
    id = freeNodes_.back();
    freeNodes_.pop_back();
  }
  Node& node = nodes_[id];
  node.request = request;
  if (++node.generation == 0) ++node.generation;
  node.arrival = ++arrivals_;
  node.leaf = leafIndex;
  node.estimate = estimate;
  node.latestStart = latestStart;
  enter(id);
  return {id, node.generation};
}

// Into its queue and all sums over it.
void Station::enter(Index id) {
  Node& node = nodes_[id];
  const Request& request = node.request;
  const Estimate& estimate = node.estimate;
  Leaf& leaf = leaves_[node.leaf];
  Tenant& tenant = tenantOf(request.tenant);
  Service& service = serviceOf(request.service);
  node.state = State::Queued;
  queues_.insert(leaf.root, id, {request.deadline, node.arrival, perShare(estimate.held, leaf.share), request.deadline - estimate.t90});
  expiries_.push(id, [this](Index a, Index b) { return nodes_[a].latestStart < nodes_[b].latestStart; });
  ++leaf.queued;
  leaf.queuedBytes += request.bytes.value;
  ++tenant.stats.queued;
  tenant.stats.queuedBytes += request.bytes.value;
  tenant.queuedCost += estimate.cost;
  ++service.queued;
  service.queuedBytes += request.bytes.value;
  ++queued_;
  queuedBytes_ += request.bytes.value;
  if (leaf.queued == 1) {
    IndexHeap& backlog = service.backlog[static_cast<std::size_t>(tenant.options.band)];
    backlog.push(static_cast<Index>(request.tenant.value), [this](Index a, Index b) { return tenantLess(a, b); });
  }
  // An idle tenant's tag may have moved: it is in no other heap then, so nothing else is to be rekeyed.
  updateReady(request.service);
}

void Station::dequeue(Index id) {
  Node& node = nodes_[id];
  assert(node.state == State::Queued);
  Leaf& leaf = leaves_[node.leaf];
  Tenant& tenant = tenantOf(leaf.tenant);
  Service& service = serviceOf(leaf.service);
  queues_.erase(leaf.root, id);
  expiries_.erase(id, [this](Index a, Index b) { return nodes_[a].latestStart < nodes_[b].latestStart; });
  --leaf.queued;
  leaf.queuedBytes -= node.request.bytes.value;
  --tenant.stats.queued;
  tenant.stats.queuedBytes -= node.request.bytes.value;
  tenant.queuedCost -= node.estimate.cost;
  --service.queued;
  service.queuedBytes -= node.request.bytes.value;
  --queued_;
  queuedBytes_ -= node.request.bytes.value;
  if (leaf.queued == 0) {
    IndexHeap& backlog = service.backlog[static_cast<std::size_t>(tenant.options.band)];
    backlog.erase(static_cast<Index>(leaf.tenant.value), [this](Index a, Index b) { return tenantLess(a, b); });
  }
  updateReady(leaf.service);
}

void Station::drop(Index id, const Refusal& refusal, Instant now) {
  ++tenantOf(nodes_[id].request.tenant).stats.dropped;
  pendingDrops_.push_back({nodes_[id].request.cookie, refusal});
  dequeue(id);
  release(id, now);
}

}  // namespace coterie::dispatch
