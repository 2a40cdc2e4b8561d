#include "plan_node/plan_table.h"

#include <utility>

#include <fmt/format.h>

#include "allocation/reason_text.h"
#include "allocation/width_text.h"
#include "base/count_text.h"
#include "objects/quantity.h"

namespace coterie::plan_node {

namespace {
std::string orNone(const CpuSet& set) { return set.empty() ? "none" : set.toString(); }

// "1.25"
std::string cpuNumber(MilliCpu cpus) {
  std::string text = allocation::cpusText(cpus);
  text.erase(text.find(' '));
  return text;
}

std::string homeText(const NodePlan& node, std::size_t group, std::size_t container) {
  const allocation::GroupTarget& target = node.plan.groups[group];
  const CpuSet& home = target.containers[container].home;
  if (target.pending) return waitText(node, group);
  const bool pause = node.snapshot.groups[group].containers[container].role == ContainerRole::Pause;
  return target.inPool || (pause && home == node.plan.pool) ? "pool " + home.toString() : home.toString();
}

TextTable placesOf(const NodePlan& node) {
  TextTable table{{"GROUP", "TENANT", "ENTITLED", "CONTAINER", "HOME", "MEMORY NODES", "OWN LANES", "LOANS", "LOAN LANES"}, {}};
  for (std::size_t g = 0; g < node.plan.groups.size(); ++g) {
    const allocation::GroupTarget& target = node.plan.groups[g];
    for (std::size_t c = 0; c < target.containers.size(); ++c) {
      const allocation::ContainerTarget& container = target.containers[c];
      table.rows.push_back({node.file->groups[g].name, node.tenantOf(g).name, cpuNumber(target.entitlement), containerText(node, g, c),
                            homeText(node, g, c), container.memoryNodes.toString(), std::to_string(container.ownLanes), container.loans.toString(),
                            std::to_string(container.awakeLoanLanes)});
    }
  }
  return table;
}

std::vector<GroupReasons> reasonsOf(const NodePlan& node) {
  std::vector<GroupReasons> all;
  for (const GroupEntry& group : node.file->groups) all.push_back({group.name, {}});
  for (const allocation::Reason& reason : node.plan.reasons) {
    const auto g = static_cast<std::size_t>(reason.group.value);
    all[g].lines.push_back({std::string(allocation::reasonName(reason.code)), textOf(node, reason).sentence});
  }
  for (std::size_t g = 0; g < node.widths.size(); ++g) {
    if (std::string isolation = isolationReason(node, g); !isolation.empty()) all[g].lines.push_back({"Isolated", std::move(isolation)});
    if (const auto& width = node.widths[g]) {
      all[g].lines.push_back({std::string(allocation::widthReasonName(width->choice.reason)),
                              allocation::widthReasonText(width->choice, width->question.objective, width->question.quantile)});
    }
  }
  return all;
}

TextTable widthsOf(const NodePlan& node) {
  TextTable table{{"GROUP", "PROPOSED", "THREADS", "SERVERS", "RUN P99", "WAIT", "LATENCY", "REQ/S", "OBJECTIVE"}, {}};
  for (std::size_t g = 0; g < node.widths.size(); ++g) {
    if (!node.widths[g]) continue;
    const allocation::WidthChoice& choice = node.widths[g]->choice;
    for (const allocation::WidthRating& rating : choice.ratings) {
      const bool chosen = rating.width == choice.chosen.width;
      const bool endless = rating.latency == allocation::kEndless;
      const std::string met = !node.widths[g]->question.objective ? "none" : rating.feasible ? "met" : "not met";
      table.rows.push_back({node.file->groups[g].name, chosen ? counted(choice.containers, "container") : "", std::to_string(rating.width),
                            std::to_string(rating.servers), endless ? "-" : allocation::millisText(rating.latency - rating.wait),
                            allocation::millisText(rating.wait), allocation::millisText(rating.latency),
                            fmt::format("{:.1f}", static_cast<double>(rating.capacity) / 1000), met});
    }
  }
  return table;
}

TextTable movesOf(const NodePlan& node) {
  TextTable table{{"GROUP", "CONTAINER", "FROM", "TO", "LEAVES", "GAINS"}, {}};
  for (const ContainerMove& move : node.moves) {
    table.rows.push_back({node.file->groups[move.group].name, std::to_string(move.container), move.from.toString(), orNone(move.to),
                          (move.from - move.to).toString(), (move.to - move.from).toString()});
  }
  return table;
}

std::string writtenText(const allocation::Step& step) {
  using allocation::StepKind;
  switch (step.kind) {
    case StepKind::SetMemoryNodes: return "nodes " + step.memoryNodes.toString();
    case StepKind::SetWeight: return fmt::format("weight {}", step.weight);
    case StepKind::SetLoans: return step.cpus.empty() ? "parked" : step.cpus.toString();
    case StepKind::WidenAncestors:
    case StepKind::NarrowHome:
    case StepKind::WidenHome:
    case StepKind::SwapHome:
    case StepKind::NarrowAncestors: break;
  }
  return step.cpus.toString();
}

TextTable stepsOf(const NodePlan& node) {
  TextTable table{{"STEP", "WRITE", "GROUP", "CONTAINER", "VALUE", "AFTER STEPS"}, {}};
  for (std::size_t i = 0; i < node.plan.steps.size(); ++i) {
    const allocation::Step& step = node.plan.steps[i];
    std::string waits;
    for (const int other : step.waitsFor) waits += (waits.empty() ? "" : ",") + std::to_string(other + 1);
    std::string group;
    std::string container;
    if (step.container.valid()) {
      const auto g = static_cast<std::size_t>(step.group.value);
      group = node.file->groups[g].name;
      container = std::to_string(containerIndex(node, g, step.container));
    }
    table.rows.push_back(
        {std::to_string(i + 1), std::string(stepName(step.kind)), std::move(group), std::move(container), writtenText(step), std::move(waits)});
  }
  return table;
}
}  // namespace

std::string machineText(const Machine& machine) {
  std::string text = counted(machine.online.count(), "CPU");
  const std::pair<DomainLevel, std::string_view> levels[] = {
      {DomainLevel::Socket, "socket"}, {DomainLevel::Node, "NUMA node"}, {DomainLevel::Cache, "cache cluster"}, {DomainLevel::Core, "core"}};
  for (const auto& [level, name] : levels) {
    if (const int count = domainCount(machine, level); count > 0) text += ", " + counted(count, name);
  }
  constexpr std::int64_t kMebi = std::int64_t{1} << 20;
  if (machine.memory.value >= kMebi) text += ", " + objects::bytesText(Bytes(machine.memory.value / kMebi * kMebi));
  return text;
}

PlanText planText(const NodePlan& node) {
  PlanText text;
  const std::string name = node.machine->name.empty() ? "the machine" : node.machine->name;
  text.summary.push_back(
      fmt::format("{}: {}; {} may be owned", name, machineText(*node.machine), node.usable == node.machine->online ? "all" : cpusNamed(node.usable)));
  text.summary.push_back(
      fmt::format("policy {}; pool {}; reserved {}", policyText(node.request.policy), orNone(node.plan.pool), orNone(node.request.reserved)));
  text.summary.push_back(node.costNow ? fmt::format("cost J {}, now {}", costText(node.cost), costText(*node.costNow))
                                      : fmt::format("cost J {}", costText(node.cost)));
  text.places = placesOf(node);
  text.reasons = reasonsOf(node);
  text.widths = widthsOf(node);
  text.moves = movesOf(node);
  text.steps = stepsOf(node);
  return text;
}

}  // namespace coterie::plan_node
