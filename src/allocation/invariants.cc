#include "allocation/invariants.h"

#include <algorithm>
#include <map>

#include "allocation/isolation.h"
#include "allocation/layout.h"
#include "allocation/memory_checks.h"
#include "allocation/memory_map.h"
#include "allocation/roles.h"
#include "allocation/sizing.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

const GroupState* findGroup(const Snapshot& snapshot, GroupId id) {
  const auto found = std::find_if(snapshot.groups.begin(), snapshot.groups.end(), [&](const GroupState& group) { return group.id == id; });
  return found == snapshot.groups.end() ? nullptr : &*found;
}
const ContainerState* findContainer(const Snapshot& snapshot, GroupId group, InstanceId id) {
  const GroupState* owner = findGroup(snapshot, group);
  if (owner == nullptr) return nullptr;
  const auto found =
      std::find_if(owner->containers.begin(), owner->containers.end(), [&](const ContainerState& container) { return container.id == id; });
  return found == owner->containers.end() ? nullptr : &*found;
}
const GroupTarget* findTarget(const Plan& plan, GroupId id) {
  const auto found = std::find_if(plan.groups.begin(), plan.groups.end(), [&](const GroupTarget& target) { return target.id == id; });
  return found == plan.groups.end() ? nullptr : &*found;
}

// What it owns: pause containers stand beside others, and own nothing.
CpuSet homeOf(const GroupState& group) {
  CpuSet home;
  for (const ContainerState& container : group.containers) {
    if (container.role != ContainerRole::Pause) home |= container.home;
  }
  return home;
}

CpuSet pausesOf(const GroupState& group) {
  CpuSet home;
  for (const ContainerState& container : group.containers) {
    if (container.role == ContainerRole::Pause) home |= container.home;
  }
  return home;
}

// Where a group may run: its home and what it has on loan.
CpuSet activeOf(const GroupState& group) {
  CpuSet active = homeOf(group);
  for (const ContainerState& container : group.containers) active |= container.loans;
  return active;
}

// A group on a CPU: an index into the snapshot's groups.
struct Stander {
  int group{0};
  bool pause{false};  // only a pause container of it
};
std::vector<std::vector<Stander>> standersByCpu(const Snapshot& snapshot) {
  std::vector<std::vector<Stander>> standers(at(snapshot.machine->online.last() + 1));
  for (std::size_t g = 0; g < snapshot.groups.size(); ++g) {
    const CpuSet home = homeOf(snapshot.groups[g]);
    for (const int cpu : home | pausesOf(snapshot.groups[g])) {
      if (at(cpu) < standers.size()) standers[at(cpu)].push_back({static_cast<int>(g), !home.contains(cpu)});
    }
  }
  return standers;
}

class StateCheck {
 public:
  StateCheck(const Snapshot& before, const Plan& plan, const Snapshot& now, const Config& config)
      : before_(before), plan_(plan), now_(now), config_(config) {}

  std::vector<Violation> run() {
    usable_ = usableCpus(*now_.machine, now_.reserved);
    checkOwners();
    checkLoans();
    checkIsolation();
    const MemoryMap memory(*now_.machine);
    for (const GroupState& group : now_.groups) {
      for (const ContainerState& container : group.containers) checkContainer(group, container, memory);
    }
    return std::move(found_);
  }

 private:
  void fail(int rule, const GroupState& group, InstanceId container, int cpu, std::string_view what) {
    found_.push_back({rule, group.id, container, cpu, what});
  }

  [[nodiscard]] bool heldBefore(const GroupState& group, int cpu) const {
    const GroupState* then = findGroup(before_, group.id);
    return then != nullptr && homeOf(*then).contains(cpu);
  }
  [[nodiscard]] bool heldBefore(const Stander& one, int cpu) const {
    const GroupState* then = findGroup(before_, groupOf(one).id);
    return then != nullptr && (homeOf(*then).contains(cpu) || (one.pause && pausesOf(*then).contains(cpu)));
  }
  [[nodiscard]] const GroupState& groupOf(const Stander& one) const { return now_.groups[at(one.group)]; }

  // Does the group stand on this CPU only by a SwapHome step?
  [[nodiscard]] bool swapped(const GroupState& group, int cpu) const {
    for (const Step& step : plan_.steps) {
      if (step.kind != StepKind::SwapHome || step.group != group.id || !step.cpus.contains(cpu)) continue;
      const ContainerState* container = findContainer(now_, step.group, step.container);
      if (container != nullptr && container->home == step.cpus) return true;
    }
    return false;
  }

