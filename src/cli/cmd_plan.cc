// plan node: what the scheduler would do with a machine and groups, without a server.
#include <memory>
#include <ostream>

#include "cli/commands.h"
#include "cli/context.h"
#include "cli/manifests.h"
#include "cli/table.h"
#include "linux/machine_source_text.h"
#include "plan_node/groups_file.h"
#include "plan_node/node_plan.h"
#include "plan_node/plan_json.h"
#include "plan_node/plan_map.h"
#include "plan_node/plan_table.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

struct PlanOptions {
  std::string machine{"live"};
  std::string groups;
  std::string policy{"drc"};
  std::string kubelet;
  std::string reserved;
  std::string output{"table"};
};

void printTable(const Context& context, std::string_view title, const plan_node::TextTable& cells) {
  std::ostream& out = context.terminal.out;
  if (!title.empty()) out << "\n" << styled(title, Style::Strong, context.terminal.colors) << "\n";
  Table table(cells.header);
  for (const std::vector<std::string>& row : cells.rows) table.add(std::vector<Cell>(row.begin(), row.end()));
  table.print(out, context.terminal.colors);
}

void printPlan(const Context& context, const plan_node::NodePlan& plan) {
  const plan_node::PlanText text = plan_node::planText(plan);
  std::ostream& out = context.terminal.out;
  for (const std::string& line : text.summary) out << printable(line) << "\n";
  const std::string pending = plan_node::pendingText(plan);
  if (!pending.empty()) out << styled(pending, Style::Doubtful, context.terminal.colors) << "\n";
  printTable(context, "Places", text.places);
  out << "\n" << styled("Reasons", Style::Strong, context.terminal.colors) << "\n";
  for (const plan_node::GroupReasons& group : text.reasons) {
    out << group.group << "\n";
    for (const auto& [reason, sentence] : group.lines)
      out << "  " << printable(sentence) << styled(" (" + reason + ")", Style::Faint, context.terminal.colors) << "\n";
  }
  if (!text.widths.rows.empty()) printTable(context, "How many threads a request", text.widths);
  if (!text.moves.rows.empty()) printTable(context, "What moves", text.moves);
  if (text.steps.rows.empty()) {
    out << "\nNothing is to be written: it is in force.\n";
  } else {
    printTable(context, "Steps, in order", text.steps);
  }
}

int planOneNode(Context& context, const PlanOptions& options) {
  const auto policy = plan_node::policyNamed(options.policy);
  if (!policy) return context.usage("--policy: no policy is named " + options.policy);
  const auto kubelet = plan_node::kubeletOptions(options.kubelet);
  if (!kubelet)
    return context.usage("--kubelet-options: \"" + options.kubelet + "\" has one that is not known; there are " + plan_node::kubeletOptionNames());
  if (!options.kubelet.empty() && *policy != allocation::PolicyName::KubeletStatic)
    return context.usage("--kubelet-options are those of --policy kubelet-static, not of " + options.policy);
  const auto reserved = CpuSet::parse(options.reserved);
  if (!reserved.ok()) return context.usage("--reserved: " + reserved.error().message);
  const auto machine = linux::machineFromSource(options.machine);
  if (!machine.ok()) return context.fail(machine.error());
  if (const CpuSet absent = *reserved - machine->online; !absent.empty())
    return context.usage("--reserved: the machine has no CPU " + absent.toString() + "; it has " + machine->online.toString());
  const auto yaml = readInput(context, options.groups);
  if (!yaml.ok()) return context.fail(yaml.error());
  plan_node::ReadGroups read = plan_node::readGroups(*yaml);
  if (read.faults.empty()) read.faults = plan_node::notOfMachine(read.file, *machine);
  if (!read.faults.empty()) {
    for (const Fault& fault : read.faults)
      context.terminal.err << "coterie: " << printable(options.groups + ":" + (fault.line > 0 ? "" : " ") + faultText(fault)) << "\n";
    context.terminal.err << "coterie: nothing was planned\n";
    return kFailed;
  }
  const plan_node::NodePlan plan = plan_node::planNode(*machine, read.file, {*policy, *reserved, true, *kubelet});
  std::ostream& out = context.terminal.out;
  if (options.output == "table") return printPlan(context, plan), kOk;
  out << (options.output == "svg" ? plan_node::planMap(plan) : text::printJson(plan_node::planValue(plan), text::JsonStyle::Indented) + "\n");
  if (const std::string pending = plan_node::pendingText(plan); !pending.empty()) context.terminal.err << "coterie: " << pending << "\n";
  return kOk;
}

}  // namespace

Command makePlan() {
  const auto options = std::make_shared<PlanOptions>();
  Command node{"node",
               "Insight",
               "Plan one machine: who owns which CPUs, why, and in which order it is written",
               "coterie plan node --groups examples/plan/two-teams.yaml\n"
               "  coterie plan node --machine \"synthetic:pack:2 core:4 pu:2\" --groups examples/plan/two-teams.yaml -o svg > map.svg",
               {{"--machine",
                 "live, a shape (coterie machine list), FILE.xml of hwloc, a recorded FOLDER, or synthetic: and hwloc's description",
                 &options->machine,
                 {},
                 Names::Files,
                 false},
                {"--groups", "YAML file of tenants and groups, or - for standard input", &options->groups, {}, Names::Files, true},
                {"--policy", "who decides", &options->policy, plan_node::policyNames(), Names::None, false},
                {"--kubelet-options", "of --policy kubelet-static: " + plan_node::kubeletOptionNames(), &options->kubelet, {}, Names::None, false},
                {"--reserved", "CPUs that nobody may own, as 0-1,8", &options->reserved, {}, Names::None, false},
                outputOption(&options->output, {"table", "json", "svg"})},
               {},
               [options](Context& context) { return planOneNode(context, *options); }};
  return {"plan", "Insight", "Show what the scheduler would do, without a server", "", {}, {std::move(node)}, {}};
}

}  // namespace coterie::cli
