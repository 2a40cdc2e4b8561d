#include "node_agent/agent_metrics.h"

#include <set>
#include <utility>

namespace coterie::node_agent {

namespace {

using prometheus::Unit;
const std::vector<std::string> kGroup{"tenant", "group"};
const std::vector<std::string> kContainer{"tenant", "group", "container"};

}  // namespace

std::string AgentMetrics::scrape(const AgentReport& report, const std::optional<agent::DrcView>& controller,
                                 const std::vector<agent::GroupView>& groups) {
  std::set<std::string> tenants, names, containers;
  for (const GroupReport& group : report.groups) {
    tenants.insert(group.tenant);
    names.insert(group.name);
    for (const ContainerReport& container : group.containers) containers.insert(container.name);
  }
  registry_.keepOnly("tenant", tenants);
  registry_.keepOnly("group", names);
  registry_.keepOnly("container", containers);
  registry_.gauge({"coterie_agent_enforcing", "1 while CPU sets are given, 0 while it only observes.", {}})
      .with()
      .set(report.mode == Mode::Enforce ? 1 : 0);
  registry_.gauge({"coterie_agent_groups_absent", "Groups of the configuration of which nothing was found.", {}})
      .with()
      .set(static_cast<std::int64_t>(report.absent.size()));
  for (const GroupReport& group : report.groups) fillGroup(group);
  if (!controller) return registry_.scrape();
  registry_.counter({"coterie_plans_total", "Plans made by the resource controller.", {}}).with().mirror(controller->plans);
  registry_.counter({"coterie_plan_steps_total", "Steps of plans applied.", {}}).with().mirror(controller->stepsApplied);
  for (const agent::GroupView& view : groups) {
    const auto number = static_cast<std::size_t>(view.spec.id.value);
    for (const GroupReport& group : report.groups) {
      if (group.number != number) continue;
      const auto counter = [&](const char* family, const char* help, std::int64_t value) {
        registry_.counter({family, help, kGroup}).with({group.tenant, group.name}).mirror(value);
      };
      counter("coterie_agent_group_moves_total", "Changes of a container's own CPUs.", view.counters.moves);
      counter("coterie_agent_group_apply_errors_total", "Writes to the kernel that failed or hung.", view.counters.applyErrors);
      counter("coterie_agent_group_drift_repairs_total", "Times that somebody else's change was put right.", view.counters.driftRepairs);
      counter("coterie_agent_group_conflicts_total", "Times that somebody else's changes became too many to be put right.", view.counters.conflicts);
    }
  }
  return registry_.scrape();
}

void AgentMetrics::fillGroup(const GroupReport& group) {
  const auto gauge = [&](const char* family, const char* help, MilliCpu value) {
    registry_.gauge({family, help, kGroup, Unit::MilliCpu}).with({group.tenant, group.name}).set(value.value);
  };
  gauge("coterie_agent_group_entitlement_cpus", "Fair share of the machine.", group.entitlement);
  gauge("coterie_agent_group_demand_cpus", "What it could use now.", group.demand);
  gauge("coterie_agent_group_used_cpus", "What its threads use.", group.use.used);
  gauge("coterie_agent_group_wanted_cpus", "Threads that run or wait for a CPU.", group.use.wanted);
  registry_.gauge({"coterie_agent_group_pending", "1 while its floor or its isolation cannot be had.", kGroup})
      .with({group.tenant, group.name})
      .set(group.pending ? 1 : 0);
  for (const ContainerReport& container : group.containers) fillContainer(group, container);
}

void AgentMetrics::fillContainer(const GroupReport& group, const ContainerReport& container) {
  const auto gauge = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::None) {
    registry_.gauge({family, help, kContainer, unit}).with({group.tenant, group.name, container.name}).set(value);
  };
  const auto counter = [&](const char* family, const char* help, std::int64_t value, Unit unit = Unit::None) {
    registry_.counter({family, help, kContainer, unit}).with({group.tenant, group.name, container.name}).mirror(value);
  };
  gauge("coterie_agent_container_home_cpus", "CPUs that it owns, or would own.", 1000LL * container.planned.count(), Unit::MilliCpu);
  gauge("coterie_agent_container_loan_cpus", "CPUs of others that it may use.", 1000LL * container.loans.count(), Unit::MilliCpu);
  gauge("coterie_agent_container_threads_wanted", "Threads that it should use.", container.threads);
  gauge("coterie_agent_container_threads_busy", "Threads that run or want to.", container.use.busyThreads);
  gauge("coterie_agent_container_contested", "1 while somebody else keeps setting its CPUs.", container.contested ? 1 : 0);
  gauge("coterie_agent_container_hint_not_taken_up", "1 while it runs more threads than it was told.",
        container.hint == HintSeen::NotTakenUp ? 1 : 0);
  if (const auto& cpu = container.seen.cpu) {
    if (cpu->timed) counter("coterie_agent_container_cpu_seconds_total", "CPU time of all its threads.", cpu->used.count(), Unit::Nanos);
    counter("coterie_agent_container_throttled_periods_total", "Periods in which its quota was used up.", cpu->throttledPeriods);
    counter("coterie_agent_container_throttled_seconds_total", "Time that its quota held it back, added over CPUs.", cpu->throttled.count(),
            Unit::Nanos);
  }
  gauge("coterie_agent_container_quota_raised_cpus", "Its quota, while that is raised to the CPUs that it owns.", container.quotaRaised.value,
        Unit::MilliCpu);
  if (const auto& pressure = container.seen.pressure)
    gauge("coterie_agent_container_pressure_ratio", "Part of the last 10 s in which some thread waited for a CPU.", pressure->somePermille,
          Unit::Permille);
  if (const auto& memory = container.seen.memory)
    gauge("coterie_agent_container_resident_bytes", "Memory, files included.", memory->anonymous.value + memory->file.value, Unit::Bytes);
}

}  // namespace coterie::node_agent
