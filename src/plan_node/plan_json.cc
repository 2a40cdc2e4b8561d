#include "plan_node/plan_json.h"

#include <utility>

#include "allocation/reason_text.h"
#include "allocation/width_text.h"

namespace coterie::plan_node {

namespace {
using List = Value::List;
using Map = Value::Map;

Value number(std::size_t value) { return {static_cast<std::int64_t>(value)}; }

std::string_view questionName(allocation::Question question) {
  switch (question) {
    case allocation::Question::WhyThese: return "whyTheseCpus";
    case allocation::Question::WhyThisMany: return "whyThisMany";
    case allocation::Question::WhyNotMore: return "whyNotMore";
  }
  return "unknown";
}

Value machineValue(const NodePlan& node) {
  const Machine& machine = *node.machine;
  List memory;
  for (const MemoryNode& one : machine.memoryNodes) memory.push_back(Map{{"id", one.id}, {"bytes", one.size.value}, {"cpus", one.cpus.toString()}});
  return Map{{"name", machine.name},
             {"onlineCpus", machine.online.toString()},
             {"allowedCpus", machine.allowed.toString()},
             {"isolatedCpus", machine.isolated.toString()},
             {"usableCpus", node.usable.toString()},
             {"sockets", domainCount(machine, DomainLevel::Socket)},
             {"nodes", domainCount(machine, DomainLevel::Node)},
             {"caches", domainCount(machine, DomainLevel::Cache)},
             {"cores", domainCount(machine, DomainLevel::Core)},
             {"memoryNodes", std::move(memory)}};
}

Value containersValue(const NodePlan& node, std::size_t group) {
  List list;
  const allocation::GroupTarget& target = node.plan.groups[group];
  for (std::size_t c = 0; c < target.containers.size(); ++c) {
    const allocation::ContainerTarget& planned = target.containers[c];
    const allocation::ContainerState& held = node.snapshot.groups[group].containers[c];
    list.push_back(
        Map{{"container", number(c)},
            {"role", containerRoleName(held.role)},
            {"homeCpus", planned.home.toString()},
            {"memoryNodes", planned.memoryNodes.toString()},
            {"loanCpus", planned.loans.toString()},
            {"ownLanes", planned.ownLanes},
            {"loanLanes", planned.awakeLoanLanes},
            {"residentBytes", held.resident.value},
            {"now", Map{{"homeCpus", held.home.toString()}, {"memoryNodes", held.memoryNodes.toString()}, {"loanCpus", held.loans.toString()}}}});
  }
  return {std::move(list)};
}

Value reasonsValue(const NodePlan& node, std::size_t group) {
  List list;
  for (const allocation::Reason& reason : node.plan.reasons) {
    if (reason.group != node.plan.groups[group].id) continue;
    const allocation::ReasonText text = textOf(node, reason);
    list.push_back(Map{{"reason", allocation::reasonName(reason.code)},
                       {"question", questionName(text.question)},
                       {"message", text.sentence},
                       {"a", reason.a},
                       {"b", reason.b},
                       {"c", reason.c},
                       {"other", reason.other.valid() ? Value(node.file->groups[static_cast<std::size_t>(reason.other.value)].name) : Value()},
                       {"isolation", isolationName(reason.isolation)}});
  }
  return {std::move(list)};
}

Value widthValue(const std::optional<WidthProposal>& width) {
  if (!width) return {};
  const allocation::WidthChoice& choice = width->choice;
  List judged;
  for (const allocation::WidthRating& rating : choice.ratings) {
    const bool endless = rating.latency == allocation::kEndless;
    judged.push_back(Map{{"threads", rating.width},
                         {"servers", rating.servers},
                         {"waitNanos", endless ? Value() : Value(std::int64_t{rating.wait.count()})},
                         {"latencyNanos", endless ? Value() : Value(std::int64_t{rating.latency.count()})},
                         {"requestsPerSecond", static_cast<double>(rating.capacity) / 1000},
                         {"feasible", rating.feasible}});
  }
  return Map{{"threads", choice.chosen.width},
             {"containers", choice.containers},
             {"reason", allocation::widthReasonName(choice.reason)},
             {"message", allocation::widthReasonText(choice, width->question.objective, width->question.quantile)},
             {"judged", std::move(judged)}};
}

Value gapsValue(const NodePlan& node, std::size_t group) {
  List list;
  for (std::string& gap : isolationGaps(node, group)) list.emplace_back(std::move(gap));
  return {std::move(list)};
}

Value groupsValue(const NodePlan& node) {
  List list;
  for (std::size_t g = 0; g < node.plan.groups.size(); ++g) {
    const GroupEntry& entry = node.file->groups[g];
    const allocation::GroupTarget& target = node.plan.groups[g];
    list.push_back(Map{{"name", entry.name},
                       {"tenant", node.tenantOf(g).name},
                       {"weight", entry.weight},
                       {"band", bandName(entry.band)},
                       {"floorMilliCpu", entry.floor.value},
                       {"ceilingMilliCpu", entry.ceiling.value},
                       {"demandMilliCpu", entry.demand.value},
                       {"entitlementMilliCpu", target.entitlement.value},
                       {"inPool", target.inPool},
                       {"pending", target.pending},
                       {"isolation", isolationName(entry.isolation)},
                       {"isolationGaps", gapsValue(node, g)},
                       {"waitsForIsolation", isolationName(waitsForIsolation(node, g))},
                       {"movedForBetterFit", target.moved},
                       {"cpuWeight", target.cpuWeight},
                       {"containers", containersValue(node, g)},
                       {"reasons", reasonsValue(node, g)},
                       {"width", widthValue(node.widths[g])}});
  }
  return {std::move(list)};
}

Value movesValue(const NodePlan& node) {
  List list;
  for (const ContainerMove& move : node.moves) {
    list.push_back(Map{{"group", node.file->groups[move.group].name},
                       {"container", number(move.container)},
                       {"fromCpus", move.from.toString()},
                       {"toCpus", move.to.toString()}});
  }
  return {std::move(list)};
}

Value stepsValue(const NodePlan& node) {
  List list;
  for (std::size_t i = 0; i < node.plan.steps.size(); ++i) {
    const allocation::Step& step = node.plan.steps[i];
    List waits;
    for (const int other : step.waitsFor) waits.emplace_back(other + 1);
    Value group;
    Value container;
    if (step.container.valid()) {
      const auto g = static_cast<std::size_t>(step.group.value);
      group = node.file->groups[g].name;
      container = number(containerIndex(node, g, step.container));
    }
    list.push_back(Map{{"step", number(i + 1)},
                       {"write", stepName(step.kind)},
                       {"group", std::move(group)},
                       {"container", std::move(container)},
                       {"cpus", step.cpus.toString()},
                       {"memoryNodes", step.memoryNodes.toString()},
                       {"weight", step.weight},
                       {"waitsFor", std::move(waits)}});
  }
  return {std::move(list)};
}
}  // namespace

Value planValue(const NodePlan& node) {
  const auto cost = [](std::int64_t quarters) { return Value(static_cast<double>(quarters) / 4); };
  List tenants;
  for (const TenantEntry& tenant : node.file->tenants)
    tenants.push_back(Map{{"name", tenant.name}, {"weight", tenant.weight}, {"quotaMilliCpu", tenant.cap.value}});
  List pending;
  for (const std::size_t group : node.pending) pending.emplace_back(node.file->groups[group].name);
  Value again;
  if (node.plan.decideAgainAt) again = (*node.plan.decideAgainAt - node.snapshot.now).count() / 1'000'000;
  return Map{{"machine", machineValue(node)},
             {"policy", policyText(node.request.policy)},
             {"reservedCpus", node.request.reserved.toString()},
             {"poolCpus", node.plan.pool.toString()},
             {"cost", Map{{"planned", cost(node.cost)}, {"now", node.costNow ? cost(*node.costNow) : Value()}}},
             {"tenants", std::move(tenants)},
             {"groups", groupsValue(node)},
             {"moves", movesValue(node)},
             {"steps", stepsValue(node)},
             {"pending", std::move(pending)},
             {"decideAgainInMillis", std::move(again)}};
}

}  // namespace coterie::plan_node
