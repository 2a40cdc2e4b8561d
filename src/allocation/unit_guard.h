// Isolation between the writes of a plan: who may enter which CPU when, and who must not step aside to where.
//
// Other tenants have left the whole unit before an isolated item enters any CPU of it, and nobody enters a unit of which another tenant's isolated
// item still holds a part. Where no group is isolated every answer is at once that nothing stands in the way. O(items that leave the unit + strays)
// per CPU asked for; tooNear() O(items * unit). Thread-compatible.
#pragma once

#include <vector>

#include "allocation/step_items.h"

namespace coterie::allocation {

class UnitGuard {
 public:
  // isolatedGroups: is anybody isolated? Without that nothing is noted and nobody has to wait.
  UnitGuard(const Machine& machine, const Layout& layout, const StepItems& items, bool isolatedGroups);

  [[nodiscard]] bool active() const { return active_; }  // is anybody isolated?
  // The item leaves the position.
  void noteLeaver(int item, int position);
  // The item stands on CPUs that are online and may not be used any more: it runs there until it is moved.
  void noteStrays(int item);

  // May the item enter the position, and after which writes?
  [[nodiscard]] Entry await(const StepItem& item, int position, std::vector<int>& waits) const;
  // Would the item, standing on a CPU that is not in its plan, come too near to somebody, or somebody to it?
  [[nodiscard]] bool tooNear(const StepItem& item, int position) const;

 private:
  struct Leaver {
    int item;
    int position;
  };
  struct Stray {
    int item;
    const Cpu* cpu;
  };
  [[nodiscard]] Entry awaitRelease(const StepItem& item, const StepItem& leaver, int cpu, std::vector<int>& waits) const;
  [[nodiscard]] int unitOf(const StepItem& item, int position) const;

  const Machine& machine_;
  const Layout& layout_;
  const StepItems& items_;
  bool active_;
  std::vector<Stray> strays_;
  Lists<Leaver> leavers_;  // per branch: isolated items that leave CPUs of it, for which it is a unit
};

}  // namespace coterie::allocation
