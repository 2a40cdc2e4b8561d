// What the report says of isolated groups: what their level does not keep away, and who may still run where it lets nobody run.
#include <algorithm>
#include <utility>

#include "allocation/isolation.h"
#include "allocation/isolation_terms.h"
#include "allocation/layout.h"
#include "base/count_text.h"
#include "node_agent/node_agent.h"

namespace coterie::node_agent {

void NodeAgent::addIsolation(AgentReport& report, const Plans& plans) {
  const bool any = std::any_of(report.groups.begin(), report.groups.end(), [](const GroupReport& one) { return one.isolation != Isolation::None; });
  if (!any) return;
  allocation::IsolationSetting setting;
  setting.units = allocation::isolationUnits(allocation::makeLayout(machine_, reserved_));
  setting.reserved = !reserved_.empty();
  setting.virtualMachine = machine_.virtualMachine;
  setting.managed = allocation::Managed::Groups;
  if (mode_ == Mode::Enforce) {
    const agent::ClassesView classes = drc_->view().classes;
    setting.cacheWays = classes.ways;
    setting.othersBandwidth = classes.othersBandwidth;
  }
  for (GroupReport& group : report.groups) {
    if (group.isolation == Isolation::None || group.pending) continue;  // why it waits is among its reasons
    const allocation::IsolationTerms terms = allocation::isolationTerms(group.isolation, setting);
    group.isolationGaps = terms.gaps;
    group.reasons.push_back(allocation::isolationText(group.isolation, terms));
    if (mode_ == Mode::Enforce) group.notIsolatedYet = whoIntrudes(group, plans);
  }
}

// Where it may run, as the kernel says: one that was never placed, wherever its processes may.
CpuSet NodeAgent::reachOf(InstanceId id, const foreign::FoundContainer& container, const GroupPlan& plan) {
  if (const auto held = plan.held.find(id); held != plan.held.end()) return held->second;
  CpuSet reach;
  for (const SeenProcess& process : container.processes) reach |= ports_.processes.cpus(process.pid);
  return reach;
}

// Containers of other tenants in its units, and its own beyond what it owns.
std::vector<std::string> NodeAgent::whoIntrudes(const GroupReport& group, const Plans& plans) {
  CpuSet own;
  for (const ContainerReport& container : group.containers) own |= container.planned;
  const CpuSet units = allocation::unitsOf(machine_, own, group.isolation);
  std::vector<std::string> clauses;
  for (const auto& [id, container] : roster_.members()) {
    const auto plan = plans.find(container.group);
    const bool mine = container.group == group.number;
    if (container.role == ContainerRole::Pause || plan == plans.end() || (!mine && book_.tenantOf(container.group) == group.tenant)) continue;
    const CpuSet reach = reachOf(id, container, plan->second);
    const CpuSet where = mine ? reach - units : reach & units;
    if (where.empty()) continue;
    const std::string who = mine ? "its own " + containerName(container) : containerName(container) + " of " + book_.group(container.group).name;
    const std::string why = plan->second.pending                   ? "its group waits, and keeps the CPUs that it has"
                            : plan->second.stuck.count(id) > 0     ? "a write of its CPUs has not returned"
                            : plan->second.contested.count(id) > 0 ? "somebody else keeps setting its CPUs"
                            : plan->second.failedWrites > 0        ? counted(plan->second.failedWrites, "write") + " of its group's CPUs failed"
                                                                   : "it has not been moved yet";
    clauses.push_back(who + " may still run on " + cpusNamed(where) + ": " + why);
  }
  return clauses;
}

}  // namespace coterie::node_agent
