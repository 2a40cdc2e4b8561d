// What Prometheus is told of a node under the agent: groups and containers as they are in its report, and the controller's counters.
//
// Labels: tenant, group (as in the configuration), container (a container's short id, "process PID"); those that have gone are forgotten with the
// next scrape. O(containers) per scrape. Thread rule: control loop.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "node_agent/report.h"
#include "prometheus/registry.h"

namespace coterie::node_agent {

class AgentMetrics {
 public:
  // controller: while enforcing.
  [[nodiscard]] std::string scrape(const AgentReport& report, const std::optional<agent::DrcView>& controller,
                                   const std::vector<agent::GroupView>& groups);

 private:
  void fillGroup(const GroupReport& group);
  void fillContainer(const GroupReport& group, const ContainerReport& container);

  prometheus::Registry registry_{10'000};
};

}  // namespace coterie::node_agent