  void checkOwners() {
    const auto standers = standersByCpu(now_);
    for (std::size_t cpu = 0; cpu < standers.size(); ++cpu) {
      const int id = static_cast<int>(cpu);
      if (standers[cpu].size() < 2 || old(standers[cpu], id) || pooled(standers[cpu], id)) continue;
      std::vector<Stander> settled = standers[cpu];
      std::erase_if(settled, [&](const Stander& one) { return swapped(groupOf(one), id); });
      const bool swap = settled.size() < standers[cpu].size();
      if (swap && !(before_.pool.contains(id) && plan_.pool.contains(id)) && !sameTenant(standers[cpu])) {
        fail(5, groupOf(standers[cpu].front()), {}, id, "a swap shares a CPU across tenants");
      }
      if (settled.size() > 1 && !old(settled, id) && !pooled(settled, id)) fail(1, groupOf(settled.back()), {}, id, "a CPU has two owners");
    }
  }

  // All of them were there before: whoever leaves has only not left yet.
  [[nodiscard]] bool old(const std::vector<Stander>& standers, int cpu) const {
    return std::all_of(standers.begin(), standers.end(), [&](const Stander& one) { return heldBefore(one, cpu); });
  }
  // They share it by right: members of the new pool and pause containers, on its CPUs or on those it leaves, and on what it keeps members of the old
  // one.
  [[nodiscard]] bool pooled(const std::vector<Stander>& standers, int cpu) const {
    const bool was = before_.pool.contains(cpu);
    const bool is = plan_.pool.contains(cpu);
    return (was || is) && std::all_of(standers.begin(), standers.end(), [&](const Stander& one) {
             const GroupTarget* target = findTarget(plan_, groupOf(one).id);
             return one.pause || (target != nullptr && target->inPool) || (was && is && heldBefore(one, cpu));
           });
  }
  [[nodiscard]] bool sameTenant(const std::vector<Stander>& standers) const {
    return std::all_of(standers.begin(), standers.end(), [&](const Stander& one) { return groupOf(one).tenant == groupOf(standers.front()).tenant; });
  }

  void checkLoans() {
    for (const GroupState& group : now_.groups) {
      const CpuSet home = homeOf(group);
      for (const ContainerState& container : group.containers) {
        if (container.loans.empty()) continue;
        const ContainerState* then = findContainer(before_, group.id, container.id);
        const CpuSet old = then == nullptr ? CpuSet{} : then->loans;
        const GroupState* groupThen = findGroup(before_, group.id);
        const CpuSet oldHome = groupThen == nullptr ? CpuSet{} : homeOf(*groupThen);
        for (const int cpu : container.loans& home) {
          if (!old.contains(cpu) || !oldHome.contains(cpu)) fail(2, group, container.id, cpu, "a CPU is home and loan of one group");
        }
        for (const GroupState& owner : now_.groups) {
          if (owner.id == group.id || owner.lend != Lend::Never) continue;
          for (const int cpu : homeOf(owner) & container.loans) {
            if (swapped(owner, cpu) || (old.contains(cpu) && heldBefore(owner, cpu))) continue;
            fail(5, group, container.id, cpu, "a loan of an owner that does not lend");
          }
        }
      }
    }
  }

  // Nobody else's home or loan in a unit of an isolated group, unless both were in it before. Units are of usable CPUs: on others, strangers may run.
  void checkIsolation() {
    for (const GroupState& group : now_.groups) {
      if (!isolated(group)) continue;
      const CpuSet home = homeOf(group);
      const CpuSet units = unitsOf(*now_.machine, home, group.isolation) & usable_;
      const GroupState* then = findGroup(before_, group.id);
      const CpuSet unitsThen = then == nullptr ? CpuSet{} : unitsOf(*now_.machine, homeOf(*then), group.isolation);
      for (const GroupState& other : now_.groups) {
        if (other.tenant == group.tenant) continue;
        const GroupState* otherThen = findGroup(before_, other.id);
        const CpuSet there = (activeOf(other) | pausesOf(other)) & units;
        const CpuSet old = otherThen == nullptr ? CpuSet{} : (activeOf(*otherThen) | pausesOf(*otherThen)) & unitsThen;
        if (!there.isSubsetOf(old)) fail(5, group, {}, (there - old).first(), "another tenant stands in a unit of an isolated group");
      }
    }
  }

