#include "tenancy/quota.h"

#include <algorithm>
#include <limits>
#include <string>

#include "model/owned_floor.h"

namespace coterie::tenancy {

namespace {
std::int64_t add(std::int64_t a, std::int64_t b) {
  return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max() : a + b;
}
std::int64_t times(std::int64_t a, std::int64_t b) {
  return a != 0 && b > std::numeric_limits<std::int64_t>::max() / a ? std::numeric_limits<std::int64_t>::max() : a * b;
}

std::string cpuText(std::int64_t milli) { return milli % 1000 == 0 ? std::to_string(milli / 1000) + " CPU" : std::to_string(milli) + "m CPU"; }
std::string memoryText(std::int64_t bytes) {
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  if (bytes % (kMi << 10) == 0) return std::to_string(bytes / (kMi << 10)) + "Gi";
  return bytes % kMi == 0 ? std::to_string(bytes / kMi) + "Mi" : std::to_string(bytes) + " bytes";
}

struct Excess {
  std::string field;
  std::string limit;
  std::string used;  // by the tenant's other services
  std::string wanted;
  std::string fix;
};
MilliCpu owned(const ServiceUse& use) { return ownedFloor(use.floor, use.unitCpus); }
// "2 CPU (minCpus of 1500m CPU, in whole CPUs)"
std::string wantedFloor(const ServiceUse& use) {
  const MilliCpu floor = owned(use);
  std::string text = cpuText(floor.value);
  if (use.unitCpus > 0) {
    return text + " (isolation " + std::string(isolationName(use.isolation)) + " owns whole units of " + std::to_string(use.unitCpus) +
           " CPU, for minCpus " + cpuText(use.floor.value) + ")";
  }
  return text + " (minCpus" + (floor == use.floor ? "" : " of " + cpuText(use.floor.value) + ", in whole CPUs") + ")";
}
Error exceeded(const TenantName& tenant, const ServiceUse& service, const Excess& e) {
  return {Code::ResourceExhausted, "QuotaExceeded",
          e.field + " of tenant \"" + tenant.value + "\" is " + e.limit + ": its other services use " + e.used + ", and \"" + service.service.path() +
              "\" wants " + e.wanted + "; " + e.fix + ", or ask for a larger quota"};
}
}  // namespace

ServiceUse useOf(const ModelService& service, Bytes measuredMemory, int unitCpus) {
  const ModelServiceSpec& spec = service.spec;
  const int instances = std::max(0, spec.instances.value_or(spec.minInstances));
  const Bytes each = spec.memory.value > 0 ? spec.memory : measuredMemory;
  return {service.serviceName(), spec.minCpus,
          spec.maxCpus,          Bytes(times(each.value, instances)),
          spec.isolation,        spec.isolation == Isolation::None ? 0 : unitCpus};
}

Status checkQuota(const TenantName& tenant, const TenantQuota& quota, std::span<const ServiceUse> others, const ServiceUse& wanted) {
  std::int64_t services = 0;
  std::int64_t floors = 0;
  std::int64_t memory = 0;
  ServiceUse before;  // what `wanted` replaces
  bool existed = false;
  for (const ServiceUse& other : others) {
    if (other.service == wanted.service) {
      before = other;
      existed = true;
      continue;
    }
    ++services;
    floors = add(floors, owned(other).value);
    memory = add(memory, other.memory.value);
  }
  if (quota.services > 0 && !existed && services + 1 > quota.services) {
    return exceeded(tenant, wanted, {"quota.services", std::to_string(quota.services), std::to_string(services), "to be one more", "delete one"});
  }
  const std::string cpus = cpuText(quota.cpus.value);
  const std::int64_t floor = owned(wanted).value;
  if (quota.cpus.value > 0 && floor > owned(before).value && add(floors, floor) > quota.cpus.value) {
    const std::string fix = wanted.unitCpus > 0 ? "lower spec.isolation or spec.minCpus" : "lower spec.minCpus";
    return exceeded(tenant, wanted, {"quota.cpus", cpus, cpuText(floors), wantedFloor(wanted), fix});
  }
  if (quota.cpus.value > 0 && wanted.ceiling > quota.cpus && (!existed || wanted.ceiling > before.ceiling)) {
    return exceeded(tenant, wanted, {"quota.cpus", cpus, cpuText(floors), "a ceiling of " + cpuText(wanted.ceiling.value), "lower spec.maxCpus"});
  }
  if (quota.memory.value > 0 && wanted.memory > before.memory && add(memory, wanted.memory.value) > quota.memory.value) {
    return exceeded(tenant, wanted,
                    {"quota.memory", memoryText(quota.memory.value), memoryText(memory), memoryText(wanted.memory.value) + " for all its instances",
                     "lower spec.memory or the instances"});
  }
  return {};
}

std::vector<QuotaExcess> excessOf(const TenantQuota& quota, std::span<const ServiceUse> services, Bytes memory) {
  std::vector<QuotaExcess> excess;
  const auto count = static_cast<std::int64_t>(services.size());
  if (quota.services > 0 && count > quota.services) excess.push_back({"quota.services", std::to_string(quota.services), std::to_string(count)});
  std::int64_t floors = 0;
  for (const ServiceUse& service : services) floors = add(floors, owned(service).value);
  if (quota.cpus.value > 0 && floors > quota.cpus.value)
    excess.push_back({"quota.cpus", cpuText(quota.cpus.value), cpuText(floors) + " of floors (minCpus)"});
  if (quota.memory.value > 0 && memory > quota.memory) excess.push_back({"quota.memory", memoryText(quota.memory.value), memoryText(memory.value)});
  return excess;
}

std::string excessText(const std::vector<QuotaExcess>& excess) {
  std::string text;
  for (const QuotaExcess& e : excess) text += (text.empty() ? "" : "; ") + e.field + " is " + e.limit + " and " + e.used + " are used";
  return text;
}

}  // namespace coterie::tenancy
