#include "plan_node/node_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "allocation/isolation_room.h"
#include "allocation/newcomers.h"
#include "allocation/objective.h"
#include "allocation/selection.h"

namespace coterie::plan_node {

namespace {
using allocation::PolicyName;

constexpr std::int64_t kCpu = 1000;
constexpr std::int64_t kDefaultWeight = 100;    // of a new cgroup
constexpr Instant kNow{std::chrono::hours(1)};  // long after everything that has happened
constexpr std::int64_t kQuarters = 4;

constexpr PolicyName kPolicies[] = {
    PolicyName::Drc,           PolicyName::NoneSingle, PolicyName::NoneMulti, PolicyName::CpuManagerSingle, PolicyName::CpuManagerMulti,
    PolicyName::KubeletStatic, PolicyName::Balloons};
constexpr std::string_view kKubeletOptions[] = {"full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket",
                                                "prefer-align-cpus-by-uncorecache"};

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int loanLanesOf(const GroupEntry& entry, int usableCpus) {
  int lanes = usableCpus;
  if (entry.ceiling.value > 0) lanes = static_cast<int>(std::min<std::int64_t>(lanes, (entry.ceiling.value + kCpu - 1) / kCpu));
  lanes = entry.loanLanes.value_or(lanes);
  for (const ContainerEntry& container : entry.containers) lanes = std::max(lanes, container.loans.count());
  return lanes;
}

allocation::GroupState stateOf(const GroupsFile& file, std::size_t index, int usableCpus, std::int32_t& nextInstance) {
  const GroupEntry& entry = file.groups[index];
  const TenantEntry& tenant = file.tenants[entry.tenant];
  allocation::GroupState state;
  state.id = GroupId(static_cast<std::int32_t>(index));
  state.tenant = TenantId(static_cast<std::int32_t>(entry.tenant));
  state.band = entry.band;
  state.tenantWeight = tenant.weight;
  state.weight = entry.weight;
  state.tenantCap = tenant.cap;
  state.floor = entry.floor;
  state.ceiling = entry.ceiling.value > 0 ? entry.ceiling : MilliCpu(kCpu * CpuSet::kMaxId);
  state.latencyCritical = entry.latencyCritical;
  state.lend = entry.lend;
  state.isolation = entry.isolation;
  state.memory = entry.memory;
  state.device = entry.device;
  state.loanLanes = loanLanesOf(entry, usableCpus);
  state.joined = Instant{} + Nanos(static_cast<std::int64_t>(index));
  state.demand = entry.demand;
  state.queuedBeyondOwnLanes = entry.queued;
  state.demandBelowEntitlementSince = Instant{};  // only looked at where the demand is below
  for (const ContainerEntry& container : entry.containers) {
    allocation::ContainerState& made = state.containers.emplace_back();
    made.id = InstanceId(nextInstance++);
    made.home = container.home;
    made.memoryNodes = container.memoryNodes;
    made.loans = container.loans;
    made.awakeLoanLanes = container.loans.count();
    made.resident = container.resident;
    made.role = container.role;
    made.floor = container.floor;
    made.expected = container.expected;
    made.cpuWeight = container.cpuWeight.value_or(container.home.empty() ? kDefaultWeight : 0);
  }
  return state;
}

// Pause containers own nothing, and an init's CPUs are its apps' once these are there.
bool counts(const allocation::GroupState& group, std::size_t container, const std::vector<CpuSet>& homes) {
  const ContainerRole role = group.containers[container].role;
  if (role != ContainerRole::Init) return role != ContainerRole::Pause;
  for (std::size_t c = 0; c < homes.size(); ++c) {
    if (group.containers[c].role == ContainerRole::App && !homes[c].empty()) return false;
  }
  return true;
}

// J of homes: per group its containers' sets. What lies in the pool is the pool's, which counts as one container of a tenant of its own.
std::int64_t costOf(const allocation::Layout& layout, const allocation::Snapshot& snapshot, const std::vector<std::vector<CpuSet>>& homes,
                    const CpuSet& pool) {
  std::vector<TenantId> tenants;
  for (const allocation::GroupState& group : snapshot.groups) tenants.push_back(group.tenant);
  tenants.emplace_back();
  allocation::Board board(layout, tenants);
  const int poolClaimant = board.claimants() - 1;
  for (const int position : layout.toPositions(pool)) board.give(position, poolClaimant);
  std::int64_t cost = 0;
  for (int g = 0; g < poolClaimant; ++g) {
    std::vector<allocation::Positions> containers;
    for (std::size_t c = 0; c < homes[at(g)].size(); ++c) {
      if (!counts(snapshot.groups[at(g)], c, homes[at(g)])) continue;
      containers.push_back(layout.toPositions(homes[at(g)][c] - pool));
      for (const int position : containers.back()) {
        if (board.owner(position) == allocation::kFree) board.give(position, g);
      }
    }
    const CpuSet device = allocation::deviceCpus(*snapshot.machine, snapshot.groups[at(g)]);
    cost += allocation::groupCost(layout, board.owned(g), containers) + allocation::deviceCost(allocation::awayFrom(layout, device), board.owned(g));
  }
  return cost + allocation::groupCost(layout, board.owned(poolClaimant), {board.owned(poolClaimant)}) + allocation::boardCost(board);
}

void addCosts(NodePlan& node) {
  const allocation::Layout layout = allocation::makeLayout(*node.machine, node.request.reserved);
  std::vector<std::vector<CpuSet>> held;
  std::vector<std::vector<CpuSet>> planned;
  bool anyHeld = false;
  bool anyInPool = false;
  CpuSet heldPool;
  for (std::size_t g = 0; g < node.snapshot.groups.size(); ++g) {
    held.emplace_back();
    planned.emplace_back();
    for (const allocation::ContainerState& container : node.snapshot.groups[g].containers) {
      held.back().push_back(container.home);
      anyHeld = anyHeld || !container.home.empty();
      if (container.role != ContainerRole::Pause && container.home.intersects(node.snapshot.pool)) heldPool = node.snapshot.pool;
    }
    for (const allocation::ContainerTarget& container : node.plan.groups[g].containers) planned.back().push_back(container.home);
    anyInPool = anyInPool || node.plan.groups[g].inPool;
  }
  node.cost = costOf(layout, node.snapshot, planned, anyInPool ? node.plan.pool : CpuSet{});
  if (anyHeld) node.costNow = costOf(layout, node.snapshot, held, heldPool);
}

std::optional<WidthProposal> widthOf(const NodePlan& node, std::size_t group) {
  const GroupEntry& entry = node.file->groups[group];
  const allocation::GroupTarget& target = node.plan.groups[group];
  if (!entry.width || target.pending) return std::nullopt;
  CpuSet home;
  for (const allocation::ContainerTarget& container : target.containers) home |= container.home;
  std::set<int> nodes;
  for (const int id : home) {
    if (const Cpu* cpu = node.machine->findCpu(id)) nodes.insert(cpu->node);
  }
  WidthProposal proposal;
  allocation::WidthQuestion& question = proposal.question;
  question.curve = entry.width->curve;
  question.cpus = target.inPool ? 0 : home.count();
  question.poolShare = target.inPool ? target.entitlement : MilliCpu(0);
  question.nodesSpanned = std::max(1, static_cast<int>(nodes.size()));
  question.arrivals = entry.width->arrivals;
  question.mostAtOnce = entry.width->atOnce;
  question.minContainers = static_cast<int>(entry.containers.size());
  question.maxContainers = std::max(question.minContainers, entry.width->maxInstances.value_or(question.minContainers));
  question.mostWideServers = question.maxContainers;
  if (entry.width->objective) {
    question.objective = entry.width->objective->latency;
    question.quantile = entry.width->objective->percentile / 100;
    for (allocation::RunTime& run : question.curve) run = allocation::atQuantile(run, question.quantile);
  }
  proposal.choice = allocation::chooseWidth(question);
  return proposal;
}

bool saysIsolation(const NodePlan& node, std::size_t group) {
  return node.file->groups[group].isolation != Isolation::None && !node.plan.groups[group].pending;
}

allocation::IsolationTerms termsOf(const NodePlan& node, std::size_t group) {
  allocation::IsolationSetting setting;
  setting.units = node.units;
  setting.reserved = !node.request.reserved.empty();
  setting.virtualMachine = node.machine->virtualMachine;
  setting.managed = allocation::Managed::Groups;
  return allocation::isolationTerms(node.file->groups[group].isolation, setting);
}

// Empty: the policy keeps it.
std::string ignoredText(const NodePlan& node, std::size_t group) {
  if (node.request.policy == PolicyName::Drc) return {};
  return "policy " + std::string(policyText(node.request.policy)) + " knows no isolation: isolation " +
         std::string(isolationName(node.file->groups[group].isolation)) + " keeps nobody away";
}

void addChanges(NodePlan& node) {
  for (std::size_t g = 0; g < node.plan.groups.size(); ++g) {
    const allocation::GroupTarget& target = node.plan.groups[g];
    if (target.pending) node.pending.push_back(g);
    for (std::size_t c = 0; c < target.containers.size(); ++c) {
      const CpuSet& from = node.snapshot.groups[g].containers[c].home;
      const CpuSet& to = target.containers[c].home;
      if (!from.empty() && !(from == to)) node.moves.push_back({g, c, from, to});
    }
  }
}
}  // namespace

std::string_view policyText(PolicyName policy) {
  switch (policy) {
    case PolicyName::Drc: return "drc";
    case PolicyName::NoneSingle: return "none-single";
    case PolicyName::NoneMulti: return "none-multi";
    case PolicyName::CpuManagerSingle: return "cpu-manager-single";
    case PolicyName::CpuManagerMulti: return "cpu-manager-multi";
    case PolicyName::KubeletStatic: return "kubelet-static";
    case PolicyName::Balloons: return "balloons";
  }
  return "unknown";
}

const std::vector<std::string>& policyNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const PolicyName policy : kPolicies) all.emplace_back(policyText(policy));
    return all;
  }();
  return names;
}

