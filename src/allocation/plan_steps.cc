#include "allocation/plan_steps.h"

#include <algorithm>

#include "allocation/isolation.h"

namespace coterie::allocation {

namespace {
constexpr int kNone = -1;
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// One container on its way from `old` to `next`.
struct Item {
  const GroupState* group{nullptr};
  const GroupTarget* groupTarget{nullptr};
  const ContainerState* state{nullptr};
  const ContainerTarget* target{nullptr};
  int groupIndex{0};
  CpuSet kept;                // old & next
  std::vector<int> entering;  // positions in next, not in old
  std::vector<int> leaving;   // positions in old, not in next
  CpuSet aside;               // where it stands after its step aside
  int loansEnd{kNone};        // indices of its steps
  int memoryWiden{kNone};
  int narrow{kNone};
  int stepAside{kNone};
  int last{kNone};      // the write that brings it home
  bool settled{false};  // nothing more to plan for its home
  bool stuck{false};    // stays on what it has: others do without it
};

class Planner {
 public:
  Planner(const Layout& layout, const Snapshot& snapshot, const std::vector<const GroupState*>& groups, const std::vector<GroupTarget>& targets,
          const CpuSet& newPool, const MemoryMap& memory, const Config& config)
      : machine_(*snapshot.machine),
        layout_(layout),
        groups_(groups),
        targets_(targets),
        memory_(memory),
        config_(config),
        poolAlways_(snapshot.pool & newPool) {}

  [[nodiscard]] const std::vector<bool>& blocked() const { return blocked_; }

  std::vector<Step> run() {
    blocked_.assign(groups_.size(), false);
    makeItems();
    if (!anythingToDo()) return {};
    endLoans();
    widenMemory();
    widenAncestors();
    narrowHomes();
    settleHomes();
    beginLoans();
    narrowMemory();
    setWeights();
    narrowAncestors();
    // Room above for what nobody can enter yet is asked for again when somebody can.
    if (steps_.size() == 1 && steps_.front().kind == StepKind::WidenAncestors) steps_.clear();
    return std::move(steps_);
  }

 private:
  void makeItems() {
    leavers_.resize(layout_.ids.size());
    loansLeft_.resize(layout_.ids.size());
    holders_.assign(layout_.ids.size(), 0);
    wanted_.assign(layout_.ids.size(), 0);
    unitLeavers_.resize(layout_.branches.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t c = 0; c < groups_[g]->containers.size(); ++c) {
        Item item;
        item.group = groups_[g];
        item.groupTarget = &targets_[g];
        item.state = &groups_[g]->containers[c];
        item.target = &targets_[g].containers[c];
        item.groupIndex = static_cast<int>(g);
        item.stuck = item.settled = targets_[g].pending;
        if (item.state->home == item.target->home) {
          item.kept = item.state->home;
          item.settled = true;
        } else {
          item.kept = item.state->home & item.target->home;
          item.entering = layout_.toPositions(item.target->home - item.state->home);
          item.leaving = layout_.toPositions(item.state->home - item.target->home);
        }
        const int index = static_cast<int>(items_.size());
        for (const int position : item.leaving) leavers_[at(position)].push_back(index);
        for (const int id : item.state->home) {
          if (const int position = layout_.positionOf(id); position >= 0) {
            ++holders_[at(position)];
          } else if (const Cpu* cpu = machine_.findCpu(id); cpu != nullptr) {
            strays_.push_back({index, cpu});
          }
        }
        for (const int position : item.entering) ++wanted_[at(position)];
        if (isolated(*item.group)) {
          for (const int position : item.leaving) unitLeavers_[at(unitOf(item, position))].push_back({index, position});
        }
        items_.push_back(std::move(item));
      }
    }
  }

  [[nodiscard]] std::int64_t leafWeight(const Item& item) const {
    return std::clamp<std::int64_t>(item.groupTarget->cpuWeight / static_cast<std::int64_t>(item.group->containers.size()), 1, 10000);
  }
  [[nodiscard]] static bool loansDiffer(const Item& item) {
    return item.state->loans != item.target->loans || item.state->awakeLoanLanes != item.target->awakeLoanLanes;
  }
  [[nodiscard]] bool weightDiffers(const Item& item) const {
    return !item.groupTarget->pending && item.state->cpuWeight > 0 && item.state->cpuWeight != leafWeight(item);
  }
  [[nodiscard]] bool memoryDiffers(const Item& item) const {
    return config_.memoryNodes && !item.groupTarget->pending && !item.target->memoryNodes.empty() &&
           item.state->memoryNodes != item.target->memoryNodes;
  }
  [[nodiscard]] bool anythingToDo() const {
    return std::any_of(items_.begin(), items_.end(),
                       [&](const Item& item) { return !item.settled || loansDiffer(item) || weightDiffers(item) || memoryDiffers(item); });
  }

