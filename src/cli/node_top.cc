#include "cli/node_top.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/reports.h"
#include "base/count_text.h"
#include "base/cpu_set.h"
#include "cli/table.h"

namespace coterie::cli {
namespace {

constexpr std::int64_t kPressed = 100;  // permille; the agent acts on it

std::optional<std::int64_t> numberAt(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  const std::int64_t* number = found == nullptr ? nullptr : found->asInt();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

std::string cpusAt(const Value& value, std::string_view key) {
  const auto number = numberAt(value, key);
  return number ? fmt::format("{:.2f}", static_cast<double>(*number) / 1000) : "-";
}

bool trueAt(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  const bool* flag = found == nullptr ? nullptr : found->asBool();
  return flag != nullptr && *flag;
}

const std::vector<Value>& listAt(const Value& value, std::string_view key) {
  static const std::vector<Value> kNone;
  const Value* found = value.find(key);
  const auto* list = found == nullptr ? nullptr : found->asList();
  return list == nullptr ? kNone : *list;
}

std::string orDash(std::string text) { return text.empty() ? "-" : std::move(text); }

// The level in a member of the group; empty: none.
std::string levelAt(const Value& group, std::string_view key) {
  const std::string level = admin::textAt(group, key);
  return level == "none" ? std::string() : level;
}

// "2-3", "pool 0", "0-1 + 4 (core)"
std::string ownedText(const Value& group, const Value& container) {
  std::string text = (trueAt(group, "inPool") ? "pool " : "") + orDash(admin::textAt(container, "homeCpus"));
  if (const std::string loans = admin::textAt(container, "loanCpus"); !loans.empty()) text += " + " + loans;
  if (const std::string level = levelAt(group, "isolation"); !level.empty())
    text += " (" + level + (listAt(group, "notIsolatedYet").empty() ? ")" : ", not yet)");
  return text;
}

// "CPU 3", "CPUs 0-1"; "CPUs -" where the list is missing.
std::string namedAt(const Value& value, std::string_view key) {
  const std::string list = admin::textAt(value, key);
  const auto cpus = CpuSet::parse(list);
  return cpus.ok() && !cpus->empty() ? cpusNamed(*cpus) : "CPUs " + orDash(list);
}

// Somebody else keeps setting its CPUs, and may just now have set those that it owns; or a cgroup above does not allow them.
std::string contestedText(const Value& container, const std::string& word) {
  const std::string now = admin::textAt(container, "nowCpus");
  if (now.empty() || now == admin::textAt(container, "homeCpus")) return word;
  return word + ": it runs on " + namedAt(container, "nowCpus");
}

Cell homeCell(const Value& group, const Value& container) {
  if (trueAt(group, "pending")) {
    const std::string level = levelAt(group, "waitsForIsolation");
    return {printable(level.empty() ? "waits" : "waits (isolation " + level + ")"), Style::Doubtful};
  }
  const bool limited = !admin::textAt(container, "limitedBy").empty();
  const bool contested = trueAt(container, "contested") || limited;
  const bool doubtful = contested || !listAt(group, "notIsolatedYet").empty();
  return {printable(ownedText(group, container) + (contested ? "; " + contestedText(container, limited ? "not allowed" : "contested") : "")),
          doubtful ? Style::Doubtful : Style::Plain};
}

Cell pressureCell(const Value& container) {
  const auto permille = numberAt(container, "pressurePermille");
  if (!permille) return "-";
  return {fmt::format("{}%", *permille / 10), *permille > kPressed ? Style::Doubtful : Style::Plain};
}

Cell throttledCell(const Value& container) {
  const std::int64_t periods = numberAt(container, "throttledPeriods").value_or(0);
  const std::int64_t raised = numberAt(container, "quotaRaisedMilliCpu").value_or(0);
  std::string text = periods > 0 ? fmt::format("{}/10s", periods) : raised > 0 ? "" : "-";
  if (raised > 0)
    text += fmt::format("{}quota {} -> {}", text.empty() ? "" : ", ", cpusAt(container, "quotaMilliCpu"), cpusAt(container, "quotaRaisedMilliCpu"));
  return {text, periods > 0 ? Style::Bad : Style::Plain};
}

Cell hintCell(const Value& container) {
  const std::string seen = admin::textAt(container, "hint");
  if (seen == "takenUp") return {"taken up", Style::Good};
  if (seen == "notTakenUp") return {"not taken up", Style::Doubtful};
  return seen == "told" ? "told" : "-";
}

// Texts of a list with something between them.
std::string joined(const std::vector<Value>& list, std::string_view between) {
  std::string text;
  for (const Value& one : list) {
    if (const std::string* words = one.asString()) text += (text.empty() ? "" : std::string(between)) + *words;
  }
  return text;
}

// Of each isolated group what that does not give, once, and who does not let it be so yet.
void printIsolation(std::ostream& out, const Value& report, bool colors) {
  for (const Value& group : listAt(report, "groups")) {
    const std::string name = printable(admin::textAt(group, "name"));
    for (const Value& clause : listAt(group, "notIsolatedYet")) {
      if (const std::string* text = clause.asString())
        out << styled(name + " is not isolated yet: " + printable(*text), Style::Doubtful, colors) << "\n";
    }
    const std::string gaps = joined(listAt(group, "isolationGaps"), ". ");
    if (!gaps.empty())
      out << name << ", isolation " << printable(levelAt(group, "isolation")) << ", shares all the same: " << printable(gaps) << "\n";
  }
}

}  // namespace

void printNodeTop(const Context& context, const Value& report) {
  std::ostream& out = context.terminal.out;
  const bool colors = context.terminal.colors;
  const bool enforcing = admin::textAt(report, "mode") == "enforce";
  out << (enforcing ? "enforcing" : styled("observing: nothing is changed", Style::Doubtful, colors)) << "; "
      << printable(namedAt(report, "usableCpus")) << ", pool " << printable(orDash(admin::textAt(report, "poolCpus"))) << ", reserved "
      << printable(orDash(admin::textAt(report, "reservedCpus")));
  if (const auto pid = numberAt(report, "agentPid")) out << "; agent: process " << *pid;  // several may observe
  out << "\n";
  if (const std::string why = admin::textAt(report, "why"); !why.empty()) out << styled(printable(why), Style::Doubtful, colors) << "\n";
  if (const Value* configuration = report.find("configuration"); configuration != nullptr && !listAt(*configuration, "faults").empty()) {
    out << styled("the configuration file is not in force, the one before it is", Style::Bad, colors) << "\n";
    for (const Value& fault : listAt(*configuration, "faults")) {
      if (const std::string* text = fault.asString()) out << "  " << printable(*text) << "\n";
    }
  }
  out << "\n";
  Table table(
      {"TENANT", "GROUP", "CONTAINER", enforcing ? "HOME" : "WOULD OWN", "USE", "WANTS", "BUSY", "THREADS", "HINT", "WAITS", "THROTTLED", "MEMORY"});
  for (const Value& group : listAt(report, "groups")) {
    for (const Value& container : listAt(group, "containers")) {
      table.add({printable(admin::textAt(group, "tenant")), printable(admin::textAt(group, "name")), printable(admin::textAt(container, "container")),
                 homeCell(group, container), cpusAt(container, "usedMilliCpu"), cpusAt(container, "wantedMilliCpu"),
                 std::to_string(numberAt(container, "threadsBusy").value_or(0)), std::to_string(numberAt(container, "threads").value_or(0)),
                 hintCell(container), pressureCell(container), throttledCell(container),
                 sizeText(Bytes(numberAt(container, "residentBytes").value_or(0)))});
    }
  }
  table.print(out, colors);
  for (const Value& group : listAt(report, "groups")) {
    if (!trueAt(group, "pending")) continue;
    for (const Value& reason : listAt(group, "reasons")) {
      const std::string* text = reason.asString();
      if (text == nullptr) continue;
      constexpr std::string_view kWaits = "it waits: ";  // said before
      out << printable(admin::textAt(group, "name")) << " waits: " << printable(text->starts_with(kWaits) ? text->substr(kWaits.size()) : *text)
          << "\n";
    }
  }
  for (const Value& group : listAt(report, "groups")) {
    for (const Value& container : listAt(group, "containers")) {
      if (const std::string limit = admin::textAt(container, "limitedBy"); !limit.empty())
        out << styled(printable(admin::textAt(group, "name") + ", " + admin::textAt(container, "container") + ": " + limit), Style::Doubtful, colors)
            << "\n";
    }
  }
  printIsolation(out, report, colors);
  for (const Value& name : listAt(report, "absent")) {
    if (const std::string* text = name.asString()) out << "nothing was found of " << printable(*text) << "\n";
  }
}

}  // namespace coterie::cli
