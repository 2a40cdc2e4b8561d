// What the reconcilers tell and ask the in-node allocator (src/agent's DRC behind the wiring; a fake in tests).
//
// A group is told before its first instance starts and removed after its last one ended. Of instances: starting before the worker is spawned, ready
// or ended later. Thread rule: control loop; nothing here calls back from inside the call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "allocation/isolation_room.h"
#include "allocation/isolation_terms.h"
#include "base/units.h"
#include "model/band.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "ports/container_runtime.h"

namespace coterie::controller {

struct ServiceGroup {
  GroupId id;
  ServiceName service;
  TenantName tenant;
  Band band{Band::Normal};  // the tenant's
  std::int64_t tenantWeight{100};
  std::int64_t weight{100};
  MilliCpu tenantCap;  // of what the tenant's groups own together; 0: none
  MilliCpu floor;      // 0: none
  MilliCpu ceiling;    // 0: the machine
  bool latencyCritical{true};
  Isolation isolation{Isolation::None};
  std::optional<Nanos> objective;
  friend bool operator==(const ServiceGroup&, const ServiceGroup&) = default;
};

// What a group has and does at this instant.
struct GroupLoad {
  int cpus{0};         // that it owns; 0: a member of the pool
  MilliCpu poolShare;  // of a member of the pool
  int nodes{1};        // that its CPUs span
  MilliRps arrivals;   // requests, refused ones included
  int waiting{0};      // requests without a lane
  int running{0};      // on lanes
};

class AllocationPort {
 public:
  virtual ~AllocationPort() = default;
  // Milli-CPUs that are missing for this group's floor beside the others' (an older form of it not counted); 0: it fits.
  [[nodiscard]] virtual MilliCpu missingForFloor(const ServiceGroup& group) const = 0;
  [[nodiscard]] virtual allocation::IsolationTerms isolationTerms(Isolation level) const = 0;
  // Of a group whose floor is missing: why its isolation cannot be had; nothing: it is its floor that does not fit.
  [[nodiscard]] virtual std::optional<allocation::UnitShortage> unitShortage(const ServiceGroup& group) const = 0;
  virtual void setGroup(const ServiceGroup& group) = 0;
  virtual void removeGroup(GroupId group) = 0;
  // expected: of memory, what it is let in with.
  virtual void instanceStarting(GroupId group, InstanceId instance, Bytes expected) = 0;
  virtual void instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) = 0;
  virtual void instanceEnded(GroupId group, InstanceId instance) = 0;
  // None: the group has no place yet, or nothing is known of its load.
  [[nodiscard]] virtual std::optional<GroupLoad> loadOf(GroupId) const { return std::nullopt; }
};

}  // namespace coterie::controller
