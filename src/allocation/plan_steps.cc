#include "allocation/plan_steps.h"

#include <algorithm>
#include <utility>

#include "allocation/isolation.h"
#include "allocation/step_items.h"
#include "allocation/unit_guard.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class StepPlanner {
 public:
  StepPlanner(const Layout& layout, const Snapshot& snapshot, const std::vector<const GroupState*>& groups, const std::vector<GroupTarget>& targets,
              const CpuSet& newPool, const MemoryMap& memory, const Config& config)
      : layout_(layout),
        groups_(groups),
        targets_(targets),
        memory_(memory),
        config_(config),
        poolAlways_(snapshot.pool & newPool),
        items_(layout),
        guard_(*snapshot.machine, layout, items_,
               std::any_of(groups.begin(), groups.end(), [](const GroupState* group) { return isolated(*group); })) {}

  [[nodiscard]] const std::vector<bool>& blocked() const { return blocked_; }

  std::vector<Step> run() {
    blocked_.assign(groups_.size(), false);
    items_.all.reserve(groups_.size() * 2);
    makeItems();
    if (todo_.empty()) return {};
    steps_.reserve(todo_.size() + 2);
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
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t c = 0; c < groups_[g]->containers.size(); ++c) {
        StepItem& item = items_.all.emplace_back();
        item.group = groups_[g];
        item.groupTarget = &targets_[g];
        item.state = &groups_[g]->containers[c];
        item.target = &targets_[g].containers[c];
        item.groupIndex = static_cast<int>(g);
        item.stuck = item.settled = targets_[g].pending;
        guard_.noteStrays(static_cast<int>(items_.all.size()) - 1);
        if (item.state->home == item.target->home) {
          item.settled = true;
        } else {
          makeWay(item);
        }
        const bool loans = loansDiffer(item);
        addToActive(item, loans);
        if (loans || !item.settled || memoryDiffers(item) || weightDiffers(item)) todo_.push_back(static_cast<int>(items_.all.size()) - 1);
      }
    }
    before_ = (before_ | staying_) & layout_.usable;
    after_ = (after_ | staying_) & layout_.usable;
  }

  // Everything that containers hold and shall hold: the set above all of them, before and after.
  void addToActive(const StepItem& item, bool loans) {
    if (item.stuck || item.way < 0) {
      staying_ |= item.state->home;
    } else {
      before_ |= item.state->home;
      after_ |= item.target->home;
    }
    if (item.stuck || !loans) {
      staying_ |= item.state->loans;
    } else {
      before_ |= item.state->loans;
      after_ |= item.target->loans;
    }
  }

  void makeWay(StepItem& item) {
    const int index = static_cast<int>(items_.all.size()) - 1;
    item.way = static_cast<int>(items_.ways.size());
    Way& way = items_.ways.emplace_back();
    way.kept = item.state->home & item.target->home;
    way.entering = layout_.toPositions(item.target->home - item.state->home);
    way.leaving = layout_.toPositions(item.state->home - item.target->home);
    for (const int position : way.leaving) {
      items_.leavers.add(position, index);
      guard_.noteLeaver(index, position);
    }
  }

  [[nodiscard]] std::int64_t leafWeight(const StepItem& item) const {
    return std::clamp<std::int64_t>(item.groupTarget->cpuWeight / static_cast<std::int64_t>(item.group->containers.size()), 1, 10000);
  }
  [[nodiscard]] static bool loansDiffer(const StepItem& item) {
    return item.state->loans != item.target->loans || item.state->awakeLoanLanes != item.target->awakeLoanLanes;
  }
  [[nodiscard]] bool weightDiffers(const StepItem& item) const {
    return !item.groupTarget->pending && item.state->cpuWeight > 0 && item.state->cpuWeight != leafWeight(item);
  }
  [[nodiscard]] bool memoryDiffers(const StepItem& item) const {
    return config_.memoryNodes && !item.groupTarget->pending && !item.target->memoryNodes.empty() &&
           item.state->memoryNodes != item.target->memoryNodes;
  }

  int add(StepKind kind, const StepItem& item, CpuSet cpus, std::vector<int> waits) {
    std::erase(waits, kNoStep);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    steps_.push_back({kind, item.state->id, item.group->id, std::move(cpus), {}, 0, std::move(waits)});
    return static_cast<int>(steps_.size()) - 1;
  }

  void endLoans() {
    for (const int i : todo_) {
      StepItem& item = items_.all[at(i)];
      if (item.state->loans.isSubsetOf(item.target->loans)) continue;
      item.loansEnd = add(StepKind::SetLoans, item, item.state->loans & item.target->loans, {});
      for (const int cpu : item.state->loans - item.target->loans) {
        if (const int position = layout_.positionOf(cpu); position >= 0) items_.loansLeft.add(position, i);
      }
    }
  }

  void widenMemory() {
    for (const int index : todo_) {
      StepItem& item = items_.all[at(index)];
      if (memoryDiffers(item) && !item.target->memoryNodes.isSubsetOf(item.state->memoryNodes)) widenTo(item, item.target->memoryNodes);
    }
  }

  void widenTo(StepItem& item, const CpuSet& nodes) {
    if (item.memoryWiden == kNoStep) {
      item.memoryWiden = add(StepKind::SetMemoryNodes, item, {}, {});
      steps_.back().memoryNodes = item.state->memoryNodes;
    }
    steps_[at(item.memoryWiden)].memoryNodes |= nodes;
  }

  void addAncestors(StepKind kind, CpuSet cpus, std::vector<int> waits) {
    steps_.push_back({kind, {}, {}, std::move(cpus), {}, 0, std::move(waits)});
  }

  void widenAncestors() {
    if (after_.isSubsetOf(before_)) return;
    addAncestors(StepKind::WidenAncestors, before_ | after_, {});
    ancestors_ = static_cast<int>(steps_.size()) - 1;
  }

  void narrowHomes() {
    for (const int index : todo_) {
      StepItem& item = items_.all[at(index)];
      if (item.settled) continue;
      const Way& way = items_.wayOf(item);
      if (way.kept.empty() || way.kept == item.state->home) continue;
      item.narrow = add(StepKind::NarrowHome, item, way.kept, {});
      if (way.entering.empty()) item.settled = true;
    }
  }

  // May the item enter the position, and after which writes?
  Entry entryAt(const StepItem& item, int position, std::vector<int>& waits) const {
    Entry entry = Entry::Ready;
    const int id = layout_.ids[at(position)];
    if (!before_.contains(id)) waits.push_back(ancestors_);
    const bool pool = poolAlways_.contains(id);
    for (const int other : items_.leavers[at(position)]) {
      const StepItem& leaver = items_.at(other);
      if (leaver.groupIndex == item.groupIndex || pool) continue;
      const int release = items_.releaseOf(leaver, id);
      if (release != kNoStep) {
        waits.push_back(release);
      } else if (leaver.stuck) {
        return Entry::Never;
      } else {
        entry = Entry::Later;
      }
    }
    awaitLoans(item, position, waits);
    return std::max(entry, guard_.await(item, position, waits));
  }

  void awaitLoans(const StepItem& item, int position, std::vector<int>& waits) const {
    for (const int other : items_.loansLeft[at(position)]) {
      const StepItem& borrower = items_.at(other);
      if (borrower.groupIndex == item.groupIndex || item.group->lend == Lend::Never) waits.push_back(borrower.loansEnd);
    }
  }

  // Does a loan, now or later, bar the item from standing there for a while?
  [[nodiscard]] bool barred(const StepItem& item, int id) const {
    return std::any_of(items_.all.begin(), items_.all.end(), [&](const StepItem& other) {
      return (other.groupIndex == item.groupIndex || item.group->lend == Lend::Never) &&
             (other.state->loans.contains(id) || other.target->loans.contains(id));
    });
  }

  void settleHomes() {
    bool waiting = true;
    while (waiting) {
      waiting = false;
      bool progress = false;
      for (const int index : todo_) {
        StepItem& item = items_.all[at(index)];
        if (item.settled) continue;
        if (settle(item)) {
          progress = true;
        } else {
          waiting = true;
        }
      }
      if (waiting && !progress && !breakCircle() && !ontoPromised()) giveUpOne();
    }
  }

  bool settle(StepItem& item) {
    std::vector<int> waits{item.narrow, item.stepAside, item.memoryWiden};
    const Way& way = items_.wayOf(item);
    CpuSet cpus = way.kept;
    bool whole = true;
    for (const int position : way.entering) {
      const Entry entry = entryAt(item, position, waits);
      if (entry == Entry::Later) return false;
      if (entry == Entry::Never) {
        whole = false;
      } else {
        cpus.add(layout_.ids[at(position)]);
      }
    }
    item.settled = true;
    const CpuSet& standing = item.stepAside != kNoStep ? way.aside : way.kept;
    if (cpus.empty() || (!whole && cpus == standing)) {
      item.stuck = way.kept.empty();
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
    for (StepItem& item : items_.all) {
      if (item.settled || item.stepAside != kNoStep || item.narrow != kNoStep) continue;
      if (aheadOntoFreePart(item) || ontoOwnGroup(item) || ontoFewer(item) || ontoSibling(item) || ontoFree(item) || ontoPool(item) ||
          ontoSameTenant(item))
        return true;
    }
    // All who wait stand aside already, some of them among themselves where another group should go.
    for (StepItem& item : items_.all) {
      if (item.settled || item.asides != 1) continue;
      if (ontoOwnGroup(item) || ontoFree(item) || ontoPool(item) || ontoSameTenant(item)) return true;
    }
    return false;
  }

  // There is no room but what somebody gains: a group that alone keeps another out waits there, and who gains it comes after.
  bool ontoPromised() {
    for (const StepItem& item : items_.all) {
      if (item.settled || !items_.keptOut(layout_, item.groupIndex)) continue;
      for (int position = 0; position < layout_.size(); ++position) {
        if (!mayWaitOn(item, position)) continue;
        waitOn(item.groupIndex, position);
        return true;
      }
    }
    return false;
  }

  // Nobody is there, and whoever was to go there already has something else to stand on meanwhile.
  [[nodiscard]] bool mayWaitOn(const StepItem& item, int position) const {
    const int id = layout_.ids[at(position)];
    if (asideTaken_.contains(id) || poolAlways_.contains(id) || barred(item, id) || guard_.tooNear(item, position)) return false;
    return std::none_of(items_.all.begin(), items_.all.end(), [&](const StepItem& other) {
      if (other.state->home.contains(id)) return true;
      if (other.way < 0 || other.groupIndex == item.groupIndex) return false;
      if (items_.wayOf(other).aside.contains(id)) return true;
      return StepItems::gains(other, id) && other.settled &&
             (other.last == kNoStep || other.last == other.stepAside || steps_[at(other.last)].cpus.count() < 2);
    });
  }

  void waitOn(int group, int position) {
    const CpuSet there{layout_.ids[at(position)]};
    asideTaken_ |= there;
    for (const int index : todo_) {
      StepItem& item = items_.all[at(index)];
      if (item.groupIndex == group && !item.settled) {
        items_.leavers.add(position, index);
        guard_.noteLeaver(index, position);
        stepTo(item, StepKind::WidenHome, there, {});
      } else if (item.settled && StepItems::gains(item, there.first())) {
        CpuSet& first = steps_[at(item.last)].cpus;
        first -= there;
        items_.wayOf(item).aside = first;
        item.stepAside = std::exchange(item.last, kNoStep);
        item.settled = false;
      }
    }
  }

  // An isolated one, if there is any: it is what keeps the others from passing.
  void giveUpOne() {
    for (const bool onlyIsolated : {true, false}) {
      for (StepItem& item : items_.all) {
        if (item.settled || (onlyIsolated && !isolated(*item.group))) continue;
        item.settled = item.stuck = true;
        incomplete_.push_back(item.groupIndex);
        blocked_[at(item.groupIndex)] = true;
        return;
      }
    }
  }

  bool stepTo(StepItem& item, StepKind kind, CpuSet cpus, std::vector<int> waits) {
    const CpuSet nodes = memory_.nearest(cpus, item.group->memory);
    if (config_.memoryNodes && !nodes.isSubsetOf(item.state->memoryNodes)) widenTo(item, nodes);
    waits.push_back(item.memoryWiden);
    waits.push_back(item.stepAside);
    if (!cpus.isSubsetOf(before_)) waits.push_back(ancestors_);
    ++item.asides;
    items_.wayOf(item).aside = cpus;
    item.stepAside = add(kind, item, std::move(cpus), std::move(waits));
    return true;
  }

  bool aheadOntoFreePart(StepItem& item) {
    std::vector<int> waits;
    CpuSet part;
    for (const int position : items_.wayOf(item).entering) {
      std::vector<int> needed;
      if (entryAt(item, position, needed) != Entry::Ready) continue;
      part.add(layout_.ids[at(position)]);
      waits.insert(waits.end(), needed.begin(), needed.end());
    }
    return !part.empty() && stepTo(item, StepKind::WidenHome, part, waits);
  }

  bool ontoOwnGroup(StepItem& item) {
    for (const StepItem& other : items_.all) {
      if (&other == &item || other.groupIndex != item.groupIndex) continue;
      const CpuSet& kept = items_.keptBy(other);
      const int id = !kept.empty() ? kept.first() : other.last != kNoStep ? steps_[at(other.last)].cpus.first() : -1;
      if (id < 0 || (item.asides > 0 && items_.wayOf(item).aside.contains(id))) continue;
      return stepTo(item, StepKind::WidenHome, CpuSet{id}, {kept.empty() ? other.last : kNoStep});
    }
    return false;
  }

  bool ontoFewer(StepItem& item) {
    const CpuSet now = item.state->home & layout_.usable;
    return now.count() > 1 && stepTo(item, StepKind::NarrowHome, CpuSet{now.first()}, {});
  }

  // Onto a CPU that another container of the group holds and has not left either: the group draws together and leaves the rest.
  bool ontoSibling(StepItem& item) {
    for (const StepItem& other : items_.all) {
      if (&other == &item || other.groupIndex != item.groupIndex || other.settled || other.stepAside != kNoStep || other.narrow != kNoStep) continue;
      for (const int position : items_.wayOf(other).leaving) {
        const int id = layout_.ids[at(position)];
        if (item.state->home.contains(id) || poolAlways_.contains(id)) continue;
        const int index = static_cast<int>(&item - items_.all.data());
        items_.leavers.add(position, index);  // whoever takes it waits for this one too
        guard_.noteLeaver(index, position);
        return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
      }
    }
    return false;
  }

  bool ontoFree(StepItem& item) {
    CpuSet wanted = asideTaken_ | poolAlways_;  // or held, or not to be had for another reason
    for (const StepItem& other : items_.all) {
      wanted |= other.state->home;
      if (other.way >= 0) wanted |= other.target->home;
    }
    for (int position = 0; position < layout_.size(); ++position) {
      const int id = layout_.ids[at(position)];
      if (wanted.contains(id) || barred(item, id) || guard_.tooNear(item, position)) continue;
      asideTaken_.add(id);
      return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoPool(StepItem& item) {
    if (item.state->home.intersects(poolAlways_)) return false;
    for (const int id : poolAlways_) {
      if (!barred(item, id) && !guard_.tooNear(item, layout_.positionOf(id))) return stepTo(item, StepKind::SwapHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoSameTenant(StepItem& item) {
    if (isolated(*item.group)) return false;
    for (const int position : items_.wayOf(item).entering) {
      std::vector<int> waits;
      awaitLoans(item, position, waits);
      bool same = guard_.await(item, position, waits) == Entry::Ready;
      for (const int other : items_.leavers[at(position)]) {
        const StepItem& leaver = items_.at(other);
        if (leaver.groupIndex == item.groupIndex) continue;
        const int release = items_.releaseOf(leaver, layout_.ids[at(position)]);
        if (release != kNoStep) waits.push_back(release);
        same = same && (release != kNoStep || (leaver.group->tenant == item.group->tenant && !isolated(*leaver.group) && !leaver.stuck));
      }
      if (same) return stepTo(item, StepKind::SwapHome, CpuSet{layout_.ids[at(position)]}, waits);
    }
    return false;
  }

  void beginLoans() {
    for (const int index : todo_) {
      StepItem& item = items_.all[at(index)];
      const bool ended = item.loansEnd != kNoStep;
      if (!ended && !loansDiffer(item)) continue;
      const CpuSet left = item.state->loans & item.target->loans;
      if (ended && left == item.target->loans) continue;
      std::vector<int> waits;  // most have nothing to wait for, and allocate nothing
      for (const int step : {item.loansEnd, item.last, item.target->loans.isSubsetOf(before_) ? kNoStep : ancestors_}) {
        if (step != kNoStep) waits.push_back(step);
      }
      CpuSet cpus = left;
      for (const int cpu : item.target->loans - left) {
        if (mayBorrow(item, layout_.positionOf(cpu), waits)) cpus.add(cpu);
      }
      if (cpus != left || (!ended && cpus == item.target->loans)) add(StepKind::SetLoans, item, std::move(cpus), std::move(waits));
    }
  }

  // A loan begins when its own group has left the CPU, and an owner that does not lend has too.
  bool mayBorrow(const StepItem& item, int position, std::vector<int>& waits) const {
    for (const int other : items_.leavers[at(position)]) {
      const StepItem& leaver = items_.at(other);
      if (leaver.groupIndex != item.groupIndex && leaver.group->lend != Lend::Never) continue;
      const int release = items_.releaseOf(leaver, layout_.ids[at(position)]);
      if (release == kNoStep) return false;
      waits.push_back(release);
    }
    return guard_.await(item, position, waits) == Entry::Ready;
  }

  void narrowMemory() {
    for (const int index : todo_) {
      const StepItem& item = items_.all[at(index)];
      const CpuSet& written = item.memoryWiden == kNoStep ? item.state->memoryNodes : steps_[at(item.memoryWiden)].memoryNodes;
      if (!config_.memoryNodes || item.stuck || item.target->memoryNodes.empty() || written.isSubsetOf(item.target->memoryNodes)) continue;
      if (std::find(incomplete_.begin(), incomplete_.end(), item.groupIndex) != incomplete_.end()) continue;
      add(StepKind::SetMemoryNodes, item, {}, {item.memoryWiden, item.narrow, item.stepAside, item.last});
      steps_.back().memoryNodes = item.target->memoryNodes;
    }
  }

  void setWeights() {
    for (const int index : todo_) {
      const StepItem& item = items_.all[at(index)];
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

  const Layout& layout_;
  const std::vector<const GroupState*>& groups_;
  const std::vector<GroupTarget>& targets_;
  const MemoryMap& memory_;
  const Config& config_;
  CpuSet poolAlways_;  // the pool's before and after
  StepItems items_;
  UnitGuard guard_;
  int ancestors_{kNoStep};  // the WidenAncestors step
  CpuSet before_;           // the set above all containers, before and after
  CpuSet after_;
  CpuSet staying_;               // of both, the part of those that change nothing of it
  std::vector<int> todo_;        // items for which anything is to be written
  std::vector<int> incomplete_;  // groups that do without something
  std::vector<bool> blocked_;    // per group
  CpuSet asideTaken_;
  std::vector<Step> steps_;
};
}  // namespace

std::vector<Step> planSteps(const Layout& layout, const Snapshot& snapshot, const std::vector<const GroupState*>& groups,
                            const std::vector<GroupTarget>& targets, const CpuSet& newPool, const MemoryMap& memory, const Config& config,
                            std::vector<bool>* blocked) {
  StepPlanner planner(layout, snapshot, groups, targets, newPool, memory, config);
  std::vector<Step> steps = planner.run();
  if (blocked != nullptr) *blocked = planner.blocked();
  return steps;
}

}  // namespace coterie::allocation
