#include "node_agent/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/count_text.h"
#include "cli/table.h"

namespace coterie::node_agent {

namespace {

constexpr std::size_t kLongestCommand = 40;

std::string orNone(const CpuSet& set) { return set.empty() ? "none" : set.toString(); }

std::string cpus(MilliCpu amount) { return fmt::format("{:.2f}", static_cast<double>(amount.value) / 1000); }

std::string useText(const foreign::Use& use) { return use.known() ? cpus(use.used) : "-"; }

std::string busyText(const foreign::Use& use) { return use.known() ? fmt::format("{} of {}", use.busyThreads, use.threads) : "-"; }

std::string plannedText(const GroupReport& group, const ContainerReport& container) {
  if (group.pending) return group.waitsFor == Isolation::None ? "waits" : "waits (isolation " + std::string(isolationName(group.waitsFor)) + ")";
  const std::string loans = container.loans.empty() ? "" : " and " + container.loans.toString() + " lent";
  return (group.inPool ? "pool " : "") + orNone(container.planned) + loans +
         (!container.limit.empty() ? ", not allowed"
          : container.contested    ? ", contested"
                                   : "");
}

void addPlaces(std::ostream& out, const AgentReport& report, bool colors) {
  const bool enforcing = report.mode == Mode::Enforce;
  cli::Table table({"GROUP", "TENANT", "CONTAINER", "COMMAND", "USES", "BUSY THREADS", "MAY RUN ON", enforcing ? "OWNS" : "WOULD OWN", "THREADS"});
  for (const GroupReport& group : report.groups) {
    for (const ContainerReport& container : group.containers) {
      const std::string threads = container.threads > 0 ? std::to_string(container.threads) : "-";
      table.add({group.name, group.tenant, container.name, cli::printable(container.command.substr(0, kLongestCommand)), useText(container.use),
                 busyText(container.use), orNone(container.now),
                 cli::Cell(plannedText(group, container),
                           container.contested || !container.limit.empty() || group.pending ? cli::Style::Doubtful : cli::Style::Plain),
                 threads});
    }
  }
  if (!table.empty()) table.print(out, colors);
}

void addForecast(std::ostream& out, const AgentReport& report, bool colors) {
  if (!report.overall.known) {
    out << "\nNothing can be foretold: no group was seen at work.\n";
    return;
  }
  out << "\n"
      << cli::styled("Throughput, foretold", cli::Style::Strong, colors)
      << " (now = 1; threads per CPU as seen: what is likely where a server's threads help each other with one request, and the ends for other "
         "threads: "
         "ones that have nothing to do with each other, that help fully or not at all, that wait busily for each other all the time)\n";
  cli::Table table({"GROUP", "THREADS PER CPU", "WITH SETS", "CPU SETS ALONE", "CPU SETS AND THREADS"});
  for (const GroupReport& group : report.groups) {
    const foreign::Forecast& one = group.forecast;
    if (!one.known) continue;
    table.add({group.name, fmt::format("{:.2f}", one.contentionNow), fmt::format("{:.2f}", one.contentionWithSets), gainText(one.sets),
               gainText(one.withHint)});
  }
  const foreign::Forecast& all = report.overall;
  table.add({"all (geometric mean)", fmt::format("{:.2f}", all.contentionNow), fmt::format("{:.2f}", all.contentionWithSets), gainText(all.sets),
             gainText(all.withHint)});
  table.print(out, colors);
  const bool unheard = std::any_of(report.groups.begin(), report.groups.end(), [](const GroupReport& group) { return !group.hinted; });
  if (unheard)
    out << "CPU sets alone seldom gain: a server that keeps its threads has as many too many of them as before. Give groups `hints`, and servers "
           "that listen "
           "(examples/thread-hint).\n";
}

Value gainValue(const foreign::Gain& gain) {
  Value value;
  value.set("low", gain.low);
  value.set("likely", gain.likely);
  value.set("high", gain.high);
  return value;
}

Value forecastValue(const foreign::Forecast& forecast) {
  if (!forecast.known) return {};
  Value value;
  value.set("threadsPerCpu", forecast.contentionNow);
  value.set("threadsPerCpuWithSets", forecast.contentionWithSets);
  value.set("cpuSets", gainValue(forecast.sets));
  value.set("cpuSetsAndThreads", gainValue(forecast.withHint));
  return value;
}

void setUse(Value& value, const foreign::Use& use) {
  value.set("usedMilliCpu", use.used.value);
  value.set("wantedMilliCpu", use.wanted.value);
  value.set("threadsSeen", use.threads);
  value.set("threadsBusy", use.busyThreads);
}

void addCounted(Value& value, const ContainerReport& container) {
  const ContainerWatch::Seen& seen = container.seen;
  value.set("throttledPeriods", seen.throttledLately);
  value.set("quotaMilliCpu", container.quota.value);
  value.set("quotaRaisedMilliCpu", container.quotaRaised.value);
  value.set("pressurePermille", seen.pressure ? Value(seen.pressure->somePermille) : Value());
  value.set("residentBytes", seen.memory ? Value(seen.memory->anonymous.value + seen.memory->file.value) : Value());
  Value nodes = Value::emptyList();
  for (const NodeResident& one : seen.nodes) {
    Value node;
    node.set("node", one.node);
    node.set("residentBytes", one.resident.value);
    nodes.push(std::move(node));
  }
  value.set("memoryByNode", std::move(nodes));
}

Value containerValue(const ContainerReport& container) {
  Value value;
  value.set("container", container.name);
  value.set("pid", container.pid);
  value.set("processes", container.processes);
  value.set("command", container.command);
  value.set("nowCpus", container.now.toString());
  value.set("homeCpus", container.planned.toString());
  value.set("loanCpus", container.loans.toString());
  value.set("threads", container.threads);
  value.set("heldBy", container.heldBy);
  value.set("contested", container.contested);
  value.set("limitedBy", container.limit);
  setUse(value, container.use);
  value.set("hint", hintSeenName(container.hint));
  addCounted(value, container);
  return value;
}

Value textList(const std::vector<std::string>& lines) {
  Value list = Value::emptyList();
  for (const std::string& line : lines) list.push(line);
  return list;
}

}  // namespace

std::string_view hintSeenName(HintSeen seen) {
  switch (seen) {
    case HintSeen::None: return "none";
    case HintSeen::Told: return "told";
    case HintSeen::TakenUp: return "takenUp";
    case HintSeen::NotTakenUp: return "notTakenUp";
  }
  return "none";
}

std::string poolRemark(const AgentReport& report) {
  std::vector<const GroupReport*> members;
  for (const GroupReport& group : report.groups) {
    if (group.inPool && !group.pending && !group.containers.empty()) members.push_back(&group);
  }
  const auto [least, most] =
      std::minmax_element(members.begin(), members.end(), [](const GroupReport* a, const GroupReport* b) { return a->entitlement < b->entitlement; });
  if (members.size() < 2 || (*most)->entitlement.value * 10 <= (*least)->entitlement.value * 11) return {};
  std::string shares;
  for (const GroupReport* one : members) shares += fmt::format("{}{} {}", shares.empty() ? "" : ", ", one->name, cpus(one->entitlement));
  return fmt::format(
      "the shares of the pool, {} ({}), are not enforced: where its groups want more than there is, the kernel divides it by the weights of "
      "their cgroups, which are their runtime's to set and are left alone. A group that must have its share needs a CPU of its own (minCpus: 1), "
      "or a weight from its runtime",
      cpusNamed(report.pool), shares);
}

std::string gainText(const foreign::Gain& gain) { return fmt::format("{:.2f} ({:.2f} to {:.2f})", gain.likely, gain.low, gain.high); }

std::string reportText(const AgentReport& report, bool colors) {
  std::ostringstream out;
  out << (report.mode == Mode::Enforce ? "enforcing" : "observing: nothing is changed") << "; " << cpusNamed(report.usable) << " may be owned; pool "
      << orNone(report.pool) << "; reserved " << orNone(report.reserved) << "; threads of no group at work: " << cpus(report.elsewhere) << "\n";
  if (!report.why.empty()) out << cli::styled(report.why, cli::Style::Doubtful, colors) << "\n";
  if (!report.configuration.faults.empty())
    out << cli::styled("the configuration file is not in force, the one before it is", cli::Style::Bad, colors) << "\n";
  for (const std::string& fault : report.configuration.faults) out << "  " << cli::printable(fault) << "\n";
  out << "\n";
  addPlaces(out, report, colors);
  for (const std::string& name : report.absent) out << "nothing was found of " << name << "\n";
  if (report.mode == Mode::Observe && !report.groups.empty()) addForecast(out, report, colors);
  out << "\n" << cli::styled("Reasons", cli::Style::Strong, colors) << "\n";
  for (const GroupReport& group : report.groups) {
    out << group.name << ": entitled to " << cpus(group.entitlement) << " CPUs, could use " << cpus(group.demand) << "\n";
    for (const std::string& sentence : group.reasons) out << "  " << cli::printable(sentence) << "\n";
    for (const std::string& clause : group.notIsolatedYet)
      out << "  " << cli::styled("not isolated yet: " + cli::printable(clause), cli::Style::Doubtful, colors) << "\n";
  }
  for (const std::string& remark : report.remarks) out << "note: " << cli::printable(remark) << "\n";
  return out.str();
}

Value reportValue(const AgentReport& report) {
  Value value;
  value.set("mode", modeName(report.mode));
  value.set("agentPid", report.pid);
  value.set("why", report.why);
  value.set("usableCpus", report.usable.toString());
  value.set("reservedCpus", report.reserved.toString());
  value.set("poolCpus", report.pool.toString());
  value.set("elsewhereMilliThreads", report.elsewhere.value);
  Value groups = Value::emptyList();
  for (const GroupReport& group : report.groups) {
    Value one;
    one.set("name", group.name);
    one.set("tenant", group.tenant);
    one.set("entitlementMilliCpu", group.entitlement.value);
    one.set("demandMilliCpu", group.demand.value);
    one.set("inPool", group.inPool);
    one.set("pending", group.pending);
    one.set("waitsForIsolation", isolationName(group.waitsFor));
    one.set("isolation", isolationName(group.isolation));
    one.set("isolationGaps", textList(group.isolationGaps));
    one.set("notIsolatedYet", textList(group.notIsolatedYet));
    one.set("hinted", group.hinted);
    setUse(one, group.use);
    one.set("forecast", forecastValue(group.forecast));
    one.set("reasons", textList(group.reasons));
    Value containers = Value::emptyList();
    for (const ContainerReport& container : group.containers) containers.push(containerValue(container));
    one.set("containers", std::move(containers));
    groups.push(std::move(one));
  }
  value.set("groups", std::move(groups));
  value.set("absent", textList(report.absent));
  value.set("forecast", forecastValue(report.overall));
  value.set("remarks", textList(report.remarks));
  Value configuration;
  configuration.set("reloads", report.configuration.reloads);
  configuration.set("refused", report.configuration.refused);
  configuration.set("faults", textList(report.configuration.faults));
  value.set("configuration", std::move(configuration));
  return value;
}

}  // namespace coterie::node_agent
