#include "plan_node/map_legend.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "allocation/reason_text.h"
#include "plan_node/map_style.h"

namespace coterie::plan_node {

namespace {
constexpr std::size_t kLongestList = 30;  // of ids in an entry; the tooltip has all

std::string shortened(std::string list) {
  if (list.size() > kLongestList) list.replace(kLongestList, std::string::npos, "...");
  return list;
}

CpuSet homesOf(const NodePlan& node, std::size_t g) {
  CpuSet all;
  for (std::size_t c = 0; c < node.plan.groups[g].containers.size(); ++c) {
    if (node.snapshot.groups[g].containers[c].role != ContainerRole::Pause) all |= node.plan.groups[g].containers[c].home;
  }
  return all;
}

CpuSet loansOf(const allocation::GroupTarget& target) {
  CpuSet all;
  for (const allocation::ContainerTarget& container : target.containers) all |= container.loans;
  return all;
}

LegendEntry tenantEntry(const TenantEntry& tenant, std::size_t index) {
  LegendEntry entry{"tenant", fmt::format("tenant-{}", index + 1), tenantColour(index), {}, LegendMark::None, {}, {}};
  entry.text = fmt::format("tenant {}, weight {}", tenant.name, tenant.weight);
  if (tenant.cap.value > 0) entry.text += ", at most " + allocation::cpusText(tenant.cap);
  return entry;
}

LegendEntry groupEntry(const NodePlan& node, std::size_t g) {
  const allocation::GroupTarget& target = node.plan.groups[g];
  const CpuSet homes = homesOf(node, g);
  const CpuSet loans = loansOf(target);
  LegendEntry entry{"group", fmt::format("group-{}", g + 1), groupFill(g), loans.empty() ? std::string{} : loanFill(g), LegendMark::None, {}, {}};
  const std::string head = fmt::format("{} {}: ", g + 1, node.file->groups[g].name);
  const std::string place = target.pending ? waitText(node, g) : target.inPool ? "in the pool" : "CPUs " + shortened(homes.toString());
  const std::string isolation = isolationReason(node, g);
  entry.text = head + place + (isolation.empty() ? "" : ", isolation " + std::string(isolationName(node.file->groups[g].isolation))) +
               (loans.empty() ? "" : ", borrows " + shortened(loans.toString()));
  entry.title = head + "tenant " + node.tenantOf(g).name + ", entitled to " + allocation::cpusText(target.entitlement);
  for (std::size_t c = 0; c < target.containers.size(); ++c) {
    const allocation::ContainerTarget& container = target.containers[c];
    entry.title += fmt::format("\ncontainer {}: CPUs {}, memory nodes {}", containerText(node, g, c), container.home.toString(),
                               container.memoryNodes.toString());
    if (!container.loans.empty()) entry.title += ", borrows " + container.loans.toString();
  }
  for (const allocation::Reason& reason : node.plan.reasons) {
    if (reason.group == target.id) entry.title += "\n" + textOf(node, reason).sentence;
  }
  if (!isolation.empty()) entry.title += "\n" + isolation;
  return entry;
}

// What is explained only where the map has it.
std::vector<LegendEntry> markEntries(const NodePlan& node, const std::vector<CpuUse>& uses) {
  const auto any = [&](const auto& holds) { return std::any_of(uses.begin(), uses.end(), holds); };
  const auto mark = [](std::string_view fill, LegendMark kind, std::string text) {
    return LegendEntry{"mark", {}, std::string(fill), {}, kind, std::move(text), {}};
  };
  std::vector<LegendEntry> entries;
  if (any([](const CpuUse& use) { return use.planned.pool; })) {
    const auto members =
        std::count_if(node.plan.groups.begin(), node.plan.groups.end(), [](const allocation::GroupTarget& one) { return one.inPool; });
    entries.push_back(mark(kPoolFill, LegendMark::None, fmt::format("pool: shared by {} group{}", members, members == 1 ? "" : "s")));
  }
  if (any([](const CpuUse& use) { return use.closed == Closed::No && use.planned.nobody(); }))
    entries.push_back(mark(kFreeFill, LegendMark::None, "free: nobody owns it"));
  if (any([](const CpuUse& use) { return use.closed != Closed::No; }))
    entries.push_back(mark(kClosedFill, LegendMark::None, "nobody may own it: rsv reserved, iso isolated, n/a not allowed"));
  for (const CpuUse& use : uses) {
    if (use.borrowers.empty()) continue;
    LegendEntry lent = mark(kFreeFill, LegendMark::None, "striped: lent while idle; +N: to group N");
    lent.stripes = loanFill(use.borrowers.front());
    entries.push_back(std::move(lent));
    break;
  }
  if (any([](const CpuUse& use) { return use.changesHands; })) entries.push_back(mark(kFreeFill, LegendMark::Corner, "corner: changes hands"));
  if (std::any_of(node.machine->cpus.begin(), node.machine->cpus.end(), [](const Cpu& cpu) { return cpu.kind > 0; }))
    entries.push_back(mark(kFreeFill, LegendMark::Dashed, "dashed: a slower kind of core"));
  return entries;
}
}  // namespace

std::vector<LegendEntry> legendOf(const NodePlan& plan, const std::vector<CpuUse>& uses) {
  std::vector<LegendEntry> entries;
  for (std::size_t t = 0; t < plan.file->tenants.size(); ++t) entries.push_back(tenantEntry(plan.file->tenants[t], t));
  for (std::size_t g = 0; g < plan.file->groups.size(); ++g) entries.push_back(groupEntry(plan, g));
  for (LegendEntry& entry : markEntries(plan, uses)) entries.push_back(std::move(entry));
  return entries;
}

}  // namespace coterie::plan_node
