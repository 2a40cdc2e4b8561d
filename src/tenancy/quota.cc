#include "tenancy/quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace coterie::tenancy {

namespace {
std::int64_t add(std::int64_t a, std::int64_t b) { return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max() : a + b; }
std::int64_t times(std::int64_t a, std::int64_t b) { return a != 0 && b > std::numeric_limits<std::int64_t>::max() / a ? std::numeric_limits<std::int64_t>::max() : a * b; }

std::string cpuText(std::int64_t milli) { return milli % 1000 == 0 ? fmt::format("{} CPU", milli / 1000) : fmt::format("{}m CPU", milli); }
std::string memoryText(std::int64_t bytes) {
  constexpr std::int64_t kMi = std::int64_t{1} << 20;
  if (bytes % (kMi << 10) == 0) return fmt::format("{}Gi", bytes / (kMi << 10));
  return bytes % kMi == 0 ? fmt::format("{}Mi", bytes / kMi) : fmt::format("{} bytes", bytes);
}

Error exceeded(const TenantName& tenant, const char* field, const std::string& limit, const std::string& used, const ServiceUse& wanted, const std::string& amount, const char* fix) {
  return {Code::ResourceExhausted, "QuotaExceeded",
          fmt::format("{} of tenant \"{}\" is {}: its other services use {}, and \"{}\" wants {}; {}", field, tenant.value, limit, used, wanted.service.path(), amount, fix)};
}
}  // namespace

ServiceUse useOf(const ModelService& service, Bytes measuredMemory) {
  const ModelServiceSpec& spec = service.spec;
  const int instances = std::max(0, spec.instances.value_or(spec.minInstances));
  const Bytes each = spec.memory.value > 0 ? spec.memory : measuredMemory;
  return {service.serviceName(), MilliCpu(times(spec.minCpus.value, instances)), spec.maxCpus, Bytes(times(each.value, instances))};
}

MilliCpu ceilingWithin(const TenantQuota& quota, MilliCpu maxCpus) {
  if (quota.cpus.value <= 0) return maxCpus;
  return maxCpus.value <= 0 ? quota.cpus : std::min(maxCpus, quota.cpus);
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
    floors = add(floors, other.floor.value);
    memory = add(memory, other.memory.value);
  }
  if (quota.services > 0 && !existed && services + 1 > quota.services) {
    return exceeded(tenant, "quota.services", std::to_string(quota.services), std::to_string(services), wanted, "to be one more", "delete one, or ask for a larger quota");
  }
  if (quota.cpus.value > 0 && wanted.floor > before.floor && add(floors, wanted.floor.value) > quota.cpus.value) {
    return exceeded(tenant, "quota.cpus", cpuText(quota.cpus.value), cpuText(floors), wanted, cpuText(wanted.floor.value) + " (minCpus x instances)",
                    "lower spec.minCpus or the instances, or ask for a larger quota");
  }
  if (quota.cpus.value > 0 && wanted.ceiling > quota.cpus && (!existed || wanted.ceiling > before.ceiling)) {
    return exceeded(tenant, "quota.cpus", cpuText(quota.cpus.value), cpuText(floors), wanted, "a ceiling of " + cpuText(wanted.ceiling.value),
                    "lower spec.maxCpus, or ask for a larger quota");
  }
  if (quota.memory.value > 0 && wanted.memory > before.memory && add(memory, wanted.memory.value) > quota.memory.value) {
    return exceeded(tenant, "quota.memory", memoryText(quota.memory.value), memoryText(memory), wanted, memoryText(wanted.memory.value) + " for all its instances",
                    "lower spec.memory or the instances, or ask for a larger quota");
  }
  return {};
}

}  // namespace coterie::tenancy