  int add(StepKind kind, const Item& item, CpuSet cpus, std::vector<int> waits) {
    std::erase(waits, kNone);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    steps_.push_back({kind, item.state->id, item.group->id, std::move(cpus), {}, 0, std::move(waits)});
    return static_cast<int>(steps_.size()) - 1;
  }

  void endLoans() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      Item& item = items_[i];
      if (item.state->loans.isSubsetOf(item.target->loans)) continue;
      item.loansEnd = add(StepKind::SetLoans, item, item.state->loans & item.target->loans, {});
      for (const int position : layout_.toPositions(item.state->loans - item.target->loans)) loansLeft_[at(position)].push_back(static_cast<int>(i));
    }
  }

  void widenMemory() {
    for (Item& item : items_) {
      if (memoryDiffers(item) && !item.target->memoryNodes.isSubsetOf(item.state->memoryNodes)) widenTo(item, item.target->memoryNodes);
    }
  }

  void widenTo(Item& item, const CpuSet& nodes) {
    if (item.memoryWiden == kNone) {
      item.memoryWiden = add(StepKind::SetMemoryNodes, item, {}, {});
      steps_.back().memoryNodes = item.state->memoryNodes;
    }
    steps_[at(item.memoryWiden)].memoryNodes |= nodes;
  }

  // Everything that containers hold (now) or shall hold: the set above all of them.
  [[nodiscard]] CpuSet active(bool now) const {
    CpuSet cpus;
    for (const Item& item : items_) {
      cpus |= now || item.stuck ? item.state->home | item.state->loans : item.target->home | item.target->loans;
    }
    return cpus & layout_.usable;
  }

  void addAncestors(StepKind kind, CpuSet cpus, std::vector<int> waits) {
    steps_.push_back({kind, {}, {}, std::move(cpus), {}, 0, std::move(waits)});
  }

  void widenAncestors() {
    before_ = active(true);
    after_ = active(false);
    if (after_.isSubsetOf(before_)) return;
    addAncestors(StepKind::WidenAncestors, before_ | after_, {});
    ancestors_ = static_cast<int>(steps_.size()) - 1;
  }

  void narrowHomes() {
    for (Item& item : items_) {
      if (item.settled || item.kept.empty() || item.kept == item.state->home) continue;
      item.narrow = add(StepKind::NarrowHome, item, item.kept, {});
      if (item.entering.empty()) item.settled = true;
    }
  }

  // The write after which the container no longer holds the position; kNone: not planned yet.
  [[nodiscard]] int releaseOf(const Item& item, int position) const { return releaseOfCpu(item, layout_.ids[at(position)]); }
  [[nodiscard]] int releaseOfCpu(const Item& item, int id) const {
    if (item.stepAside != kNone && !item.aside.contains(id)) return item.stepAside;
    return item.narrow != kNone ? item.narrow : item.last;
  }

  enum class Entry { Ready, Later, Never };  // in the order of how bad it is
  // May the item enter the position, and after which writes?
  Entry entryAt(const Item& item, int position, std::vector<int>& waits) const {
    Entry entry = Entry::Ready;
    if (!before_.contains(layout_.ids[at(position)])) waits.push_back(ancestors_);
    const bool pool = poolAlways_.contains(layout_.ids[at(position)]);
    for (const int other : leavers_[at(position)]) {
      const Item& leaver = items_[at(other)];
      if (leaver.groupIndex == item.groupIndex || pool) continue;
      const int release = releaseOf(leaver, position);
      if (release != kNone) {
        waits.push_back(release);
      } else if (leaver.stuck) {
        return Entry::Never;
      } else {
        entry = Entry::Later;
      }
    }
    awaitLoans(item, position, waits);
    return std::max(entry, awaitUnits(item, position, waits));
  }

  [[nodiscard]] int unitOf(const Item& item, int position) const {
    return layout_.paths[at(position)][at(static_cast<int>(unitLevel(item.group->isolation)))];
  }

  // Isolation holds in between: other tenants have left the whole unit before an isolated item enters any CPU of it, and nobody enters a unit of
  // which another tenant's isolated item still holds a part.
  Entry awaitUnits(const Item& item, int position, std::vector<int>& waits) const {
    Entry entry = Entry::Ready;
    const auto await = [&](const Item& leaver, int id) {
      if (mayTouch(*leaver.group, *item.group)) return;
      const int release = releaseOfCpu(leaver, id);
      if (release != kNone) {
        waits.push_back(release);
      } else {
        entry = std::max(entry, leaver.stuck ? Entry::Never : Entry::Later);
      }
    };
    for (const int branch : layout_.paths[at(position)]) {
      for (const UnitLeaver& one : unitLeavers_[at(branch)]) await(items_[at(one.item)], layout_.ids[at(one.position)]);
    }
    for (const Stray& stray : strays_) {
      const Item& leaver = items_[at(stray.item)];
      const Cpu& entered = *machine_.findCpu(layout_.ids[at(position)]);
      if (sameUnit(item, entered, *stray.cpu) || sameUnit(leaver, entered, *stray.cpu)) await(leaver, stray.cpu->id);
    }
    if (!isolated(*item.group)) return entry;
    const Layout::Branch& unit = layout_.branches[at(unitOf(item, position))];
    for (int other = unit.begin; other < unit.end; ++other) {
      for (const int leaver : leavers_[at(other)]) await(items_[at(leaver)], layout_.ids[at(other)]);
      for (const int loan : loansLeft_[at(other)]) {
        if (!mayTouch(*items_[at(loan)].group, *item.group)) waits.push_back(items_[at(loan)].loansEnd);
      }
    }
    return entry;
  }

  // Are both CPUs in one unit of an isolated item?
  [[nodiscard]] static bool sameUnit(const Item& item, const Cpu& one, const Cpu& other) {
    switch (item.group->isolation) {
      case Isolation::None: return false;
      case Isolation::Core: return one.core == other.core;
      case Isolation::Cache: return one.cache == other.cache;
      case Isolation::Node: return one.node == other.node;
    }
    return false;
  }

  // Would the item, standing on a CPU that is not in its plan, come too near to somebody, or somebody to it?
  [[nodiscard]] bool tooNear(const Item& item, int position) const {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& other) {
      if (mayTouch(*other.group, *item.group)) return false;
      for (const Item* apart : {&item, &other}) {
        if (!isolated(*apart->group)) continue;
        const Layout::Branch& unit = layout_.branches[at(unitOf(*apart, position))];
        for (int near = unit.begin; near < unit.end; ++near) {
          const int id = layout_.ids[at(near)];
          if (other.state->home.contains(id) || other.target->home.contains(id) || other.aside.contains(id) || other.state->loans.contains(id) ||
              other.target->loans.contains(id))
            return true;
        }
      }
      return false;
    });
  }

  void awaitLoans(const Item& item, int position, std::vector<int>& waits) const {
    for (const int other : loansLeft_[at(position)]) {
      if (items_[at(other)].groupIndex == item.groupIndex || item.group->lend == Lend::Never) waits.push_back(items_[at(other)].loansEnd);
    }
  }

  // Does a loan, now or later, bar the item from standing there for a while?
  [[nodiscard]] bool barred(const Item& item, int id) const {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& other) {
      return (other.groupIndex == item.groupIndex || item.group->lend == Lend::Never) &&
             (other.state->loans.contains(id) || other.target->loans.contains(id));
    });
  }

  void settleHomes() {
    bool waiting = true;
    while (waiting) {
      waiting = false;
      bool progress = false;
      for (Item& item : items_) {
        if (item.settled) continue;
        if (settle(item)) {
          progress = true;
        } else {
          waiting = true;
        }
      }
      if (waiting && !progress && !breakCircle()) giveUpOne();
    }
  }

  bool settle(Item& item) {
    std::vector<int> waits{item.narrow, item.stepAside, item.memoryWiden};
    CpuSet cpus = item.kept;
    bool whole = true;
    for (const int position : item.entering) {
      const Entry entry = entryAt(item, position, waits);
      if (entry == Entry::Later) return false;
      if (entry == Entry::Never) {
        whole = false;
      } else {
        cpus.add(layout_.ids[at(position)]);
      }
    }
    item.settled = true;
    const CpuSet standing = item.stepAside != kNone ? item.aside : item.kept;
    if (cpus.empty() || (!whole && cpus == standing)) {
      item.stuck = item.kept.empty();
    } else if (cpus == standing) {
      item.last = item.stepAside;
    } else {
      item.last = add(StepKind::WidenHome, item, std::move(cpus), std::move(waits));
    }
    if (!whole) incomplete_.push_back(item.groupIndex);
    return true;
  }

  // Moves that wait for each other: one of them steps aside.
  bool breakCircle() {
    for (Item& item : items_) {
      if (item.settled || item.stepAside != kNone || item.narrow != kNone) continue;
      if (aheadOntoFreePart(item) || ontoOwnGroup(item) || ontoFewer(item) || ontoSibling(item) || ontoFree(item) || ontoPool(item) ||
          ontoSameTenant(item))
        return true;
    }
    return false;
  }

  // An isolated one, if there is any: it is what keeps the others from passing.
  void giveUpOne() {
    for (const bool onlyIsolated : {true, false}) {
      for (Item& item : items_) {
        if (item.settled || (onlyIsolated && !isolated(*item.group))) continue;
        item.settled = item.stuck = true;
        incomplete_.push_back(item.groupIndex);
        blocked_[at(item.groupIndex)] = true;
        return;
      }
    }
  }

  bool stepTo(Item& item, StepKind kind, CpuSet cpus, std::vector<int> waits) {
    const CpuSet nodes = memory_.nearest(cpus);
    if (config_.memoryNodes && !nodes.isSubsetOf(item.state->memoryNodes)) widenTo(item, nodes);
    waits.push_back(item.memoryWiden);
    if (!cpus.isSubsetOf(before_)) waits.push_back(ancestors_);
    item.aside = cpus;
    item.stepAside = add(kind, item, std::move(cpus), std::move(waits));
    return true;
  }

  bool aheadOntoFreePart(Item& item) {
    std::vector<int> waits;
    CpuSet part;
    for (const int position : item.entering) {
      std::vector<int> needed;
      if (entryAt(item, position, needed) != Entry::Ready) continue;
      part.add(layout_.ids[at(position)]);
      waits.insert(waits.end(), needed.begin(), needed.end());
    }
    return !part.empty() && stepTo(item, StepKind::WidenHome, part, waits);
  }

  bool ontoOwnGroup(Item& item) {
    for (const Item& other : items_) {
      if (&other == &item || other.groupIndex != item.groupIndex) continue;
      if (!other.kept.empty()) return stepTo(item, StepKind::WidenHome, CpuSet{other.kept.first()}, {});
      if (other.last != kNone) return stepTo(item, StepKind::WidenHome, CpuSet{steps_[at(other.last)].cpus.first()}, {other.last});
    }
    return false;
  }

  bool ontoFewer(Item& item) {
    const CpuSet now = item.state->home & layout_.usable;
    return now.count() > 1 && stepTo(item, StepKind::NarrowHome, CpuSet{now.first()}, {});
  }

  // Onto a CPU that another container of the group holds and has not left either: the group draws together and leaves the rest.
  bool ontoSibling(Item& item) {
    for (const Item& other : items_) {
      if (&other == &item || other.groupIndex != item.groupIndex || other.settled || other.stepAside != kNone || other.narrow != kNone) continue;
      for (const int position : other.leaving) {
        const int id = layout_.ids[at(position)];
        if (item.state->home.contains(id) || poolAlways_.contains(id)) continue;
        leavers_[at(position)].push_back(static_cast<int>(&item - items_.data()));  // whoever takes it waits for this one too
        if (isolated(*item.group)) unitLeavers_[at(unitOf(item, position))].push_back({static_cast<int>(&item - items_.data()), position});
        return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
      }
    }
    return false;
  }

  bool ontoFree(Item& item) {
    for (int position = 0; position < layout_.size(); ++position) {
      const int id = layout_.ids[at(position)];
      if (holders_[at(position)] > 0 || wanted_[at(position)] > 0 || asideTaken_.contains(id) || poolAlways_.contains(id) || barred(item, id) ||
          tooNear(item, position))
        continue;
      asideTaken_.add(id);
      return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoPool(Item& item) {
    if (item.state->home.intersects(poolAlways_)) return false;
    for (const int id : poolAlways_) {
      if (!barred(item, id) && !tooNear(item, layout_.positionOf(id))) return stepTo(item, StepKind::SwapHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoSameTenant(Item& item) {
    if (isolated(*item.group)) return false;
    for (const int position : item.entering) {
      std::vector<int> waits;
      awaitLoans(item, position, waits);
      bool same = awaitUnits(item, position, waits) == Entry::Ready;
      for (const int other : leavers_[at(position)]) {
        const Item& leaver = items_[at(other)];
        if (leaver.groupIndex == item.groupIndex) continue;
        const int release = releaseOf(leaver, position);
        if (release != kNone) waits.push_back(release);
        same = same && (release != kNone || (leaver.group->tenant == item.group->tenant && !isolated(*leaver.group) && !leaver.stuck));
      }
      if (same) return stepTo(item, StepKind::SwapHome, CpuSet{layout_.ids[at(position)]}, waits);
    }
    return false;
  }

  void beginLoans() {
    for (Item& item : items_) {
      const CpuSet left = item.state->loans & item.target->loans;
      const bool ended = item.loansEnd != kNone;
      if (ended ? left == item.target->loans : !loansDiffer(item)) continue;
      std::vector<int> waits{item.loansEnd, item.last, item.target->loans.isSubsetOf(before_) ? kNone : ancestors_};
      CpuSet cpus = left;
      for (const int position : layout_.toPositions(item.target->loans - left)) {
        if (mayBorrow(item, position, waits)) cpus.add(layout_.ids[at(position)]);
      }
      if (cpus != left || (!ended && cpus == item.target->loans)) add(StepKind::SetLoans, item, std::move(cpus), std::move(waits));
    }
  }

  // A loan begins when its own group has left the CPU, and an owner that does not lend has too.
  bool mayBorrow(const Item& item, int position, std::vector<int>& waits) const {
    for (const int other : leavers_[at(position)]) {
      const Item& leaver = items_[at(other)];
      if (leaver.groupIndex != item.groupIndex && leaver.group->lend != Lend::Never) continue;
      const int release = releaseOf(leaver, position);
      if (release == kNone) return false;
      waits.push_back(release);
    }
    return awaitUnits(item, position, waits) == Entry::Ready;
  }

  void narrowMemory() {
    for (const Item& item : items_) {
      const CpuSet& written = item.memoryWiden == kNone ? item.state->memoryNodes : steps_[at(item.memoryWiden)].memoryNodes;
      if (!config_.memoryNodes || item.stuck || item.target->memoryNodes.empty() || written.isSubsetOf(item.target->memoryNodes)) continue;
      if (std::find(incomplete_.begin(), incomplete_.end(), item.groupIndex) != incomplete_.end()) continue;
      add(StepKind::SetMemoryNodes, item, {}, {item.memoryWiden, item.narrow, item.stepAside, item.last});
      steps_.back().memoryNodes = item.target->memoryNodes;
    }
  }

  void setWeights() {
    for (const Item& item : items_) {
      if (!weightDiffers(item)) continue;
      add(StepKind::SetWeight, item, {}, {});
      steps_.back().weight = leafWeight(item);
    }
  }

  void narrowAncestors() {
    if (!incomplete_.empty() || before_.isSubsetOf(after_)) return;
    std::vector<int> waits;
    for (std::size_t s = 0; s < steps_.size(); ++s) waits.push_back(static_cast<int>(s));
    addAncestors(StepKind::NarrowAncestors, after_, std::move(waits));
  }

  const Machine& machine_;
  const Layout& layout_;
  const std::vector<const GroupState*>& groups_;
  const std::vector<GroupTarget>& targets_;
  const MemoryMap& memory_;
  const Config& config_;
  CpuSet poolAlways_;  // the pool's before and after
  std::vector<Item> items_;
  struct UnitLeaver {
    int item;
    int position;
  };
  // An item on a CPU that is online and may not be used any more: it runs there until it is moved.
  struct Stray {
    int item;
    const Cpu* cpu;
  };
  std::vector<Stray> strays_;
  std::vector<std::vector<UnitLeaver>> unitLeavers_;  // per branch: isolated items that leave CPUs of it, for which it is a unit
  std::vector<std::vector<int>> leavers_;             // per position: items that leave it
  std::vector<std::vector<int>> loansLeft_;           // per position: items whose loan on it ends
  std::vector<int> holders_;                          // per position: containers on it now
  std::vector<int> wanted_;                           // per position: containers that enter it
  int ancestors_{kNone};                              // the WidenAncestors step
  CpuSet before_;                                     // the set above all containers, before and after
  CpuSet after_;
  std::vector<int> incomplete_;  // groups that do without something
  std::vector<bool> blocked_;    // per group
  CpuSet asideTaken_;
  std::vector<Step> steps_;
};
}  // namespace

std::vector<Step> planSteps(const Layout& layout, const Snapshot& snapshot, const std::vector<const GroupState*>& groups,
                            const std::vector<GroupTarget>& targets, const CpuSet& newPool, const MemoryMap& memory, const Config& config,
                            std::vector<bool>* blocked) {
  Planner planner(layout, snapshot, groups, targets, newPool, memory, config);
  std::vector<Step> steps = planner.run();
  if (blocked != nullptr) *blocked = planner.blocked();
  return steps;
}

}  // namespace coterie::allocation
