// A tenant's quota of services, CPU and memory, checked when an object is written and when an instance is to be added.
//
// What counts, as Tenant.spec.quota defines it (model/objects.h): services by number; quota.memory the sum of the instances' memory limits;
// quota.cpus what the services own together. Here it bounds the sum of their floors (minCpus; from a CPU up a floor is owned in whole CPUs, that of
// an isolated service in whole units, and counts so) and refuses a ceiling (maxCpus) above it, which could never be owned. What is owned between
// floors and quota.cpus, allocation::decide divides and ends (GroupState::tenantCap); CPUs of others that a service borrows while they are idle are
// free. Instances: spec.instances, else spec.minInstances (more of them are the scaler's choice, within the memory quota then). A limit of 0 is none.
// A smaller quota ends nothing that runs: growth is refused, and what is owned above floors shrinks to it. O(services). Integers; sums saturate.
// Errors: ResourceExhausted/QuotaExceeded; the message names field, limit, use, wanted amount and what to do. Pure. Thread-compatible.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/isolation.h"
#include "model/objects.h"

namespace coterie::tenancy {

struct ServiceUse {
  ServiceName service;
  MilliCpu floor;    // of the group: minCpus
  MilliCpu ceiling;  // 0: the machine
  Bytes memory;      // of all instances; 0: not known yet
  Isolation isolation{Isolation::None};
  int unitCpus{0};  // of its isolation on this machine; 0: it is not isolated
};

// What a service takes. measuredMemory is the limit of one instance where the spec says "measured" (0: never loaded); unitCpus: see ServiceUse.
[[nodiscard]] ServiceUse useOf(const ModelService& service, Bytes measuredMemory = {}, int unitCpus = 0);

// May `wanted` stand beside `others` (the tenant's services; an older form of `wanted` among them is replaced by it)?
[[nodiscard]] Status checkQuota(const TenantName& tenant, const TenantQuota& quota, std::span<const ServiceUse> others, const ServiceUse& wanted);

// Where a quota is below what is used already (it was lowered): as a person reads it.
struct QuotaExcess {
  std::string field;  // "quota.cpus"
  std::string limit;
  std::string used;
  friend bool operator==(const QuotaExcess&, const QuotaExcess&) = default;
};
// services: those that hold their place; memory: of all instances alive (what the services' own `memory` says is not counted).
[[nodiscard]] std::vector<QuotaExcess> excessOf(const TenantQuota& quota, std::span<const ServiceUse> services, Bytes memory);
// "quota.cpus is 1 CPU and 3 CPU are used; quota.services is ..."
[[nodiscard]] std::string excessText(const std::vector<QuotaExcess>& excess);

}  // namespace coterie::tenancy
