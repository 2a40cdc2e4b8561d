// What the reconcilers tell the gateway. Implemented where the parts are wired together (src/serve); a fake in tests.
//
// The order of calls for one service: setService (again whenever something changed), then addInstance for instances that are loaded, drainInstance,
// instanceGone; removeService comes before its instances are drained: from then on its names do not exist. Instances added with the same `version`
// serve the same model; adding the first one of another version switches new requests to it at once, and the old version's instances only finish what
// they have. Thread rule: control loop; nothing here calls back from inside the call.
#pragma once

#include <functional>
#include <string>

#include "base/units.h"
#include "model/ids.h"
#include "model/objects.h"
#include "ports/container_runtime.h"

namespace coterie::controller {

struct GatewayService {
  ModelService service;
  TenantName tenant;
  std::string notReadyReason;  // CamelCase: why no instance serves; empty: one does
  std::string notReadyMessage;
  Instant noInstanceBefore{};  // known: the restart back-off; zero: not known
};

class GatewayPort {
 public:
  virtual ~GatewayPort() = default;
  virtual void setTenant(const TenantName& tenant, const TenantSpec& spec) = 0;  // spec.namespaces: those it owns, in the order written
  virtual void removeTenant(const TenantName& tenant) = 0;
  virtual void setService(const GatewayService& service) = 0;
  virtual void removeService(const ServiceName& service) = 0;
  virtual void addInstance(const ServiceName& service, const std::string& version, InstanceId instance, const InstanceReady& ready) = 0;
  // No new requests; `drained` once nothing of it is queued there or running.
  virtual void drainInstance(InstanceId instance, std::function<void()> drained) = 0;
  // It lives and does nothing: out of the rotation, what it has not taken goes elsewhere. And back.
  virtual void suspendInstance(InstanceId instance) = 0;
  virtual void resumeInstance(InstanceId instance) = 0;
  virtual void instanceGone(InstanceId instance) = 0;  // ended, whatever the reason; also for ones never added
  // After instanceGone: it was killed by somebody outside, so what it ran is not to blame.
  virtual void instanceEndedFromOutside(InstanceId) {}
};

}  // namespace coterie::controller
