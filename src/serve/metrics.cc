#include "serve/metrics.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "gateway/statistics.h"

namespace coterie::serve {

namespace {
using prometheus::Unit;

const std::vector<std::string> kService{"tenant", "service"};
const std::vector<std::string> kTenant{"tenant"};
const std::vector<std::int64_t> kBatchSizes{1, 2, 4, 8, 16, 32, 64};

// What a series says of a label; null: it has none of that name.
const std::string* valueOf(std::string_view label, const std::vector<std::string>& labels, const std::vector<std::string>& values) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  return found == labels.end() ? nullptr : &values[static_cast<std::size_t>(found - labels.begin())];
}

void mirror(prometheus::Histogram& to, const Histogram& from) {
  std::vector<std::int64_t> atMost;
  for (const std::int64_t bound : to.bounds()) atMost.push_back(from.countAtMost(bound));
  to.mirror(atMost, from.count(), from.sum());
}
}  // namespace

ServeMetrics::ServeMetrics() : bounds_(prometheus::latencyBounds()) {}

std::string ServeMetrics::scrape(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server,
                                 const std::vector<agent::GroupView>& groups, const agent::DrcView& drc,
                                 const std::vector<controller::ServiceSummary>& summaries, const std::optional<TenantName>& tenant,
                                 std::optional<std::int64_t> accessLinesDropped) {
  Names tenants;
  for (const auto& each : gateway.tenants) tenants.insert(each.tenant.value);
  Names services;
  for (const auto& service : gateway.services) {
    services.insert(service.name.path());
    tenants.insert(service.tenant.value);
    for (const auto& caller : service.callers) tenants.insert(caller.tenant.value);
  }
  // A group outlives its service in the gateway while its last instances drain.
  for (const auto& group : groups) services.insert(group.spec.service.path());
  registry_.keepOnly("tenant", tenants);
  registry_.keepOnly("service", services);
  registry_.beginRound();
  for (const auto& each : gateway.tenants) fillTenant(each);
  for (const auto& limits : gateway.limits) fillLimits(limits);
  for (const auto& service : gateway.services) fillService(service);
  for (const auto& group : groups) fillGroup(group);
  for (const auto& summary : summaries) {
    if (services.count(summary.name.path()) > 0) fillWidth(summary);
  }
  fillServer(gateway, server);
  if (accessLinesDropped) {
    registry_.counter({"coterie_access_log_lines_dropped_total", "Lines that the access log's disk did not take in time.", {}})
        .with()
        .mirror(*accessLinesDropped);
  }
  fillDrc(drc);
  if (!tenant) return registry_.scrape();
  Names own;
  for (const auto& service : gateway.services) {
    if (service.tenant == *tenant) own.insert(service.name.path());
  }
  return registry_.scrape([&](const std::vector<std::string>& labels, const std::vector<std::string>& values) {
    if (const std::string* whose = valueOf("tenant", labels, values)) return *whose == tenant->value;
    const std::string* service = valueOf("service", labels, values);
    return service != nullptr && own.contains(*service);
  });
}

// By who called: a tenant's own calls, of whomever's service.
void ServeMetrics::fillCaller(const std::string& name, const gateway::CallerSnapshot& caller) {
  const std::string& tenant = caller.tenant.value;
  auto& requests = registry_.counter(
      {"coterie_requests_total", "Requests answered, by caller and status; 499: the client left before the answer.", {"tenant", "service", "code"}});
  for (std::size_t i = 0; i < gateway::kStatuses.size(); ++i) {
    if (caller.requests.byStatus[i] > 0) requests.with({tenant, name, std::to_string(gateway::kStatuses[i])}).mirror(caller.requests.byStatus[i]);
  }
  auto& refused =
      registry_.counter({"coterie_requests_refused_total", "Requests not served, by caller and reason.", {"tenant", "service", "reason"}});
  for (const auto& [reason, count] : caller.requests.refused) refused.with({tenant, name, reason}).mirror(count);
  const auto histogram = [&](const char* family, const char* help, const Histogram& values) {
    mirror(registry_.histogram({family, help, kService, Unit::Nanos}, bounds_).with({tenant, name}), values);
  };
  histogram("coterie_request_duration_seconds", "From the complete request head to the answer, of requests that succeeded, by caller.", caller.total);
  histogram("coterie_queue_duration_seconds", "Waiting for a lane, of requests that got one, by caller.", caller.queue);
  histogram("coterie_run_duration_seconds", "On a lane, by caller.", caller.run);
  const auto counter = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::None) {
    registry_.counter({family, help, kService, unit}).with({tenant, name}).mirror(value);
  };
  counter("coterie_requests_within_objective_total", "Requests that succeeded within the service's latency objective, by caller.",
          caller.withinObjective);
  counter("coterie_slot_seconds_total", "Time that lanes were held, less what runs waited for a CPU: what fairness divides, by caller.",
          caller.slotNanos, Unit::Nanos);
  counter("coterie_slot_entitled_seconds_total",
          "The caller's share of the slots over the time that it had requests waiting or running: who always has work gets at least that.",
          caller.entitledNanos, Unit::Nanos);
  counter("coterie_request_bytes_total", "Tensor bytes accepted, by caller.", caller.bytesIn, Unit::Bytes);
  counter("coterie_response_bytes_total", "Bytes of successful answers, by caller.", caller.bytesOut, Unit::Bytes);
}

