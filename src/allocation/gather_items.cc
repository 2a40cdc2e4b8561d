#include "allocation/gather_items.h"

namespace coterie::allocation {

namespace {
class Gatherer {
 public:
  Gatherer(const Problem& problem, const std::vector<GroupTarget>& targets, StepItems& items, UnitGuard& guard)
      : problem_(problem), targets_(targets), items_(items), guard_(guard) {}

  void all() {
    items_.all.reserve(targets_.size() * 2);
    forEach([this](const StepItem& item) { add(item, differs(item)); });
  }

  void onlyThoseWritten(const CpuSet& homesAtRest) {
    staying_ = homesAtRest;
    forEach([this](const StepItem& item) {
      if (differs(item)) {
        add(item, true);
      } else if (!item.state->loans.empty()) {
        staying_ |= item.state->loans;
      }
    });
  }

 private:
  template <typename What>
  void forEach(What what) {
    StepItem item;
    for (std::size_t g = 0; g < targets_.size(); ++g) {
      item.group = problem_.groups[g];
      item.groupTarget = &targets_[g];
      item.groupIndex = static_cast<int>(g);
      item.stuck = item.settled = targets_[g].pending;
      for (std::size_t c = 0; c < item.group->containers.size(); ++c) {
        item.state = &item.group->containers[c];
        item.target = &item.groupTarget->containers[c];
        what(item);
      }
    }
    items_.before = (items_.before | staying_) & problem_.layout.usable;
    items_.after = (items_.after | staying_) & problem_.layout.usable;
  }

  [[nodiscard]] bool differs(const StepItem& item) const { return loansDiffer(item) || memoryDiffers(item, problem_.config) || weightDiffers(item); }

  void add(const StepItem& made, bool differs) {
    const int index = static_cast<int>(items_.all.size());
    StepItem& item = items_.all.emplace_back(made);
    guard_.noteStrays(index);
    if (item.state->home == item.target->home) {
      item.settled = true;
    } else {
      makeWay(item, index);
    }
    addToActive(item);
    if (differs || !item.settled) items_.todo.push_back(index);
  }

  void makeWay(StepItem& item, int index) {
    item.way = static_cast<int>(items_.ways.size());
    Way& way = items_.ways.emplace_back();
    way.kept = item.state->home & item.target->home;
    way.entering = problem_.layout.toPositions(item.target->home - item.state->home);
    way.leaving = problem_.layout.toPositions(item.state->home - item.target->home);
    for (const int position : way.leaving) {
      items_.leavers.add(position, index);
      guard_.noteLeaver(index, position);
    }
  }

  // Everything that containers hold and shall hold: the set above all of them, before and after.
  void addToActive(const StepItem& item) {
    if (item.stuck || item.way < 0) {
      staying_ |= item.state->home;
    } else {
      items_.before |= item.state->home;
      items_.after |= item.target->home;
    }
    if (item.stuck || !loansDiffer(item)) {
      staying_ |= item.state->loans;
    } else {
      items_.before |= item.state->loans;
      items_.after |= item.target->loans;
    }
  }

  const Problem& problem_;
  const std::vector<GroupTarget>& targets_;
  StepItems& items_;
  UnitGuard& guard_;
  CpuSet staying_;  // of before and after, the part of those that change nothing of it
};
}  // namespace

void gatherItems(const Problem& problem, const std::vector<GroupTarget>& targets, const CpuSet* homesAtRest, StepItems& items, UnitGuard& guard) {
  Gatherer gatherer(problem, targets, items, guard);
  if (homesAtRest != nullptr && !guard.active()) {
    gatherer.onlyThoseWritten(*homesAtRest);
  } else {
    gatherer.all();
  }
}

}  // namespace coterie::allocation
