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
    ready.message = "namespace " + conflict.nameSpace + " belongs to tenant " + conflict.owner.value +
                    ", which claimed it first: use another one, or have it given up there";
  }
  return ready;
}

Condition withinQuota(const std::vector<tenancy::QuotaExcess>& excess, std::int64_t generation) {
  if (excess.empty()) return {"WithinQuota", ConditionStatus::True, generation, 0, "WithinQuota", "uses no more than its quota"};
  return {"WithinQuota", ConditionStatus::False,
          generation,    0,
          "OverQuota",   tenancy::excessText(excess) + ": what runs goes on and nothing is added. Delete or shrink services, or raise the quota"};
}

bool turned(const Condition* before, const Condition& now) {
  if (before == nullptr) return now.type == "Ready" || now.status == ConditionStatus::False;
  return before->reason != now.reason || (before->message != now.message && now.type == "Ready");
}
}  // namespace

TenantReconciler::TenantReconciler(EventLoop& loop, ObjectStore& store, EventLog& events, GatewayPort& gateway)
    : loop_(loop),
      store_(store),
      events_(events),
      gateway_(gateway),
      pass_(loop, [this] { reconcile(); }),
      statuses_(loop,
                [this] {
                  if (const Result<ObjectList> list = store_.list(std::string(kTenantKind), std::nullopt); list.ok()) writeStatuses(list->objects);
                }),
      follower_(store, std::string(kTenantKind), [this] { pass_.trigger(); }) {}

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
  writeStatuses(list->objects);
  if (changed_) changed_();
}

void TenantReconciler::writeStatuses(const std::vector<StoredObject>& tenants) {
  bool written = true;
  for (const StoredObject& object : tenants) {
    const auto view = directory_.tenants().find(TenantName(object.key.name));
    if (view != directory_.tenants().end()) written = writeStatus(object, view->second) && written;  // else: a pass that knows it is under way
  }
  if (!written) retry_ = loop_.after(kRetry, [this] { pass_.trigger(); });
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
  std::vector<Condition> news;
  for (const Condition& condition :
       {readyOf(view, object.generation), withinQuota(excessOf_ ? excessOf_(view.name) : std::vector<tenancy::QuotaExcess>(), object.generation)}) {
    if (turned(objects::findCondition(conditions, condition.type), condition)) news.push_back(condition);
    objects::setCondition(conditions, condition, loop_.clock().wall().micros);
  }
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
  for (const Condition& condition : news) {
    Event event;
    event.object = object.key;
    event.reason = condition.reason;
    event.message = condition.message;
    (void)events_.append(std::move(event));
  }
  return true;
}

}  // namespace coterie::controller