std::optional<PolicyName> policyNamed(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kPolicies), std::end(kPolicies), [&](PolicyName policy) { return policyText(policy) == name; });
  return found == std::end(kPolicies) ? std::nullopt : std::optional(*found);
}

const std::string& kubeletOptionNames() {
  static const std::string names = [] {
    std::string all;
    for (const std::string_view name : kKubeletOptions) all += (all.empty() ? "" : ", ") + std::string(name);
    return all;
  }();
  return names;
}

std::optional<allocation::KubeletStaticOptions> kubeletOptions(std::string_view list) {
  allocation::KubeletStaticOptions options;
  bool* const flags[] = {&options.fullPhysicalCpusOnly, &options.distributeAcrossNuma, &options.alignBySocket, &options.preferUncoreCache};
  while (!list.empty()) {
    const std::string_view name = list.substr(0, list.find(','));
    const auto* const found = std::find(std::begin(kKubeletOptions), std::end(kKubeletOptions), name);
    if (found == std::end(kKubeletOptions)) return std::nullopt;
    *flags[found - std::begin(kKubeletOptions)] = true;
    list.remove_prefix(std::min(list.size(), name.size() + 1));
  }
  return options;
}

NodePlan planNode(const Machine& machine, const GroupsFile& file, const PlanRequest& request) {
  NodePlan node;
  node.machine = &machine;
  node.file = &file;
  node.request = request;
  node.usable = allocation::usableCpus(machine, request.reserved);
  node.snapshot.machine = &machine;
  node.snapshot.reserved = request.reserved;
  node.snapshot.pool = file.pool;
  node.snapshot.now = kNow;
  std::int32_t nextInstance = 0;
  for (std::size_t g = 0; g < file.groups.size(); ++g) node.snapshot.groups.push_back(stateOf(file, g, node.usable.count(), nextInstance));
  allocation::Config config;
  config.policy = request.policy;
  config.kubelet = request.kubelet;
  config.memoryNodes = request.memoryNodes;
  node.plan = allocation::decide(node.snapshot, config);
  if (!node.usable.empty()) {
    node.units = allocation::isolationUnits(allocation::makeLayout(machine, request.reserved));
    addCosts(node);
  }
  addChanges(node);
  for (std::size_t g = 0; g < file.groups.size(); ++g) node.widths.push_back(widthOf(node, g));
  return node;
}