  void checkContainer(const GroupState& group, const ContainerState& container, const MemoryMap& memory) {
    const ContainerState* then = findContainer(before_, group.id, container.id);
    const CpuSet oldHome = then == nullptr ? CpuSet{} : then->home;
    const CpuSet oldLoans = then == nullptr ? CpuSet{} : then->loans;
    for (const int cpu : ((container.home - oldHome) | (container.loans - oldLoans)) - usable_)
      fail(3, group, container.id, cpu, "a CPU that nobody may use entered a set");
    if (container.home.empty() && !oldHome.empty()) fail(4, group, container.id, -1, "a home became empty");
    if (container.home.empty() || !config_.memoryNodes || then == nullptr) return;
    const CpuSet wanted = memory.nearest(container.home & now_.machine->online, group.memory);
    const bool coveredThen = then->home.empty() || memory.nearest(then->home & now_.machine->online, group.memory).isSubsetOf(then->memoryNodes);
    if (coveredThen && !wanted.isSubsetOf(container.memoryNodes))
      fail(6, group, container.id, (wanted - container.memoryNodes).first(), "the home's memory node is missing");
    if (container.memoryNodes != then->memoryNodes && sizeOf(*now_.machine, container.memoryNodes) < container.resident.value &&
        sizeOf(*now_.machine, container.memoryNodes) < sizeOf(*now_.machine, then->memoryNodes)) {
      fail(6, group, container.id, -1, "memory nodes narrowed below the resident bytes");
    }
  }

  const Snapshot& before_;
  const Plan& plan_;
  const Snapshot& now_;
  const Config& config_;
  CpuSet usable_;
  std::vector<Violation> found_;
};

bool waitsOn(const Plan& plan, int later, int earlier) {
  for (const int wait : plan.steps[at(later)].waitsFor) {
    if (wait == earlier || (wait > earlier && waitsOn(plan, wait, earlier))) return true;
  }
  return false;
}

int fieldOf(StepKind kind) {
  switch (kind) {
    case StepKind::NarrowHome:
    case StepKind::WidenHome:
    case StepKind::SwapHome: return 0;
    case StepKind::SetLoans: return 1;
    case StepKind::SetMemoryNodes: return 2;
    case StepKind::SetWeight: return 3;
    case StepKind::WidenAncestors:
    case StepKind::NarrowAncestors: return 4;
  }
  return 4;
}

void checkWriters(const Plan& plan, std::vector<Violation>& found) {
  std::map<std::pair<InstanceId, int>, int> last;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const int index = static_cast<int>(s);
    for (const int wait : step.waitsFor) {
      if (wait < 0 || wait >= index) found.push_back({7, step.group, step.container, index, "a step waits for a later one"});
    }
    const auto [entry, fresh] = last.try_emplace({step.container, fieldOf(step.kind)}, index);
    if (!fresh && !waitsOn(plan, index, entry->second))
      found.push_back({7, step.group, step.container, index, "two writes of one field are not ordered"});
    entry->second = index;
  }
}
// Sidecars are apart from apps and inits where there are CPUs enough; pauses stand in the pool, or on their own group's CPUs.
void checkRoles(const GroupState& group, const GroupTarget& target, const CpuSet& pool, std::vector<Violation>& found) {
  if (!hasRoles(group) || target.pending) return;
  CpuSet apps;
  CpuSet sidecars;
  CpuSet pauses;
  for (std::size_t c = 0; c < group.containers.size(); ++c) {
    const ContainerRole role = group.containers[c].role;
    (role == ContainerRole::Pause ? pauses : role == ContainerRole::Sidecar ? sidecars : apps) |= target.containers[c].home;
  }
  const bool room = (apps | sidecars).count() >= leastCpus(shapeOf(group));
  if (!target.inPool && room && apps.intersects(sidecars))
    found.push_back({8, group.id, {}, (apps & sidecars).first(), "a sidecar shares with an app"});
  const CpuSet wanted = pool.empty() || isolated(group) ? apps | sidecars : pool;
  if (!pauses.empty() && pauses != wanted && !(apps | sidecars).empty()) found.push_back({8, group.id, {}, -1, "a pause is not where it should be"});
}

