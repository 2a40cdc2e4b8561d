// Tenants that use more than their quota, which was lowered: what runs goes on, nothing is added.
#include <utility>

#include <fmt/format.h>

#include "controller/instance_reconciler.h"

namespace coterie::controller {

std::vector<tenancy::QuotaExcess> InstanceReconciler::excessNow(const TenantView& tenant) const {
  std::vector<tenancy::ServiceUse> services;
  for (const auto& [name, record] : records_) {
    if (!record.admitted || record.tenant != tenant.name) continue;
    const auto& [floor, isolation] = record.admittedClaim;
    services.push_back({name, floor, MilliCpu(0), Bytes(0), isolation, unitCpus(isolation)});
  }
  return tenancy::excessOf(tenant.spec.quota, services, memoryInUse(tenant.name));
}

// False: not even a first instance. What a service was granted is what it was to have when last it could be started.
bool InstanceReconciler::holdGrowth(ServiceRecord& record, const TenantView& tenant) {
  const std::vector<tenancy::QuotaExcess> excess = excessNow(tenant);
  if (excess.empty() || record.desired <= record.granted) return true;
  record.overQuota = true;
  record.obstacles.push_back({"Allocated", "QuotaExceeded",
                              fmt::format("tenant {} is over its quota: {}. It keeps {} of {} instances until less is used or the quota is raised",
                                          tenant.name.value, tenancy::excessText(excess), record.granted, record.desired)});
  return record.granted > 0;
}

std::vector<tenancy::QuotaExcess> InstanceReconciler::excessOf(const TenantName& tenant) const {
  const auto found = excess_.find(tenant);
  return found == excess_.end() ? std::vector<tenancy::QuotaExcess>() : found->second;
}

void InstanceReconciler::noteExcess() {
  std::map<TenantName, std::vector<tenancy::QuotaExcess>> now;
  for (const auto& [name, tenant] : directory_().tenants()) {
    if (auto excess = excessNow(tenant); !excess.empty()) now.emplace(name, std::move(excess));
  }
  if (now == excess_) return;
  excess_ = std::move(now);
  if (excessChanged_) excessChanged_();
}

}  // namespace coterie::controller
