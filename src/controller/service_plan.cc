#include "controller/service_plan.h"

#include <algorithm>

namespace coterie::controller {

namespace {
bool isAlive(const PlannedInstance& i) { return i.state <= InstanceState::Serving; }

// First whom to end: the least far on, then the youngest.
void sortVictimsFirst(std::vector<PlannedInstance>& instances) {
  std::sort(instances.begin(), instances.end(),
            [](const PlannedInstance& a, const PlannedInstance& b) { return a.state != b.state ? a.state < b.state : a.id > b.id; });
}

void planStarts(const ServiceSituation& situation, int wanted, ServiceSteps& steps) {
  if (!situation.mayStart) return;
  Bytes machine = situation.freeOnMachine;
  Bytes quota = situation.freeInQuota;
  for (; steps.start < wanted; ++steps.start) {
    if (situation.limit > machine || situation.limit > quota) {
      steps.missingInQuota = quota < machine;
      steps.missing = situation.limit - std::min(machine, quota);
      return;
    }
    machine -= situation.limit;
    quota -= situation.limit;
  }
}
}  // namespace

ServiceSteps planService(const ServiceSituation& situation) {
  ServiceSteps steps;
  std::vector<PlannedInstance> current;
  std::vector<PlannedInstance> oldServing;
  for (const PlannedInstance& instance : situation.instances) {
    if (!isAlive(instance)) continue;
    if (situation.desired > 0 && instance.current) {
      current.push_back(instance);
    } else if (situation.desired > 0 && instance.state == InstanceState::Serving) {
      oldServing.push_back(instance);
    } else {
      steps.end.push_back(instance.id);  // nothing is wanted, or an old one that never served
    }
  }
  const auto desired = static_cast<std::size_t>(std::max(situation.desired, 0));
  sortVictimsFirst(current);
  while (current.size() > desired) {
    steps.end.push_back(current.front().id);
    current.erase(current.begin());
  }
  planStarts(situation, static_cast<int>(desired - current.size()), steps);

  const auto loaded = std::count_if(current.begin(), current.end(), [](const PlannedInstance& i) { return i.state != InstanceState::Starting; });
  const bool loading = static_cast<std::size_t>(loaded) < current.size() || steps.start > 0;
  const bool complete = static_cast<std::size_t>(loaded) >= desired;
  if (oldServing.empty() || complete || (loaded > 0 && !loading)) {
    for (auto instance = current.rbegin(); instance != current.rend(); ++instance) {
      if (instance->state == InstanceState::Ready) steps.serve.push_back(instance->id);
    }
    for (const PlannedInstance& instance : oldServing) steps.end.push_back(instance.id);
    return steps;
  }
  sortVictimsFirst(oldServing);
  for (std::size_t i = 0; i + desired < oldServing.size(); ++i) steps.end.push_back(oldServing[i].id);
  return steps;
}

}  // namespace coterie::controller