// A group of `snapshot` and where it stands.
struct Standing {
  const GroupState* group;
  const GroupTarget* target;
  CpuSet home;
};

// What an isolated group owns for its floor: as it is charged, or the units that it has if it cannot do with one fewer (units may differ in size).
std::int64_t floorInUnits(const Snapshot& snapshot, const Standing& one, const UnitCounts& units) {
  const CpuSet usable = usableCpus(*snapshot.machine, snapshot.reserved);
  int smallest = one.home.count();
  for (const int cpu : one.home) smallest = std::min(smallest, (unitsOf(*snapshot.machine, CpuSet{cpu}, one.group->isolation) & usable).count());
  const GroupState shape = shapeOf(*one.group);
  const bool needed = one.home.count() - smallest < std::max<std::int64_t>(1, cpusForFloor(shape.floor));
  return 1000 * std::max<std::int64_t>(cpusForFloor(shape, units), needed ? one.home.count() : 0);
}

void checkCaps(const Snapshot& snapshot, const std::vector<Standing>& all, std::vector<Violation>& found) {
  const Machine& machine = *snapshot.machine;
  const UnitCounts units(makeLayout(machine, snapshot.reserved));
  struct Tally {
    std::int64_t cap{0};  // 0: none
    std::int64_t floors{0};
    std::int64_t owned{0};
    GroupId last;
  };
  std::map<TenantId, Tally> tenants;
  for (const Standing& one : all) {
    if (one.target->pending) continue;
    Tally& tally = tenants[one.group->tenant];
    const std::int64_t cap = one.group->tenantCap.value;
    if (cap > 0 && (tally.cap == 0 || cap < tally.cap)) tally.cap = cap;
    const GroupState shape = shapeOf(*one.group);
    const std::int64_t floor = shape.floor.value;
    if (isolated(shape)) {
      tally.floors += floorInUnits(snapshot, one, units);
    } else {
      tally.floors += floor >= 1000 ? (floor + 999) / 1000 * 1000 : std::max<std::int64_t>(1, floor);
    }
    if (one.target->inPool) tally.owned += one.target->entitlement.value;
    for (const int cpu : one.target->inPool ? CpuSet{} : one.home) tally.owned += machine.findCpu(cpu)->capacity.value;
    tally.last = one.group->id;
  }
  for (const auto& [tenant, tally] : tenants) {
    if (tally.cap > 0 && tally.owned > std::max(tally.cap, tally.floors)) found.push_back({0, tally.last, {}, -1, "a tenant owns more than its cap"});
  }
}
}  // namespace

namespace {
void checkUnits(const Snapshot& before, const Plan& plan, const Standing& one, std::vector<Violation>& found) {
  if (!isolated(*one.group) || one.home.empty()) return;  // pause containers alone are in the pool
  if (one.target->inPool) found.push_back({5, one.group->id, {}, -1, "an isolated group is in the pool"});
  const CpuSet units = unitsOf(*before.machine, one.home, one.group->isolation) & usableCpus(*before.machine, before.reserved);
  for (const GroupTarget& other : plan.groups) {
    const GroupState* state = findGroup(before, other.id);
    if (state == nullptr || state->tenant == one.group->tenant) continue;
    for (const ContainerTarget& container : other.containers) {
      const CpuSet near = (container.home | container.loans) & units;
      if (!near.empty()) found.push_back({5, one.group->id, container.id, near.first(), "a target of another tenant in a unit of an isolated group"});
    }
  }
}
}  // namespace

