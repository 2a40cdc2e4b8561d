#include <algorithm>
#include <array>
#include <utility>

#include "gateway/core.h"

namespace coterie::gateway {

namespace {
Refused neverFits(const tenancy::LimitRefusal& refusal, std::int64_t size) {
  const std::string most = std::to_string(refusal.limit);
  return {{Code::TooLarge, "BodyTooLarge",
           "the request has " + std::to_string(size) + " bytes, more than the " + most + " allowed by " + refusal.field() +
               "; send less at once, or ask for a larger " + refusal.field()},
          refusal.field() + "=" + most,
          {},
          0};
}
}  // namespace

tenancy::RequestLimiter& Gateway::Core::limiterAt(Service& service, const Tenant& tenant) {
  const auto [entry, added] = service.limits.try_emplace(tenant.id, tenancy::LimitScope::TenantAtService);
  if (added) entry->second.set(service.settings.tenantLimits);
  return entry->second;
}

void Gateway::Core::limitsChanged(Service& service) {
  for (auto& [tenant, limiter] : service.limits) limiter.set(service.settings.tenantLimits);
}

Refused Gateway::Core::limitRefused(const tenancy::LimitRefusal& refusal, const Tenant& tenant, const Service& service) {
  return refusedBy(refusal, tenant.name, service.name);
}

// Of all that waits of it, in whatever station.
Nanos Gateway::Core::queuedTime(const Tenant& tenant) const {
  Nanos sum{};
  for (const auto& deployment : deployments_) sum += deployment->station.view().queuedCost(tenant.id);
  return sum;
}

Nanos Gateway::Core::queuedTime(const Service& service, const Tenant& tenant) const {
  Nanos sum{};
  for (const auto& deployment : deployments_) {
    if (deployment->service.get() == &service) sum += deployment->station.view().queuedCost(tenant.id);
  }
  return sum;
}

// Before its body is read. The tenant's own place and token are taken already, when it is not yet known which service is meant.
std::optional<Refused> Gateway::Core::mayStart(Tenant& tenant, Service& service, Instant when) {
  tenancy::RequestLimiter& atService = limiterAt(service, tenant);
  if (const auto refusal = queueFull(tenant, service)) return refusal;
  if (const auto refusal = atService.start(when)) return limitRefused(*refusal, tenant, service);
  return std::nullopt;
}

std::optional<Refused> Gateway::Core::queueFull(Tenant& tenant, Service& service) {
  tenancy::RequestLimiter& atService = limiterAt(service, tenant);
  const Nanos ofAll = tenant.limits.limitsQueuedTime() ? queuedTime(tenant) : Nanos{};
  if (const auto refusal = tenant.limits.queueFull(ofAll)) return limitRefused(*refusal, tenant, service);
  const Nanos here = atService.limitsQueuedTime() ? queuedTime(service, tenant) : Nanos{};
  if (const auto refusal = atService.queueFull(here)) return limitRefused(*refusal, tenant, service);
  return std::nullopt;
}

// Its body is there. Meanwhile others may have filled the queue.
std::optional<Refused> Gateway::Core::enterQueue(Inference& inference) {
  if (auto refusal = queueFull(*inference.tenant, *inference.service)) return refusal;
  inference.tenant->limits.enterQueue();
  inference.atService->enterQueue();
  inference.queued = true;
  return std::nullopt;
}

// It ran, or was about to, and waits once more.
void Gateway::Core::enterQueueAgain(Inference& inference) {
  const std::int64_t bytes = static_cast<std::int64_t>(inference.request.cellBytes) -
                             std::exchange(inference.charged, static_cast<std::int64_t>(inference.request.cellBytes));
  for (tenancy::RequestLimiter* limits : {&inference.tenant->limits, inference.atService}) {
    limits->queueAgain(Bytes(bytes));
    if (!inference.queued) limits->enterQueue();
  }
  inference.queued = true;
}

// Its bytes take memory. What would not fit even alone is told so, and not to come again.
std::optional<Refused> Gateway::Core::charge(Inference& inference, std::uint64_t bytes) {
  const Bytes more(static_cast<std::int64_t>(bytes));
  const auto refuse = [&](const tenancy::LimitRefusal& refusal) {
    const std::int64_t own = refusal.kind == tenancy::LimitKind::QueuedBytes ? inference.charged : inference.held;
    return own + more.value > refusal.limit ? neverFits(refusal, own + more.value) : limitRefused(refusal, *inference.tenant, *inference.service);
  };
  if (const auto refusal = inference.tenant->limits.hold(more)) return refuse(*refusal);
  if (const auto refusal = inference.atService->hold(more)) {
    inference.tenant->limits.release(more, more);
    return refuse(*refusal);
  }
  inference.charged += more.value;
  inference.held += more.value;
  return std::nullopt;
}

// Its text is not needed any more.
void Gateway::Core::unchargeBody(Inference& inference) {
  const Bytes text(inference.buffered);
  for (tenancy::RequestLimiter* limits : {&inference.tenant->limits, inference.atService}) limits->release(text, text);
  inference.charged -= text.value;
  inference.held -= text.value;
}

// It waits no longer.
void Gateway::Core::uncharge(Inference& inference) {
  const Bytes waited(std::exchange(inference.charged, 0));
  const bool queued = std::exchange(inference.queued, false);
  for (tenancy::RequestLimiter* limits : {&inference.tenant->limits, inference.atService}) {
    limits->release(waited, Bytes());
    if (queued) limits->leaveQueue();
  }
}

// It has ended.
void Gateway::Core::finished(Inference& inference) {
  uncharge(inference);
  const Bytes held(std::exchange(inference.held, 0));
  for (tenancy::RequestLimiter* limits : {&inference.tenant->limits, std::exchange(inference.atService, nullptr)}) {
    limits->release(Bytes(), held);
    limits->finish();
  }
}

std::vector<LimitSnapshot> Gateway::Core::limitsOf() const {
  std::vector<LimitSnapshot> all;
  for (const auto& tenant : tenants_) {
    if (!tenant->removed) all.push_back({tenant->name, std::nullopt, tenant->limits.uses(now(), queuedTime(*tenant))});
  }
  for (const auto& [name, service] : services_) {
    for (const auto& [caller, limiter] : service->limits) {
      const Tenant& tenant = *tenants_[static_cast<std::size_t>(caller.value)];
      if (tenant.removed || !service->isFor(caller)) continue;
      auto uses = limiter.uses(now(), queuedTime(*service, tenant));
      std::erase_if(uses, [](const tenancy::LimitUse& use) { return use.limit == 0 && use.hits == 0; });
      if (!uses.empty()) all.push_back({tenant.name, name, std::move(uses)});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return std::tie(a.tenant, a.service) < std::tie(b.tenant, b.service); });
  return all;
}

}  // namespace coterie::gateway
