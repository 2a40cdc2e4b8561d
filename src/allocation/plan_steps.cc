#include "allocation/plan_steps.h"

#include <algorithm>
#include <utility>

#include "allocation/gather_items.h"
#include "allocation/isolation.h"
#include "allocation/roles.h"
#include "allocation/step_items.h"
#include "allocation/unit_guard.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

class StepPlanner {
 public:
  StepPlanner(const Problem& problem, const Plan& plan, const CpuSet* homesAtRest)
      : layout_(problem.layout),
        memory_(problem.memory),
        config_(problem.config),
        poolBefore_(problem.snapshot.pool & layout_.usable),
        poolAlways_(problem.snapshot.pool & plan.pool),
        items_(layout_),
        guard_(*problem.snapshot.machine, layout_, items_,
               std::any_of(problem.groups.begin(), problem.groups.end(), [](const GroupState* group) { return isolated(*group); })),
        blocked_(problem.groups.size(), false) {
    gatherItems(problem, plan.groups, homesAtRest, items_, guard_);
  }

  [[nodiscard]] const std::vector<bool>& blocked() const { return blocked_; }

  std::vector<Step> run() {
    if (items_.todo.empty()) return {};
    steps_.reserve(items_.todo.size() + 2);
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
  int add(StepKind kind, const StepItem& item, CpuSet cpus, std::vector<int> waits) {
    std::erase(waits, kNoStep);
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    steps_.push_back({kind, item.state->id, item.group->id, std::move(cpus), {}, 0, std::move(waits)});
    return static_cast<int>(steps_.size()) - 1;
  }

  void endLoans() {
    for (const int i : items_.todo) {
      StepItem& item = items_.all[at(i)];
      if (item.state->loans.isSubsetOf(item.target->loans)) continue;
      item.loansEnd = add(StepKind::SetLoans, item, item.state->loans & item.target->loans, {});
      for (const int cpu : item.state->loans - item.target->loans) {
        if (const int position = layout_.positionOf(cpu); position >= 0) items_.loansLeft.add(position, i);
      }
    }
  }

  void widenMemory() {
    for (const int index : items_.todo) {
      StepItem& item = items_.all[at(index)];
      if (memoryDiffers(item, config_) && !item.target->memoryNodes.isSubsetOf(item.state->memoryNodes)) widenTo(item, item.target->memoryNodes);
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
    if (items_.after.isSubsetOf(items_.before)) return;
    addAncestors(StepKind::WidenAncestors, items_.before | items_.after, {});
    ancestors_ = static_cast<int>(steps_.size()) - 1;
  }

  void narrowHomes() {
    for (const int index : items_.todo) {
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
    if (!items_.before.contains(id)) waits.push_back(ancestors_);
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
      for (const int index : items_.todo) {
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
        if (!allMayWaitOn(item.groupIndex, position)) continue;
        waitOn(item.groupIndex, position);
        return true;
      }
    }
    return false;
  }

  // The whole group goes there, and some of it may be nearer to others than the rest.
  [[nodiscard]] bool allMayWaitOn(int group, int position) const {
    return std::all_of(items_.all.begin(), items_.all.end(),
                       [&](const StepItem& one) { return one.groupIndex != group || one.settled || mayWaitOn(one, position); });
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
    for (const int index : items_.todo) {
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
        if (item.settled || (onlyIsolated && !item.apart())) continue;
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
    if (!cpus.isSubsetOf(items_.before)) waits.push_back(ancestors_);
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

  // It may stand where its group does not.
  [[nodiscard]] static bool pauses(const StepItem& item) { return item.state->role == ContainerRole::Pause; }

  bool ontoOwnGroup(StepItem& item) {
    for (const StepItem& other : items_.all) {
      if (&other == &item || other.groupIndex != item.groupIndex || pauses(other)) continue;
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
      if (&other == &item || other.groupIndex != item.groupIndex || pauses(other) || other.settled || other.stepAside != kNoStep ||
          other.narrow != kNoStep)
        continue;
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
    if (item.groupTarget->inPool && ontoOldPool(item)) return true;
    if (item.state->home.intersects(poolAlways_)) return false;
    for (const int id : poolAlways_) {
      if (!barred(item, id) && !guard_.tooNear(item, layout_.positionOf(id))) return stepTo(item, StepKind::SwapHome, CpuSet{id}, {});
    }
    return false;
  }

  // One that is to share the pool waits on what was the pool's so far, beside none but members.
  bool ontoOldPool(StepItem& item) {
    if (item.state->home.intersects(poolBefore_) || items_.wayOf(item).aside.intersects(poolBefore_)) return false;
    for (const int id : poolBefore_ - poolAlways_) {
      const int position = layout_.positionOf(id);
      const bool strangers = std::any_of(items_.all.begin(), items_.all.end(), [&](const StepItem& other) {
        const bool there = other.state->home.contains(id) || (other.way >= 0 && items_.wayOf(other).aside.contains(id));
        return there && !other.groupTarget->inPool;
      });
      if (strangers || barred(item, id) || guard_.tooNear(item, position)) continue;
      const int index = static_cast<int>(&item - items_.all.data());
      items_.leavers.add(position, index);  // whoever takes it waits for this one too
      guard_.noteLeaver(index, position);
      return stepTo(item, StepKind::SwapHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoSameTenant(StepItem& item) {
    if (item.apart()) return false;
    for (const int position : items_.wayOf(item).entering) {
      std::vector<int> waits;
      awaitLoans(item, position, waits);
      bool same = guard_.await(item, position, waits) == Entry::Ready;
      for (const int other : items_.leavers[at(position)]) {
        const StepItem& leaver = items_.at(other);
        if (leaver.groupIndex == item.groupIndex) continue;
        const int release = items_.releaseOf(leaver, layout_.ids[at(position)]);
        if (release != kNoStep) waits.push_back(release);
        same = same && (release != kNoStep || (leaver.group->tenant == item.group->tenant && !leaver.apart() && !leaver.stuck));
      }
      if (same) return stepTo(item, StepKind::SwapHome, CpuSet{layout_.ids[at(position)]}, waits);
    }
    return false;
  }

  void beginLoans() {
    for (const int index : items_.todo) {
      StepItem& item = items_.all[at(index)];
      const bool ended = item.loansEnd != kNoStep;
      if (!ended && !loansDiffer(item)) continue;
      const CpuSet left = item.state->loans & item.target->loans;
      if (ended && left == item.target->loans) continue;
      std::vector<int> waits;  // most have nothing to wait for, and allocate nothing
      for (const int step : {item.loansEnd, item.last, item.target->loans.isSubsetOf(items_.before) ? kNoStep : ancestors_}) {
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
    for (const int index : items_.todo) {
      const StepItem& item = items_.all[at(index)];
      const CpuSet& written = item.memoryWiden == kNoStep ? item.state->memoryNodes : steps_[at(item.memoryWiden)].memoryNodes;
      if (!config_.memoryNodes || item.stuck || item.target->memoryNodes.empty() || written.isSubsetOf(item.target->memoryNodes)) continue;
      if (std::find(incomplete_.begin(), incomplete_.end(), item.groupIndex) != incomplete_.end()) continue;
      add(StepKind::SetMemoryNodes, item, {}, {item.memoryWiden, item.narrow, item.stepAside, item.last});
      steps_.back().memoryNodes = item.target->memoryNodes;
    }
  }

  void setWeights() {
    for (const int index : items_.todo) {
      const StepItem& item = items_.all[at(index)];
      if (!weightDiffers(item)) continue;
      add(StepKind::SetWeight, item, {}, {});
      steps_.back().weight = leafWeight(item);
    }
  }

  void narrowAncestors() {
    if (!incomplete_.empty() || items_.before.isSubsetOf(items_.after)) return;
    std::vector<int> waits;
    for (std::size_t s = 0; s < steps_.size(); ++s) waits.push_back(static_cast<int>(s));
    addAncestors(StepKind::NarrowAncestors, items_.after, std::move(waits));
  }

  const Layout& layout_;
  const MemoryMap& memory_;
  const Config& config_;
  CpuSet poolBefore_;
  CpuSet poolAlways_;  // the pool's before and after
  StepItems items_;
  UnitGuard guard_;
  int ancestors_{kNoStep};       // the WidenAncestors step
  std::vector<int> incomplete_;  // groups that do without something
  std::vector<bool> blocked_;    // per group
  CpuSet asideTaken_;
  std::vector<Step> steps_;
};
}  // namespace

std::vector<Step> planSteps(const Problem& problem, const Plan& plan, const CpuSet* homesAtRest, std::vector<bool>* blocked) {
  StepPlanner planner(problem, plan, homesAtRest);
  std::vector<Step> steps = planner.run();
  *blocked = planner.blocked();
  return steps;
}

}  // namespace coterie::allocation
