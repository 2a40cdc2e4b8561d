// Tenants: who owns which namespace, told to the gateway and written back as conditions.
//
// Level-triggered: each change of a Tenant builds the directory anew, tells the gateway what differs, and writes status {conditions,
// observedGeneration, namespaces}. Conditions: Ready = True/Accepted, False/NamespaceConflict (an older tenant owns one of its namespaces),
// False/InvalidSpec. WithinQuota = True/WithinQuota, False/OverQuota (a quota was lowered below what is used: field, limit and use are named; what
// runs goes on and nothing is added). A turn of either is an event. Errors: a status that cannot be written is logged and tried again in 5 s. Thread
// rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "controller/gateway_port.h"
#include "controller/object_follower.h"
#include "controller/tenants.h"
#include "ports/clock.h"
#include "ports/event_log.h"
#include "ports/object_store.h"
#include "tenancy/quota.h"

namespace coterie::controller {

class TenantReconciler {
 public:
  TenantReconciler(EventLoop& loop, ObjectStore& store, EventLog& events, GatewayPort& gateway);

  // Reads what is there (directory() is complete when this returns) and follows it.
  [[nodiscard]] Status start();
  [[nodiscard]] const TenantDirectory& directory() const { return directory_; }
  // Called after the directory changed, on the loop.
  void onChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Where a tenant uses more than its quota is known elsewhere; excessChanged() has it asked for and written anew.
  void askExcess(std::function<std::vector<tenancy::QuotaExcess>(const TenantName&)> excessOf) { excessOf_ = std::move(excessOf); }
  void excessChanged() { statuses_.trigger(); }

 private:
  void reconcile();
  void tellGateway(const TenantDirectory& before);
  void writeStatuses(const std::vector<StoredObject>& tenants);
  [[nodiscard]] bool writeStatus(const StoredObject& object, const TenantView& view);

  EventLoop& loop_;
  ObjectStore& store_;
  EventLog& events_;
  GatewayPort& gateway_;
  Coalesced pass_;
  Coalesced statuses_;
  ObjectFollower follower_;
  TenantDirectory directory_;
  std::function<void()> changed_;
  std::function<std::vector<tenancy::QuotaExcess>(const TenantName&)> excessOf_;
  TimerHandle retry_;
};

}  // namespace coterie::controller
