#include "allocation/unit_guard.h"

#include <algorithm>

#include "allocation/isolation.h"

namespace coterie::allocation {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Are both CPUs in one unit of an isolated item?
bool sameUnit(const StepItem& item, const Cpu& one, const Cpu& other) {
  switch (item.isolation()) {
    case Isolation::None: return false;
    case Isolation::Core: return one.core == other.core;
    case Isolation::Cache: return one.cache == other.cache;
    case Isolation::Node: return one.node == other.node;
  }
  return false;
}

bool mayTouch(const StepItem& one, const StepItem& other) { return one.group->tenant == other.group->tenant || (!one.apart() && !other.apart()); }
}  // namespace

UnitGuard::UnitGuard(const Machine& machine, const Layout& layout, const StepItems& items, bool isolatedGroups)
    : machine_(machine), layout_(layout), items_(items), active_(isolatedGroups), leavers_(layout.branches.size()) {}

int UnitGuard::unitOf(const StepItem& item, int position) const {
  return layout_.paths[at(position)][at(static_cast<int>(unitLevel(item.isolation())))];
}

void UnitGuard::noteLeaver(int item, int position) {
  if (items_.at(item).apart()) leavers_.add(unitOf(items_.at(item), position), {item, position});
}

void UnitGuard::noteStrays(int item) {
  if (!active_) return;
  for (const int id : items_.at(item).state->home - layout_.usable) {
    if (const Cpu* cpu = machine_.findCpu(id); cpu != nullptr) strays_.push_back({item, cpu});
  }
}

Entry UnitGuard::awaitRelease(const StepItem& item, const StepItem& leaver, int cpu, std::vector<int>& waits) const {
  if (mayTouch(leaver, item)) return Entry::Ready;
  const int release = items_.releaseOf(leaver, cpu);
  if (release == kNoStep) return leaver.stuck ? Entry::Never : Entry::Later;
  waits.push_back(release);
  return Entry::Ready;
}

Entry UnitGuard::await(const StepItem& item, int position, std::vector<int>& waits) const {
  Entry entry = Entry::Ready;
  if (!active_) return entry;
  const auto waitFor = [&](const StepItem& leaver, int cpu) { entry = std::max(entry, awaitRelease(item, leaver, cpu, waits)); };
  for (const int branch : layout_.paths[at(position)]) {
    for (const Leaver& one : leavers_[at(branch)]) waitFor(items_.at(one.item), layout_.ids[at(one.position)]);
  }
  for (const Stray& stray : strays_) {
    const StepItem& leaver = items_.at(stray.item);
    const Cpu& entered = *machine_.findCpu(layout_.ids[at(position)]);
    if (sameUnit(item, entered, *stray.cpu) || sameUnit(leaver, entered, *stray.cpu)) waitFor(leaver, stray.cpu->id);
  }
  if (!item.apart()) return entry;
  const Layout::Branch& unit = layout_.branches[at(unitOf(item, position))];
  for (int other = unit.begin; other < unit.end; ++other) {
    for (const int leaver : items_.leavers[at(other)]) waitFor(items_.at(leaver), layout_.ids[at(other)]);
    for (const int loan : items_.loansLeft[at(other)]) {
      if (!mayTouch(items_.at(loan), item)) waits.push_back(items_.at(loan).loansEnd);
    }
  }
  return entry;
}

bool UnitGuard::tooNear(const StepItem& item, int position) const {
  if (!active_) return false;
  return std::any_of(items_.all.begin(), items_.all.end(), [&](const StepItem& other) {
    if (mayTouch(other, item)) return false;
    for (const StepItem* apart : {&item, &other}) {
      if (!apart->apart()) continue;
      const Layout::Branch& unit = layout_.branches[at(unitOf(*apart, position))];
      for (int near = unit.begin; near < unit.end; ++near) {
        const int id = layout_.ids[at(near)];
        if (other.state->home.contains(id) || other.target->home.contains(id) || (other.way >= 0 && items_.wayOf(other).aside.contains(id)) ||
            other.state->loans.contains(id) || other.target->loans.contains(id))
          return true;
      }
    }
    return false;
  });
}

}  // namespace coterie::allocation
