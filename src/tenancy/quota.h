// A tenant's quota of services, CPU and memory, checked when an object is written and when an instance is to be added.
//
// What counts, as Tenant.spec.quota defines it (model/objects.h): services by number; quota.cpus bounds the sum of the services' floors (minCpus)
// and each service's ceiling (maxCpus) by itself; quota.memory the sum of the instances' memory limits. Instances: spec.instances, else
// spec.minInstances (more of them are the scaler's choice, within the memory quota then). A limit of 0 is none. A smaller quota breaks nothing that
// exists: only growth is refused. O(services). Integers; sums saturate. Errors: ResourceExhausted/QuotaExceeded; the message names field, limit, use,
// wanted amount and what to do. Pure. Thread-compatible.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "model/objects.h"

namespace coterie::tenancy {

struct ServiceUse {
  ServiceName service;
  MilliCpu floor;    // of the group: minCpus
  MilliCpu ceiling;  // 0: the machine
  Bytes memory;      // of all instances; 0: not known yet
};

// What a service takes. measuredMemory is the limit of one instance where the spec says "measured" (0: never loaded).
[[nodiscard]] ServiceUse useOf(const ModelService& service, Bytes measuredMemory = {});

// The most CPU that the service's group may have: the lesser of maxCpus and quota.cpus. 0: the machine.
[[nodiscard]] MilliCpu ceilingWithin(const TenantQuota& quota, MilliCpu maxCpus);

// May `wanted` stand beside `others` (the tenant's services; an older form of `wanted` among them is replaced by it)?
[[nodiscard]] Status checkQuota(const TenantName& tenant, const TenantQuota& quota, std::span<const ServiceUse> others, const ServiceUse& wanted);

}  // namespace coterie::tenancy