std::vector<Violation> checkPlan(const Snapshot& before, const Plan& plan, const Config& config) {
  std::vector<Violation> found;
  const CpuSet usable = usableCpus(*before.machine, before.reserved);
  const bool floating = config.policy == PolicyName::NoneSingle || config.policy == PolicyName::NoneMulti;
  CpuSet taken;
  std::vector<Standing> standings;
  for (const GroupTarget& target : plan.groups) {
    const GroupState* group = findGroup(before, target.id);
    CpuSet home;
    CpuSet loans;
    CpuSet pauses;
    for (std::size_t c = 0; c < target.containers.size(); ++c) {
      const ContainerTarget& container = target.containers[c];
      const bool pause = group != nullptr && group->containers[c].role == ContainerRole::Pause;
      (pause ? pauses : home) |= container.home;
      loans |= container.loans;
      const int lanes = target.inPool && !floating && config.policy == PolicyName::Drc ? 1 : container.home.count();
      if (container.ownLanes > std::max(1, lanes)) found.push_back({2, target.id, container.id, -1, "more own lanes than CPUs"});
      if (container.home.empty() && !target.pending) found.push_back({4, target.id, container.id, -1, "a target without a home"});
    }
    if (config.policy == PolicyName::Drc && group != nullptr) checkRoles(*group, target, plan.pool, found);
    if (!pauses.isSubsetOf(usable)) found.push_back({3, target.id, {}, (pauses - usable).first(), "a pause on a CPU that nobody may use"});
    if (!home.isSubsetOf(usable)) found.push_back({3, target.id, {}, (home - usable).first(), "a target on a CPU that nobody may use"});
    if (!loans.isSubsetOf(usable)) found.push_back({3, target.id, {}, (loans - usable).first(), "a loan on a CPU that nobody may use"});
    if (config.policy == PolicyName::Drc && group != nullptr && !target.pending) checkUnits(before, plan, {group, &target, home}, found);
    if (home.intersects(loans)) found.push_back({2, target.id, {}, (home & loans).first(), "a target is home and loan"});
    if (target.inPool) {
      if ((home | pauses) != plan.pool && !target.pending) found.push_back({1, target.id, {}, -1, "a pool member's home is not the pool"});
    } else {
      if (home.intersects(taken)) found.push_back({1, target.id, {}, (home & taken).first(), "two targets share a CPU"});
      if (home.intersects(plan.pool)) found.push_back({1, target.id, {}, (home & plan.pool).first(), "a target shares a CPU with the pool"});
      taken |= home;
    }
    if (group != nullptr) standings.push_back({group, &target, home});
  }
  if (config.policy == PolicyName::Drc) checkCaps(before, standings, found);
  for (const Step& step : plan.steps) {
    if (!step.cpus.isSubsetOf(usable))
      found.push_back({3, step.group, step.container, (step.cpus - usable).first(), "a step writes a CPU that nobody may use"});
    if (fieldOf(step.kind) == 0 && step.cpus.empty()) found.push_back({4, step.group, step.container, -1, "a step writes an empty home"});
    if (step.kind == StepKind::SetMemoryNodes && step.memoryNodes.empty())
      found.push_back({4, step.group, step.container, -1, "a step writes no memory node"});
  }
  checkMemory(before, plan, config, found);
  checkWriters(plan, found);
  return found;
}

std::vector<Violation> checkState(const Snapshot& before, const Plan& plan, const Snapshot& now, const Config& config) {
  return StateCheck(before, plan, now, config).run();
}

std::vector<Violation> checkDone(const Plan& plan, const Snapshot& now, const Config& config) {
  std::vector<Violation> found;
  const CpuSet usable = usableCpus(*now.machine, now.reserved);
  const bool anyPending = std::any_of(plan.groups.begin(), plan.groups.end(), [](const GroupTarget& target) { return target.pending; });
  std::vector<Standing> standings;
  for (const GroupState& group : now.groups) {
    const GroupTarget* target = findTarget(plan, group.id);
    if (target == nullptr || target->pending) continue;
    standings.push_back({&group, target, homeOf(group) & usable});
    for (std::size_t c = 0; c < group.containers.size(); ++c) {
      const ContainerState& container = group.containers[c];
      if (anyPending) continue;  // takers do without what a Pending group still holds
      const CpuSet all = container.home | container.loans;
      if (!all.isSubsetOf(usable)) found.push_back({3, group.id, container.id, (all - usable).first(), "a CPU that nobody may use is left"});
      if (container.home != target->containers[c].home) found.push_back({1, group.id, container.id, -1, "the target was not reached"});
      if (container.loans != target->containers[c].loans) found.push_back({2, group.id, container.id, -1, "the loans were not reached"});
      const CpuSet& nodes = target->containers[c].memoryNodes;
      if (config.memoryNodes && !nodes.empty() && container.memoryNodes != nodes)
        found.push_back({6, group.id, container.id, -1, "the memory nodes were not reached"});
    }
  }
  // Takers that do without what a Pending group still holds have not shed all they will.
  if (config.policy == PolicyName::Drc && !anyPending) checkCaps(now, standings, found);
  return found;
}

}  // namespace coterie::allocation
