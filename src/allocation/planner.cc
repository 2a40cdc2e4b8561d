#include "allocation/planner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "allocation/layout.h"
#include "allocation/memory_map.h"
#include "allocation/placement.h"
#include "allocation/policy.h"

namespace coterie::allocation {

namespace {
// What was made of a machine, and a copy of all that it was made of.
class MachineView {
 public:
  // False if it was made of the same before.
  bool look(const Machine& machine, const CpuSet& reserved) {
    const CpuSet usable = usableCpus(machine, reserved);
    if (memory_ && usable == layout_.usable && machine.online == online_ && machine.cpus == cpus_ && machine.memoryNodes == nodes_ &&
        machine.devices == devices_ &&
        std::equal(machine.domains.begin(), machine.domains.end(), domainIds_.begin(), domainIds_.end(),
                   [](const Domain& domain, int id) { return domain.id == id; }))
      return false;
    layout_ = makeLayout(machine, reserved);
    memory_.emplace(machine);
    online_ = machine.online;
    cpus_ = machine.cpus;
    nodes_ = machine.memoryNodes;
    devices_ = machine.devices;
    domainIds_.clear();
    for (const Domain& domain : machine.domains) domainIds_.push_back(domain.id);
    return true;
  }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const MemoryMap& memory() const { return *memory_; }

 private:
  Layout layout_;
  std::optional<MemoryMap> memory_;
  CpuSet online_;
  std::vector<Cpu> cpus_;
  std::vector<MemoryNode> nodes_;
  std::vector<Device> devices_;
  std::vector<int> domainIds_;
};

Plan nothingToGive(const Problem& problem) {  // everybody waits, nobody is touched
  Plan plan;
  plan.bucket = problem.snapshot.bucket;
  plan.groups = emptyTargets(problem);
  for (GroupTarget& target : plan.groups) {
    target.pending = true;
    plan.reasons.push_back({target.id, ReasonCode::PendingInsufficientCpu, 1000, 0, {}});
  }
  finish(problem, plan);
  return plan;
}

void choosePlan(const Problem& problem, KeptPlacement& kept, Plan& plan) {
  if (problem.layout.size() == 0 || problem.config.policy != PolicyName::Drc) kept.leave();  // it is overwritten
  if (problem.layout.size() == 0) {
    plan = nothingToGive(problem);
    return;
  }
  switch (problem.config.policy) {
    case PolicyName::NoneSingle:
    case PolicyName::NoneMulti: plan = planNone(problem); return;
    case PolicyName::CpuManagerSingle:
    case PolicyName::CpuManagerMulti:
    case PolicyName::KubeletStatic: plan = planKubeletStatic(problem); return;
    case PolicyName::Balloons: plan = planBalloons(problem); return;
    case PolicyName::Drc: break;
  }
  planDrc(problem, kept, plan);
}
}  // namespace

class Planner::Impl {
 public:
  const Plan& decide(const Snapshot& snapshot, const Config& config) {
    if (machine_.look(*snapshot.machine, snapshot.reserved)) kept_.forget();
    groups_.clear();
    for (const GroupState& group : snapshot.groups) groups_.push_back(&group);
    const auto byId = [](const GroupState* a, const GroupState* b) { return a->id < b->id; };
    if (!std::is_sorted(groups_.begin(), groups_.end(), byId)) std::sort(groups_.begin(), groups_.end(), byId);
    choosePlan({snapshot, config, machine_.layout(), machine_.memory(), groups_}, kept_, plan_);
    return plan_;
  }
  Plan take() {
    kept_.leave();
    return std::move(plan_);
  }

 private:
  MachineView machine_;
  KeptPlacement kept_;
  std::vector<const GroupState*> groups_;
  Plan plan_;
};

Planner::Planner() : impl_(std::make_unique<Impl>()) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

const Plan& Planner::decide(const Snapshot& snapshot, const Config& config) { return impl_->decide(snapshot, config); }

Plan Planner::take() && { return impl_->take(); }

}  // namespace coterie::allocation