void ServeMetrics::fillService(const gateway::ServiceSnapshot& service) {
  const std::string& tenant = service.tenant.value;
  const std::string name = service.name.path();
  for (const gateway::CallerSnapshot& caller : service.callers) fillCaller(name, caller);
  if (service.batching) {
    std::vector<std::int64_t> atMost;
    for (const std::int64_t size : kBatchSizes) atMost.push_back(service.runs.runsOfAtMost(size));
    registry_.histogram({"coterie_batch_requests", "Requests that ran as one, by run, of services with batching.", kService}, kBatchSizes)
        .with({tenant, name})
        .mirror(atMost, service.runs.runs(), service.runs.requests());
  }
  const auto gauge = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::None) {
    registry_.gauge({family, help, kService, unit}).with({tenant, name}).set(value);
  };
  gauge("coterie_fairness_jain_ratio",
        "Jain's index of used by entitled slot time in the last full 10 s, over callers that waited all the time; 1: fewer than two, or all alike.",
        service.jainPermille, Unit::Permille);
  gauge("coterie_requests_queued", "Requests that wait for a lane.", service.queued);
  gauge("coterie_queued_request_bytes", "Memory held by requests that wait.", service.queuedBytes, Unit::Bytes);
  if (service.stateful) gauge("coterie_sequences", "Sequences that have begun and not ended, of stateful services.", service.sequences);
  gauge("coterie_requests_running", "Requests on lanes.", service.inFlight);
  gauge("coterie_own_lanes_open", "Own lanes that may take requests.", service.openOwnLanes);
  gauge("coterie_loan_lanes_open", "Loan lanes that may take requests.", service.openLoanLanes);
}

void ServeMetrics::fillLimits(const gateway::LimitSnapshot& limits) {
  const std::string& tenant = limits.tenant.value;
  for (const tenancy::LimitUse& use : limits.uses) {
    if (use.limit == 0 && use.hits == 0) continue;
    const std::string name(tenancy::limitName(use.kind));
    if (limits.service) {
      registry_
          .counter({"coterie_service_limit_hits_total",
                    "Requests refused by the service's tenantLimits, by caller and limit.",
                    {"tenant", "service", "limit"}})
          .with({tenant, limits.service->path(), name})
          .mirror(use.hits);
    } else {
      registry_.counter({"coterie_limit_hits_total", "Requests refused by the tenant's quota, by limit.", {"tenant", "limit"}})
          .with({tenant, name})
          .mirror(use.hits);
    }
  }
}

void ServeMetrics::fillTenant(const gateway::TenantSnapshot& tenant) {
  registry_.gauge({"coterie_tenant_requests_concurrent", "Requests under way, which quota.concurrentRequests limits.", kTenant})
      .with({tenant.tenant.value})
      .set(tenant.concurrent);
  registry_.gauge({"coterie_tenant_queued_bytes", "Memory of waiting requests, which quota.queuedBytes limits.", kTenant, Unit::Bytes})
      .with({tenant.tenant.value})
      .set(tenant.queuedBytes);
  registry_.counter({"coterie_tenant_requests_started_total", "Requests of the tenant, whatever became of them.", kTenant})
      .with({tenant.tenant.value})
      .mirror(tenant.requests.started);
}

