// The backends of all services, on the gateway's loop: which model version is current, who still drains, when a backend may go.
//
// One LocalBackend per (service, model version); all of a service share its request arena. The first instance of a new version makes its backend
// current: new requests go there at once, and instances of the old version are let go only after what was queued for them has been answered. O(log
// services) per call. Thread rule: the gateway's loop; callbacks there too.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "channel/arena.h"
#include "channel/local_backend.h"
#include "gateway/gateway.h"
#include "model/ids.h"
#include "ports/clock.h"

namespace coterie::serve {

class GatewaySide {
 public:
  using LoadReady = std::function<void(const ServiceName&, std::shared_ptr<const gateway::ServiceLoad>)>;

  // loadReady: called when a service's load cell exists (again).
  GatewaySide(EventLoop& loop, gateway::Gateway& gateway, channel::Supervision& supervision, LoadReady loadReady);

  void setService(const ServiceName& service, const gateway::ServiceSettings& settings, std::shared_ptr<channel::RequestArena> arena);
  void removeService(const ServiceName& service);
  void addInstance(const ServiceName& service, const std::string& version, channel::InstanceEndpoint endpoint);
  void drainInstance(InstanceId instance, std::function<void()> drained);
  void suspendInstance(InstanceId instance);
  void resumeInstance(InstanceId instance);
  void instanceGone(InstanceId instance);

 private:
  struct Backend {
    std::unique_ptr<channel::LocalBackend> local;
    bool current{true};
    bool idle{false};  // replaced or withdrawn, and nothing is queued or running there any more
    int instances{0};
    std::vector<std::pair<InstanceId, std::function<void()>>> waiting;  // drains that wait for idle
  };
  using BackendKey = std::pair<ServiceName, std::string>;
  struct Service {
    gateway::ServiceSettings settings;
    std::shared_ptr<channel::RequestArena> arena;
    std::string version;  // key of the current backend; empty: none
    // Counts up when a service of this name is made anew: its arena is another one then, and so must its backends be.
    std::uint64_t life{0};
  };

  [[nodiscard]] Backend& backendFor(const ServiceName& service, const std::string& version, const ModelSignature& signature);
  void becameIdle(const BackendKey& key);
  void drop(const BackendKey& key);
  [[nodiscard]] std::function<void()> retire(const ServiceName& service);

  EventLoop& loop_;
  gateway::Gateway& gateway_;
  channel::Supervision& supervision_;
  LoadReady loadReady_;
  std::uint64_t lives_{0};
  std::map<ServiceName, Service> services_;
  std::map<BackendKey, Backend> backends_;
  std::map<InstanceId, BackendKey> instances_;
};

}  // namespace coterie::serve
