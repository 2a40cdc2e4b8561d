#include "allocation/plan_steps.h"

#include <algorithm>

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
      : layout_(layout), groups_(groups), targets_(targets), memory_(memory), config_(config), poolAlways_(snapshot.pool & newPool) {}

  std::vector<Step> run() {
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
    return std::move(steps_);
  }

 private:
  void makeItems() {
    leavers_.resize(layout_.ids.size());
    loansLeft_.resize(layout_.ids.size());
    holders_.assign(layout_.ids.size(), 0);
    wanted_.assign(layout_.ids.size(), 0);
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
          if (const int position = layout_.positionOf(id); position >= 0) ++holders_[at(position)];
        }
        for (const int position : item.entering) ++wanted_[at(position)];
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
  [[nodiscard]] int releaseOf(const Item& item, int position) const {
    if (item.stepAside != kNone && !item.aside.contains(layout_.ids[at(position)])) return item.stepAside;
    return item.narrow != kNone ? item.narrow : item.last;
  }

  enum class Entry { Ready, Later, Never };
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
    return entry;
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

  void giveUpOne() {
    for (Item& item : items_) {
      if (item.settled) continue;
      item.settled = item.stuck = true;
      incomplete_.push_back(item.groupIndex);
      return;
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
        return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
      }
    }
    return false;
  }

  bool ontoFree(Item& item) {
    for (int position = 0; position < layout_.size(); ++position) {
      const int id = layout_.ids[at(position)];
      if (holders_[at(position)] > 0 || wanted_[at(position)] > 0 || asideTaken_.contains(id) || poolAlways_.contains(id) || barred(item, id))
        continue;
      asideTaken_.add(id);
      return stepTo(item, StepKind::WidenHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoPool(Item& item) {
    if (item.state->home.intersects(poolAlways_)) return false;
    for (const int id : poolAlways_) {
      if (!barred(item, id)) return stepTo(item, StepKind::SwapHome, CpuSet{id}, {});
    }
    return false;
  }

  bool ontoSameTenant(Item& item) {
    for (const int position : item.entering) {
      std::vector<int> waits;
      awaitLoans(item, position, waits);
      bool same = true;
      for (const int other : leavers_[at(position)]) {
        const Item& leaver = items_[at(other)];
        if (leaver.groupIndex == item.groupIndex) continue;
        const int release = releaseOf(leaver, position);
        if (release != kNone) waits.push_back(release);
        same = same && (release != kNone || (leaver.group->tenant == item.group->tenant && !leaver.stuck));
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
    return true;
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

  const Layout& layout_;
  const std::vector<const GroupState*>& groups_;
  const std::vector<GroupTarget>& targets_;
  const MemoryMap& memory_;
  const Config& config_;
  CpuSet poolAlways_;  // the pool's before and after
  std::vector<Item> items_;
  std::vector<std::vector<int>> leavers_;    // per position: items that leave it
  std::vector<std::vector<int>> loansLeft_;  // per position: items whose loan on it ends
  std::vector<int> holders_;                 // per position: containers on it now
  std::vector<int> wanted_;                  // per position: containers that enter it
  int ancestors_{kNone};                     // the WidenAncestors step
  CpuSet before_;                            // the set above all containers, before and after
  CpuSet after_;
  std::vector<int> incomplete_;  // groups that do without something
  CpuSet asideTaken_;
  std::vector<Step> steps_;
};
}  // namespace

std::vector<Step> planSteps(const Layout& layout, const Snapshot& snapshot, const std::vector<const GroupState*>& groups,
                            const std::vector<GroupTarget>& targets, const CpuSet& newPool, const MemoryMap& memory, const Config& config) {
  return Planner(layout, snapshot, groups, targets, newPool, memory, config).run();
}

}  // namespace coterie::allocation
