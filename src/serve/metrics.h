// What `coterie serve` tells Prometheus: the gateway's counts, each group's CPUs, and the process itself.
//
// Nothing here is on the request path: a scrape takes a snapshot of the gateway and of the DRC and mirrors it into a registry, whose labels are
// bounded (tenants and services are configured names and pinned; reasons are the gateway's own words). Every request metric carries a tenant label.
// Complexity: O(services + tenants + groups) per scrape. Thread rule: the control loop.
#pragma once

#include <string>
#include <vector>

#include "agent/drc.h"
#include "gateway/statistics.h"
#include "http/server.h"
#include "prometheus/registry.h"

namespace coterie::serve {

class ServeMetrics {
 public:
  ServeMetrics();
  // The text of a scrape, from figures of now.
  [[nodiscard]] std::string scrape(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server,
                                   const std::vector<agent::GroupView>& groups, const agent::DrcView& drc);
  // A deleted service or tenant is no longer shown.
  void forgetService(const ServiceName& service) { registry_.forget("service", service.path()); }
  void forgetTenant(const TenantName& tenant) { registry_.forget("tenant", tenant.value); }

 private:
  void fillService(const gateway::ServiceSnapshot& service);
  void fillTenant(const gateway::TenantSnapshot& tenant);
  void fillServer(const gateway::GatewaySnapshot& gateway, const http::ServerStats& server);
  void fillGroup(const agent::GroupView& group);
  void fillDrc(const agent::DrcView& drc);

  prometheus::Registry registry_;
  std::vector<std::int64_t> bounds_;
};

}  // namespace coterie::serve