std::string costText(std::int64_t quarters) {
  static constexpr std::string_view kParts[] = {"", ".25", ".5", ".75"};
  return std::to_string(quarters / kQuarters) + std::string(kParts[quarters % kQuarters]);
}

std::string pendingText(const NodePlan& plan) {
  if (plan.pending.empty()) return {};
  std::string text = std::to_string(plan.pending.size()) + (plan.pending.size() == 1 ? " group is pending: " : " groups are pending: ");
  for (std::size_t i = 0; i < plan.pending.size(); ++i)
    text += (i == 0 ? "" : ", ") + plan.file->groups[plan.pending[i]].name + allocation::isolationSuffix(waitsForIsolation(plan, plan.pending[i]));
  return text;
}

Isolation waitsForIsolation(const NodePlan& plan, std::size_t group) {
  return allocation::impossibleIsolation(plan.plan.reasons, plan.plan.groups[group].id);
}

std::string waitText(const NodePlan& plan, std::size_t group) { return "pending" + allocation::isolationSuffix(waitsForIsolation(plan, group)); }

std::vector<std::string> isolationGaps(const NodePlan& plan, std::size_t group) {
  if (!saysIsolation(plan, group)) return {};
  if (std::string ignored = ignoredText(plan, group); !ignored.empty()) return {std::move(ignored)};
  return termsOf(plan, group).gaps;
}