void ServeMetrics::fillServer(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server) {
  registry_.counter({"coterie_unauthenticated_requests_total", "Requests without a valid key.", {}}).with().mirror(gateway.unauthenticated.started);
  auto& refused = registry_.counter({"coterie_authentication_refused_total",
                                     "Requests of nobody, by reason; AuthenticationLimited: the key was not looked at, as too many bad ones came "
                                     "from its source address.",
                                     {"reason"}});
  for (const auto& [reason, count] : gateway.unauthenticated.refused) refused.with({reason}).mirror(count);
  registry_.gauge({"coterie_buffered_bytes", "JSON and compressed bodies held now.", {}, Unit::Bytes}).with().set(gateway.bufferedBytes);
  registry_.gauge({"coterie_connections_open", "Connections to the gateway.", {}}).with().set(server.open);
  registry_.counter({"coterie_connections_refused_total", "Connections over the limit.", {}}).with().mirror(server.refusedConnections);
  registry_.counter({"coterie_connections_closed_idle_total", "Idle connections closed, as one peer kept too many.", {}})
      .with()
      .mirror(server.closedIdle);
  registry_.counter({"coterie_bad_http_requests_total", "Requests refused before anybody looked at their content.", {}})
      .with()
      .mirror(server.badRequests);
  registry_.counter({"coterie_http_timeouts_total", "Slow clients cut off.", {}}).with().mirror(server.timeouts);
}

void ServeMetrics::fillGroup(const agent::GroupView& group) {
  // Without a tenant label: a service's tenant owns its namespace.
  const std::string name = group.spec.service.path();
  const auto gauge = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::MilliCpu) {
    registry_.gauge({family, help, {"service"}, unit}).with({name}).set(value);
  };
  const auto counter = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::None) {
    registry_.counter({family, help, {"service"}, unit}).with({name}).mirror(value);
  };
  gauge("coterie_group_entitlement_cpus", "Fair share of the machine.", group.entitlement.value);
  gauge("coterie_group_demand_cpus", "What the service could use now.", group.demand.value);
  gauge("coterie_group_grant_cpus", "Home CPUs and awake loans.", group.grant.value);
  CpuSet isolated;
  if (group.spec.isolation != Isolation::None) {
    for (const auto& container : group.containers) isolated |= container.home;
  }
  gauge("coterie_group_isolated_cpus", "CPUs of the whole cores, caches or nodes that an isolated service owns; 0: it is not isolated.",
        1000LL * isolated.count());
  counter("coterie_group_used_cpu_seconds_total", "CPU time of its lanes.", group.counters.used.count(), Unit::Nanos);
  counter("coterie_group_borrowed_cpu_seconds_total", "CPU time of its lanes on CPUs of others.", group.counters.borrowed.count(), Unit::Nanos);
  counter("coterie_group_lent_cpu_seconds_total", "CPU time of others on its CPUs.", group.counters.lent.count(), Unit::Nanos);
  counter("coterie_group_idle_entitled_cpu_seconds_total", "CPU time that it was entitled to and that neither it nor a borrower used.",
          group.counters.idle.count(), Unit::Nanos);
  counter("coterie_group_moves_total", "Changes of a home.", group.counters.moves);
  counter("coterie_group_apply_errors_total", "Writes to the kernel that failed or hung.", group.counters.applyErrors);
  counter("coterie_group_drift_repairs_total", "Times that somebody else's change was put right.", group.counters.driftRepairs);
  counter("coterie_group_conflicts_total", "Times that somebody else's changes became too many to be put right.", group.counters.conflicts);
}

void ServeMetrics::fillWidth(const controller::ServiceSummary& summary) {
  const std::string name = summary.name.path();
  const auto gauge = [&](const char* family, const char* help, std::int64_t value) {
    registry_.gauge({family, help, {"service"}}).with({name}).set(value);
  };
  const auto& choice = summary.width.choice;
  gauge("coterie_group_run_threads", "Threads by which one request is run, of instances that start now.", summary.width.inForce);
  gauge("coterie_group_proposed_run_threads", "The same as the width rule proposes it; 0: there is no proposal.", choice ? choice->chosen.width : 0);
  gauge("coterie_group_proposed_instances", "Instances that the width rule proposes; 0: there is no proposal.", choice ? choice->containers : 0);
}

void ServeMetrics::fillDrc(const agent::DrcView& drc) {
  registry_.counter({"coterie_plans_total", "Plans made by the resource controller.", {}}).with().mirror(drc.plans);
  registry_.counter({"coterie_plan_steps_total", "Steps of plans applied.", {}}).with().mirror(drc.stepsApplied);
  registry_.gauge({"coterie_controller_frozen", "1 while `coterie drc off` is in force.", {}}).with().set(drc.frozen ? 1 : 0);
}

}  // namespace coterie::serve
