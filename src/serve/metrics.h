// What `coterie serve` tells Prometheus: the gateway's counts, each group's CPUs, and the process itself.
//
// Nothing here is on the request path: a scrape takes a snapshot of the gateway and of the DRC and mirrors it into a registry, whose labels are
// bounded (tenants and services are configured names and pinned; reasons are the gateway's own words; at most 20,000 series, then "other"). A name
// that neither snapshot has any more is dropped with its series by the scrape that misses it, however it went. Every request metric carries a tenant
// label. Complexity: O(series) per scrape. Thread rule: the control loop.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "controller/instance_reconciler.h"
#include "gateway/statistics.h"
#include "http/server.h"
#include "prometheus/registry.h"

namespace coterie::serve {

class ServeMetrics {
 public:
  ServeMetrics();
  // The text of a scrape, from figures of now. For a tenant: its own calls, and what is told of its own services.
  [[nodiscard]] std::string scrape(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server,
                                   const std::vector<agent::GroupView>& groups, const agent::DrcView& drc,
                                   const std::vector<controller::ServiceSummary>& summaries = {}, const std::optional<TenantName>& tenant = {},
                                   std::optional<std::int64_t> accessLinesDropped = {});  // nothing: there is no access log

 private:
  using Names = std::set<std::string>;
  void fillService(const gateway::ServiceSnapshot& service);
  void fillCaller(const std::string& service, const gateway::CallerSnapshot& caller);
  void fillLimits(const gateway::LimitSnapshot& limits);
  void fillTenant(const gateway::TenantSnapshot& tenant);
  void fillServer(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server);
  void fillGroup(const agent::GroupView& group);
  void fillWidth(const controller::ServiceSummary& summary);
  void fillDrc(const agent::DrcView& drc);

  prometheus::Registry registry_;
  std::vector<std::int64_t> bounds_;
};

}  // namespace coterie::serve
