#include "plan_node/cpu_owners.h"

#include <algorithm>

namespace coterie::plan_node {

namespace {
class Uses {
 public:
  explicit Uses(const NodePlan& node) : node_(node) {
    for (const Cpu& cpu : node.machine->cpus) {
      CpuUse use;
      use.cpu = cpu.id;
      use.closed = closedWhy(cpu.id);
      uses_.push_back(use);
    }
  }

  std::vector<CpuUse> take() {
    for (const int cpu : node_.plan.pool) {
      if (CpuUse* use = find(cpu)) use->planned.pool = true;
    }
    for (std::size_t g = 0; g < node_.plan.groups.size(); ++g) addGroup(g);
    for (CpuUse& use : uses_) use.changesHands = changes(use);
    return std::move(uses_);
  }

 private:
  [[nodiscard]] Closed closedWhy(int cpu) const {
    if (node_.usable.contains(cpu)) return Closed::No;
    if (node_.request.reserved.contains(cpu)) return Closed::Reserved;
    return node_.machine->allowed.contains(cpu) ? Closed::Isolated : Closed::NotAllowed;
  }

  CpuUse* find(int cpu) {
    const auto found = std::lower_bound(uses_.begin(), uses_.end(), cpu, [](const CpuUse& use, int id) { return use.cpu < id; });
    return found != uses_.end() && found->cpu == cpu ? &*found : nullptr;
  }

  void addGroup(std::size_t g) {
    const allocation::GroupTarget& target = node_.plan.groups[g];
    for (std::size_t c = 0; c < target.containers.size(); ++c) {
      const allocation::ContainerState& held = node_.snapshot.groups[g].containers[c];
      if (held.role == ContainerRole::Pause) continue;  // it owns nothing, wherever it stands
      for (const int cpu : held.home) {
        CpuUse* use = find(cpu);
        if (use == nullptr) continue;  // offline
        if (node_.snapshot.pool.contains(cpu)) {
          use->now.pool = true;
        } else {
          use->now.holders.push_back({g, c});
        }
      }
      for (const int cpu : target.inPool ? CpuSet{} : target.containers[c].home) {
        if (CpuUse* use = find(cpu)) use->planned.holders.push_back({g, c});
      }
      for (const int cpu : target.containers[c].loans) {
        CpuUse* use = find(cpu);
        if (use != nullptr && (use->borrowers.empty() || use->borrowers.back() != g)) use->borrowers.push_back(g);
      }
    }
  }

  [[nodiscard]] bool ran(const Holder& holder) const { return !node_.snapshot.groups[holder.group].containers[holder.container].home.empty(); }

  [[nodiscard]] bool changes(const CpuUse& use) const {
    if (use.now == use.planned) return false;
    if (!use.now.nobody()) return true;
    const bool grew = std::any_of(use.planned.holders.begin(), use.planned.holders.end(), [&](const Holder& holder) { return ran(holder); });
    return grew || (use.planned.pool && !node_.snapshot.pool.empty());
  }

  const NodePlan& node_;
  std::vector<CpuUse> uses_;
};
}  // namespace

std::vector<CpuUse> cpuUses(const NodePlan& plan) { return Uses(plan).take(); }

std::string ownerText(const NodePlan& plan, const Owner& owner) {
  if (owner.pool) return "the pool";
  if (owner.holders.empty()) return "nobody";
  std::string text;
  for (const Holder& holder : owner.holders) {
    text += (text.empty() ? "" : ", ") + plan.file->groups[holder.group].name;
    if (plan.file->groups[holder.group].containers.size() > 1) text += " container " + std::to_string(holder.container);
  }
  return text;
}

}  // namespace coterie::plan_node
