#include "serve/gateway_side.h"

#include <utility>

#include "base/log.h"

namespace coterie::serve {

GatewaySide::GatewaySide(EventLoop& loop, gateway::Gateway& gateway, channel::Supervision& supervision, LoadReady loadReady)
    : loop_(loop), gateway_(gateway), supervision_(supervision), loadReady_(std::move(loadReady)) {}

void GatewaySide::setService(const ServiceName& service, const gateway::ServiceSettings& settings, std::shared_ptr<channel::RequestArena> arena) {
  Service& entry = services_[service];
  if (entry.life == 0) entry.life = ++lives_;
  entry.settings = settings;
  if (entry.arena == nullptr) entry.arena = std::move(arena);
  const auto backend = backends_.find({service, entry.version});
  loadReady_(service, gateway_.publishService(service, settings, backend == backends_.end() ? nullptr : backend->second.local.get()));
}

// What to do once the gateway has nothing left for the current backend.
std::function<void()> GatewaySide::retire(const ServiceName& service) {
  const BackendKey key{service, services_[service].version};
  const auto found = backends_.find(key);
  if (found == backends_.end()) return {};
  found->second.current = false;
  return [this, key] { becameIdle(key); };
}

void GatewaySide::removeService(const ServiceName& service) {
  if (!services_.contains(service)) return;
  gateway_.withdrawService(service, retire(service));
  services_.erase(service);
}

GatewaySide::Backend& GatewaySide::backendFor(const ServiceName& service, const std::string& version, const ModelSignature& signature) {
  Service& entry = services_[service];
  const BackendKey key{service, version};
  Backend& backend = backends_[key];
  if (backend.local == nullptr) backend.local = std::make_unique<channel::LocalBackend>(loop_, entry.arena, signature, supervision_);
  if (entry.version == version) return backend;
  std::function<void()> retired = entry.version.empty() ? std::function<void()>{} : retire(service);
  entry.version = version;
  backend.current = true;
  backend.idle = false;
  loadReady_(service, gateway_.publishService(service, entry.settings, backend.local.get(), std::move(retired)));
  return backend;
}

void GatewaySide::addInstance(const ServiceName& service, const std::string& version, channel::InstanceEndpoint endpoint) {
  const auto entry = services_.find(service);
  if (entry == services_.end()) return;  // removed meanwhile; its instances are being stopped
  const InstanceId id = endpoint.id;
  const std::string key = version + "#" + std::to_string(entry->second.life);
  Backend& backend = backendFor(service, key, endpoint.signature);
  if (const Status added = backend.local->addInstance(std::move(endpoint)); !added) {
    supervision_.misbehaved(id, EndReason::ProtocolViolation, added.error().message);
    return;
  }
  ++backend.instances;
  instances_[id] = {service, key};
}

void GatewaySide::drainInstance(InstanceId instance, std::function<void()> drained) {
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return drained();
  Backend& backend = backends_[found->second];
  if (!backend.current && !backend.idle) {
    backend.waiting.emplace_back(instance, std::move(drained));
  } else {
    backend.local->drainInstance(instance, std::move(drained));
  }
}

void GatewaySide::suspendInstance(InstanceId instance) {
  if (const auto found = instances_.find(instance); found != instances_.end()) backends_[found->second].local->suspendInstance(instance);
}

void GatewaySide::resumeInstance(InstanceId instance) {
  if (const auto found = instances_.find(instance); found != instances_.end()) backends_[found->second].local->resumeInstance(instance);
}

void GatewaySide::becameIdle(const BackendKey& key) {
  const auto found = backends_.find(key);
  if (found == backends_.end() || found->second.current) return;
  found->second.idle = true;
  for (auto& [instance, drained] : std::exchange(found->second.waiting, {})) found->second.local->drainInstance(instance, std::move(drained));
  drop(key);
}

void GatewaySide::instanceGone(InstanceId instance) {
  const auto found = instances_.find(instance);
  if (found == instances_.end()) return;
  const BackendKey key = found->second;
  instances_.erase(found);
  Backend& backend = backends_[key];
  backend.local->removeInstance(instance);
  --backend.instances;
  for (auto waiting = backend.waiting.begin(); waiting != backend.waiting.end();) {
    if (waiting->first != instance) {
      ++waiting;
      continue;
    }
    loop_.post(std::move(waiting->second));
    waiting = backend.waiting.erase(waiting);
  }
  drop(key);
}

// A backend that nobody needs goes on a turn of its own: we may be inside one of its callbacks.
void GatewaySide::drop(const BackendKey& key) {
  loop_.post([this, key] {
    const auto found = backends_.find(key);
    if (found != backends_.end() && !found->second.current && found->second.idle && found->second.instances == 0) backends_.erase(found);
  });
}

}  // namespace coterie::serve
