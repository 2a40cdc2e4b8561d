// What CPU sets and hints would gain the groups, foretold for the plan that an observing agent has.
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "allocation/sizing.h"
#include "node_agent/node_agent.h"

namespace coterie::node_agent {

namespace {

bool works(const ContainerReport& container) { return container.use.used.value > 0; }

}  // namespace

void NodeAgent::addForecasts(AgentReport& report) const {
  report.elsewhere = threadsElsewhere();
  if (mode_ != Mode::Observe) return;
  const std::map<InstanceId, MilliCpu> parts = partsOfPool(report);
  std::vector<foreign::Forecast> forecasts;
  for (GroupReport& group : report.groups) {
    if (!group.pending) group.forecast = foreign::forecast(group.use, placementOf(group, parts, report.elsewhere));
    forecasts.push_back(group.forecast);
  }
  report.overall = foreign::overall(forecasts);
}

// Of no group, that run or wait: thousandths of a thread. Beside groups at work they count by what they get beside one of the groups' threads, not by
// their number: those of another nice value get less, or more.
MilliCpu NodeAgent::threadsElsewhere() const {
  MilliCpu threads = machineMeter_.use().used, used, wanted;
  MilliCpu others = usedMeter_.use().used;
  for (const auto& [id, meter] : meters_) {
    const foreign::Use use = meter.use();
    wanted += use.wanted;
    used += use.used;
  }
  threads -= wanted;
  others -= used;
  if (used.value > 0) threads = MilliCpu(std::max<std::int64_t>(0, others.value) * wanted.value / used.value);
  return std::max(MilliCpu(0), threads);
}

MilliCpu NodeAgent::capacityOf(const CpuSet& cpus) const {
  MilliCpu capacity;
  for (const int cpu : cpus) {
    if (const Cpu* found = machine_.findCpu(cpu)) capacity += found->capacity;
  }
  return capacity;
}

// The pool is divided by the kernel among who works there, alike, since weights stay as they were found; entitlements only say who is in it.
std::map<InstanceId, MilliCpu> NodeAgent::partsOfPool(const AgentReport& report) const {
  std::vector<InstanceId> members;
  std::vector<allocation::Share> shares;
  for (const GroupReport& group : report.groups) {
    for (const ContainerReport& one : group.containers) {
      if (!group.inPool || !works(one)) continue;
      members.push_back(one.id);
      shares.push_back({1, 0, std::max(one.use.wanted, one.use.used).value});
    }
  }
  std::map<InstanceId, MilliCpu> parts;
  if (members.empty()) return parts;
  const std::int64_t capacity = capacityOf(report.pool).value;
  const std::vector<std::int64_t> filled = allocation::waterFill(shares, capacity);
  const std::int64_t alike = capacity / static_cast<std::int64_t>(members.size());  // that nobody has to do without
  for (std::size_t i = 0; i < members.size(); ++i) parts[members[i]] = MilliCpu(std::max(filled[i], alike));
  return parts;
}

// Of the containers that work: the others' CPUs are of no use to them.
foreign::Placement NodeAgent::placementOf(const GroupReport& group, const std::map<InstanceId, MilliCpu>& parts, MilliCpu elsewhere) const {
  foreign::Placement placement;
  CpuSet homes;
  int working = 0;
  double now = 0, then = 0, threads = 0;
  for (const ContainerReport& one : group.containers) {
    if (!works(one)) continue;
    ++working;
    homes |= one.planned;
    if (const auto part = parts.find(one.id); part != parts.end()) placement.owned += part->second;
    now += (one.now & machine_.online).count();
    then += one.planned.count();
    threads += one.threads;
  }
  if (working == 0) return {};
  if (!group.inPool) placement.owned = capacityOf(homes);
  placement.containers = working;
  placement.cpusNow = now / working;
  placement.cpusThen = then / working;
  placement.threadsThen = threads / working;
  placement.outside = static_cast<double>(elsewhere.value) / (1000.0 * std::max(1, machine_.online.count()));
  return placement;
}

}  // namespace coterie::node_agent
