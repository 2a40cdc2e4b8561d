#include "controller/tenant_reconciler.h"

#include <utility>
#include <vector>

#include "base/log.h"
#include "objects/encode.h"

namespace coterie::controller {

namespace {
constexpr Seconds kRetry{5};

bool sameForGateway(const TenantSpec& a, const TenantSpec& b) { return objects::encodeSpec(a) == objects::encodeSpec(b); }

Condition readyOf(const TenantView& view, std::int64_t generation) {
  Condition ready{"Ready", ConditionStatus::True, generation, 0, "Accepted", "owns its namespaces"};
  if (!view.faults.empty()) {
    ready.status = ConditionStatus::False;
    ready.reason = "InvalidSpec";
    ready.message = faultText(view.faults.front());
  } else if (!view.conflicts.empty()) {
    const NamespaceConflict& conflict = view.conflicts.front();
    ready.status = ConditionStatus::False;
    ready.reason = "NamespaceConflict";
    ready.message = "namespace " + conflict.nameSpace + " belongs to tenant " + conflict.owner.value + ", which claimed it first: use another one, or have it given up there";
  }
  return ready;
}
}  // namespace

TenantReconciler::TenantReconciler(EventLoop& loop, ObjectStore& store, EventLog& events, GatewayPort& gateway)
    : loop_(loop), store_(store), events_(events), gateway_(gateway), pass_(loop, [this] { reconcile(); }), follower_(store, std::string(kTenantKind), [this] { pass_.trigger(); }) {}

Status TenantReconciler::start() {
  if (Status followed = follower_.start(); !followed.ok()) return followed;
  reconcile();
  return {};
}

void TenantReconciler::reconcile() {
  const Result<ObjectList> list = store_.list(std::string(kTenantKind), std::nullopt);
  if (!list.ok()) {
    log::error("tenants", "cannot be read: " + list.error().message);
    retry_ = loop_.after(kRetry, [this] { pass_.trigger(); });
    return;
  }
  const TenantDirectory before = std::exchange(directory_, TenantDirectory(list->objects));
  tellGateway(before);
  bool written = true;
  for (const StoredObject& object : list->objects) written = writeStatus(object, directory_.tenants().at(TenantName(object.key.name))) && written;
  if (!written) retry_ = loop_.after(kRetry, [this] { pass_.trigger(); });
  if (changed_) changed_();
}

void TenantReconciler::tellGateway(const TenantDirectory& before) {
  for (const auto& [name, view] : before.tenants()) {
    if (!directory_.tenants().contains(name)) gateway_.removeTenant(name);
  }
  for (const auto& [name, view] : directory_.tenants()) {
    const auto known = before.tenants().find(name);
    if (known == before.tenants().end() || !sameForGateway(known->second.spec, view.spec)) gateway_.setTenant(name, view.spec);
  }
}

bool TenantReconciler::writeStatus(const StoredObject& object, const TenantView& view) {
  std::vector<Condition> conditions = objects::decodeConditions(object.status.find("conditions"));
  const Condition ready = readyOf(view, object.generation);
  const Condition* present = objects::findCondition(conditions, "Ready");
  const bool turned = present == nullptr || present->reason != ready.reason || present->message != ready.message;
  objects::setCondition(conditions, ready, loop_.clock().wall().micros);
  StoredObject next = object;
  next.resourceVersion = 0;
  next.status = Value::emptyMap();
  next.status.set("observedGeneration", object.generation);
  Value owned = Value::emptyList();
  for (const std::string& nameSpace : view.spec.namespaces) owned.push(nameSpace);
  next.status.set("namespaces", std::move(owned));
  next.status.set("conditions", objects::encodeConditions(conditions));
  if (next.status == object.status) return true;
  const Result<StoredObject> stored = store_.updateStatus(std::move(next));
  if (!stored.ok() && stored.error().code != Code::NotFound) {
    log::error("tenants", "status of " + view.name.value + " was not written: " + stored.error().message);
    return false;
  }
  if (turned) {
    Event event;
    event.object = object.key;
    event.reason = ready.reason;
    event.message = ready.message;
    (void)events_.append(std::move(event));
  }
  return true;
}

}  // namespace coterie::controller
