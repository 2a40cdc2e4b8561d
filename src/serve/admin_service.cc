#include "serve/admin_service.h"

#include <algorithm>
#include <utility>

#include "allocation/isolation_terms.h"
#include "base/count_text.h"
#include "serve/explain_text.h"

namespace coterie::serve {

namespace {
constexpr Millis kTick{500};
constexpr Millis kStill{2500};

std::string_view stateName(controller::InstanceState state) {
  switch (state) {
    case controller::InstanceState::Starting: return "Starting";
    case controller::InstanceState::Ready: return "Loaded";
    case controller::InstanceState::Serving: return "Ready";
    default: return "Draining";
  }
}

const agent::ContainerView* containerOf(const agent::GroupView& group, InstanceId id) {
  const auto found =
      std::find_if(group.containers.begin(), group.containers.end(), [&](const agent::ContainerView& one) { return one.instance == id; });
  return found == group.containers.end() ? nullptr : &*found;
}

MilliCpu homeOf(const agent::GroupView& group) {
  if (group.inPool) return group.entitlement;
  CpuSet home;
  for (const auto& container : group.containers) home |= container.home;
  return MilliCpu(1000LL * home.count());
}
// What stands between the plan and the kernel.
void sayTroubles(const agent::GroupView& group, const std::string& running, admin::Explanation& explanation) {
  const std::string rivals = running.empty() ? "" : "; running here: " + running;
  for (const auto& container : group.containers) {
    const std::string name = "instance " + std::to_string(container.instance.value);
    const std::string now = container.observed && !container.observed->home.empty() ? container.observed->home.toString() : "others";
    if (container.contested) {
      explanation.whyThese.push_back({"Contested", name + ": somebody else keeps setting its CPUs (now " + now + "; planned " +
                                                       container.home.toString() + "), and is left alone for a while" + rivals});
    }
    if (container.stuck) explanation.whyThese.push_back({"WriteHangs", name + ": a write of its CPUs has not returned from the kernel"});
  }
}
}  // namespace

Result<controller::ServiceSummary> AdminService::find(const ServiceName& service) const {
  auto summary = parts_.reconciler.summary(service);
  if (!summary) return admin::serviceNotFound(service);
  return *std::move(summary);
}

Result<admin::Explanation> AdminService::explain(const ServiceName& service, const std::optional<TenantName>& eyes) const {
  const auto summary = find(service);
  if (!summary) return summary.error();
  admin::Explanation explanation;
  explanation.service = service;
  explanation.tenant = summary->tenant;
  explanation.floor = summary->spec.minCpus;
  explanation.ceiling = summary->spec.maxCpus;
  explanation.instances = summary->serving;
  explanation.whyThisMany.push_back({"Instances", summary->spec.instances
                                                      ? "spec.instances asks for " + counted(*summary->spec.instances, "instance")
                                                      : counted(summary->desired, "instance") + ", within minInstances..maxInstances"});
  for (const auto& obstacle : summary->obstacles) explanation.whyNotMore.push_back({obstacle.reason, obstacle.message});
  const agent::DrcView view = parts_.drc.view();
  if (const auto group = parts_.drc.explainGroup(summary->group)) {
    explainCpus(*group, view, eyes, explanation);
    if (group->spec.isolation != Isolation::None) {
      explanation.isolation = isolationName(group->spec.isolation);  // what is in force; one that was refused is among the obstacles
      explanation.whyThese.push_back(
          {"Isolated", allocation::isolationText(group->spec.isolation, parts_.bridge.isolationTerms(group->spec.isolation))});
    }
  }
  explanation.width = explainWidth(*summary);
  if (view.frozen) explanation.whyNotMore.push_back({"ControllerOff", "`coterie drc off` is in force: plans are frozen; `coterie drc on` resumes"});
  leaveNothingOpen(explanation, {MilliCpu(1000LL * (view.allowed & view.online).count()), parts_.drc.groups().size(), summary->spec.instances == 0});
  return explanation;
}

void AdminService::explainCpus(const agent::GroupView& group, const agent::DrcView& view, const std::optional<TenantName>& eyes,
                               admin::Explanation& explanation) const {
  explanation.entitlement = group.entitlement;
  explanation.demand = group.demand;
  CpuSet home;
  CpuSet loans;
  for (const auto& container : group.containers) {
    home |= container.home;
    loans |= container.loans;
    explanation.ownLanes += container.lanes.ownLanes;
    explanation.loanLanes += container.lanes.loanLanes;
  }
  (group.inPool ? explanation.pool : explanation.home) = group.inPool ? view.pool.toString() : home.toString();
  explanation.loans = loans.toString();
  if (group.inPool) {
    explanation.whyThese.push_back(
        {"SharedPool", "services entitled to less than one CPU share the pool, CPUs " + view.pool.toString() + ", each by its weight"});
  }
  ReasonTexts texts = explainReasons(group.reasons, explanation.tenant, [this, &eyes, &group](GroupId id) {
    const auto other = parts_.drc.explainGroup(id);
    return other && (!eyes || other->spec.tenant == group.spec.tenant) ? other->spec.service.path() : std::string();
  });
  const auto append = [](std::vector<admin::Because>& to, std::vector<admin::Because>& from) { to.insert(to.end(), from.begin(), from.end()); };
  append(explanation.whyThese, texts.whyThese);
  append(explanation.whyThisMany, texts.whyThisMany);
  append(explanation.whyNotMore, texts.whyNotMore);
  sayTroubles(group, eyes ? std::string() : view.rivals, explanation);
  for (const auto& caveat : view.caveats) explanation.whyThese.push_back({"Enforcement", view.controller + ": " + caveat});
  if (!group.cacheClass.empty()) explanation.whyThese.push_back({"CacheClass", group.cacheClass});
  for (const auto& condition : view.classes.conditions) explanation.whyThese.push_back({"CacheClasses", condition});
}

Result<std::vector<admin::InstanceInfo>> AdminService::instances(const ServiceName& service) const {
  const auto summary = find(service);
  if (!summary) return summary.error();
  const auto group = parts_.drc.explainGroup(summary->group);
  std::vector<admin::InstanceInfo> infos;
  for (const auto& instance : summary->instances) {
    admin::InstanceInfo info;
    info.id = instance.id;
    info.pid = instance.pid;
    info.state = stateName(instance.state);
    info.restarts = summary->restarts;
    info.memory = parts_.runtime.residentMemory(instance.id);
    info.memoryLimit = instance.memoryLimit;
    info.started = instance.started;
    if (const auto* container = group ? containerOf(*group, instance.id) : nullptr) {
      info.home = container->observed ? container->observed->home.toString() : container->home.toString();
      info.ownLanes = container->lanes.ownLanes;
      info.loanLanes = container->lanes.loanLanes;
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

// Whoever looks, and whenever, sees the last second.
void AdminService::tick() {
  const auto groups = parts_.drc.groups();
  for (const auto& group : groups) measure(group);
  std::erase_if(rates_, [&](const auto& entry) {
    return std::none_of(groups.begin(), groups.end(), [&](const agent::GroupView& one) { return one.spec.id == entry.first; });
  });
  timer_ = parts_.loop.after(kTick, [this] { tick(); });
}

void AdminService::measure(const agent::GroupView& group) {
  Rates& rates = rates_[group.spec.id];
  const Instant now = parts_.loop.clock().now();
  const Nanos passed = now - rates.at;
  // The controller counts use once a second: between two counts nothing moves, and that is not zero use.
  if (group.counters.used == rates.used && passed < kStill) return;
  if (rates.at != Instant{} && passed > Nanos{}) {
    const auto milliCpus = [&](Nanos more) { return MilliCpu(more.count() * 1000 / passed.count()); };
    rates.use = milliCpus(group.counters.used - rates.used);
    rates.lentRate = milliCpus(group.counters.lent - rates.lent);
    rates.borrowedRate = milliCpus(group.counters.borrowed - rates.borrowed);
  }
  rates.at = now;
  rates.used = group.counters.used;
  rates.lent = group.counters.lent;
  rates.borrowed = group.counters.borrowed;
}

admin::TopReport AdminService::top() const {
  admin::TopReport report;
  const agent::DrcView view = parts_.drc.view();
  report.capacity = MilliCpu(1000LL * (view.allowed & view.online).count());
  report.drcOn = !view.frozen;
  const auto groups = parts_.drc.groups();
  const GatewayFigures figures = parts_.bridge.figures();
  for (const auto& summary : parts_.reconciler.summaries()) {
    admin::TopService top;
    top.service = summary.name;
    top.tenant = summary.tenant;
    top.ready = summary.serving > 0;
    top.instances = summary.serving;
    top.objective = summary.spec.objective ? summary.spec.objective->latency : Nanos{};
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const agent::GroupView& one) { return one.spec.id == summary.group; });
    const auto& services = figures.gateway.services;
    const auto service =
        std::find_if(services.begin(), services.end(), [&](const gateway::ServiceSnapshot& one) { return one.name == summary.name; });
    if (service != services.end()) {
      top.queued = service->queued;
      top.inFlight = service->inFlight;
      top.p50 = Nanos(service->recentTotal.quantile(0.5));
      top.p99 = Nanos(service->recentTotal.quantile(0.99));
    }
    if (group != groups.end()) {
      const auto found = rates_.find(group->spec.id);
      const Rates rates = found == rates_.end() ? Rates{} : found->second;
      top.requestsPerSecond = static_cast<double>(parts_.bridge.sampleDemand(group->spec.id).arrivals.value) / 1000;
      top.entitlement = group->entitlement;
      top.home = homeOf(*group);
      top.use = rates.use;
      top.lent = rates.lentRate;
      top.borrowed = rates.borrowedRate;
      if (group->spec.isolation != Isolation::None) top.isolation = isolationName(group->spec.isolation);
      report.use += rates.use;
    }
    report.services.push_back(std::move(top));
  }
  return report;
}

std::vector<admin::LimitLine> AdminService::limits() const {
  std::vector<admin::LimitLine> lines;
  for (const gateway::LimitSnapshot& each : parts_.bridge.figures().gateway.limits) {
    for (const tenancy::LimitUse& use : each.uses) lines.push_back({each.tenant, each.service, use});
  }
  return lines;
}

Result<admin::LogPage> AdminService::logs(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const {
  if (const auto summary = find(service); !summary) return summary.error();
  return parts_.logs.read(service, after, most);
}

Status AdminService::setDrc(admin::DrcMode mode) {
  mode == admin::DrcMode::Off ? parts_.drc.freeze() : parts_.drc.unfreeze();
  return {};
}

Result<identity::NewKey> AdminService::createKey(const TenantName& tenant, Role role, const std::string& label, std::optional<Seconds> lifetime) {
  return parts_.keys.create(tenant, role, label, lifetime, parts_.loop.clock().wall());
}

Result<identity::NewKey> AdminService::rotateKey(const std::string& id, Seconds overlap) {
  return parts_.keys.rotate(id, overlap, parts_.loop.clock().wall());
}

Status AdminService::revokeKey(const std::string& id) { return parts_.keys.revoke(id, parts_.loop.clock().wall()); }

Result<identity::Identity> AdminService::authenticate(std::string_view key) const {
  return parts_.keys.snapshot()->authenticate(key, parts_.loop.clock().wall());
}

bool AdminService::stillValid(const identity::Identity& identity) const {
  return parts_.keys.snapshot()->stillValid(identity, parts_.loop.clock().wall());
}

Status AdminService::revokeAllKeys(const TenantName& tenant) {
  const auto revoked = parts_.keys.revokeAll(tenant, parts_.loop.clock().wall());
  return revoked ? Status{} : Status(revoked.error());
}

Bytes AdminService::measuredMemory(const ServiceName& service) const {
  const auto summary = parts_.reconciler.summary(service);
  return summary ? summary->measuredMemory : Bytes{};
}

}  // namespace coterie::serve