std::string isolationReason(const NodePlan& plan, std::size_t group) {
  if (!saysIsolation(plan, group)) return {};
  const std::string ignored = ignoredText(plan, group);
  return ignored.empty() ? allocation::isolationText(plan.file->groups[group].isolation, termsOf(plan, group)) : ignored;
}

allocation::ReasonText textOf(const NodePlan& plan, const allocation::Reason& reason) {
  std::string other = reason.other.valid() ? plan.file->groups[at(reason.other.value)].name : std::string();
  if (reason.code == allocation::ReasonCode::DeviceUnknown) other = plan.snapshot.groups[at(reason.group.value)].device;
  return allocation::reasonText(reason, plan.tenantOf(at(reason.group.value)).name, other);
}

std::string_view stepName(allocation::StepKind kind) {
  using allocation::StepKind;
  switch (kind) {
    case StepKind::WidenAncestors: return "WidenAncestors";
    case StepKind::NarrowHome: return "NarrowHome";
    case StepKind::WidenHome: return "WidenHome";
    case StepKind::SwapHome: return "SwapHome";
    case StepKind::SetLoans: return "SetLoans";
    case StepKind::SetMemoryNodes: return "SetMemoryNodes";
    case StepKind::SetWeight: return "SetWeight";
    case StepKind::NarrowAncestors: return "NarrowAncestors";
  }
  return "Unknown";
}

std::size_t containerIndex(const NodePlan& plan, std::size_t group, InstanceId instance) {
  return static_cast<std::size_t>(instance.value - plan.snapshot.groups[group].containers.front().id.value);
}

std::string containerText(const NodePlan& plan, std::size_t group, std::size_t container) {
  const ContainerRole role = plan.snapshot.groups[group].containers[container].role;
  return std::to_string(container) + (role == ContainerRole::App ? "" : " (" + std::string(containerRoleName(role)) + ")");
}

int domainCount(const Machine& machine, DomainLevel level) {
  int count = 0;
  std::set<int> nodes;
  for (const Domain& domain : machine.domains) {
    if (domain.level != level || domain.cpus.empty()) continue;
    count += level != DomainLevel::Node || nodes.insert(domain.id).second ? 1 : 0;
  }
  return count;
}

}  // namespace coterie::plan_node
