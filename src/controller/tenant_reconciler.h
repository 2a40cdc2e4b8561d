// Tenants: who owns which namespace, told to the gateway and written back as conditions.
//
// Level-triggered: each change of a Tenant builds the directory anew, tells the gateway what differs, and writes status {conditions, observedGeneration, namespaces}.
// Conditions: Ready = True/Accepted, False/NamespaceConflict (an older tenant owns one of its namespaces), False/InvalidSpec.
// Errors: a status that cannot be written is logged and tried again in 5 s. Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "controller/gateway_port.h"
#include "controller/object_follower.h"
#include "controller/tenants.h"
#include "ports/clock.h"
#include "ports/event_log.h"
#include "ports/object_store.h"

namespace coterie::controller {

class TenantReconciler {
 public:
  TenantReconciler(EventLoop& loop, ObjectStore& store, EventLog& events, GatewayPort& gateway);

  // Reads what is there (directory() is complete when this returns) and follows it.
  [[nodiscard]] Status start();
  [[nodiscard]] const TenantDirectory& directory() const { return directory_; }
  // Called after the directory changed, on the loop.
  void onChange(std::function<void()> changed) { changed_ = std::move(changed); }

 private:
  void reconcile();
  void tellGateway(const TenantDirectory& before);
  [[nodiscard]] bool writeStatus(const StoredObject& object, const TenantView& view);

  EventLoop& loop_;
  ObjectStore& store_;
  EventLog& events_;
  GatewayPort& gateway_;
  Coalesced pass_;
  ObjectFollower follower_;
  TenantDirectory directory_;
  std::function<void()> changed_;
  TimerHandle retry_;
};

}  // namespace coterie::controller
