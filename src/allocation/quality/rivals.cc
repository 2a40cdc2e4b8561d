#include "allocation/quality/rivals.h"

#include <algorithm>
#include <map>
#include <set>

#include "allocation/replay.h"
#include "allocation/snapshot_builder.h"
#include "base/rng.h"

namespace coterie::allocation::quality {

namespace {
constexpr int kTenants = 5;
constexpr int kMostGroups = 40;  // so that the largest machines' histories take minutes, not hours

std::int64_t usableCount(const Machine& machine) { return ((machine.allowed & machine.online) - machine.isolated).count(); }

class History {
 public:
  History(const Machine& machine, PolicyName policy, std::uint64_t seed) : machine_(machine), rng_(seed), builder_(machine) {
    config_.policy = policy;
    cpus_ = usableCount(machine);
    builder_.snapshot.bucket = {MilliCpu(1'000'000'000), builder_.snapshot.now};
    for (int i = 0; i < kTenants * 2; ++i) join();
    look(decideAndApply());
  }

  Placements run(int events) {
    for (int i = 0; i < events; ++i) {
      const auto dice = rng_.between(0, 99);
      if (dice < 40 || groups().empty()) {
        join();
      } else if (dice < 65) {
        leave();
      } else {
        resize();
      }
      const Instant next = builder_.snapshot.now + Seconds(rng_.between(1, 60));
      Plan plan = decideAndApply();
      look(plan);
      // What waited for time to pass.
      while (plan.decideAgainAt && *plan.decideAgainAt < next) {
        builder_.snapshot.now = std::max(*plan.decideAgainAt, builder_.snapshot.now + Millis(1));
        plan = decideAndApply();
      }
      builder_.snapshot.now = std::max(builder_.snapshot.now, next);
    }
    return result_;
  }

 private:
  std::vector<GroupState>& groups() { return builder_.snapshot.groups; }
  [[nodiscard]] std::int64_t asked() const {
    std::int64_t sum = 0;
    for (const GroupState& group : builder_.snapshot.groups) sum += group.floor.value / 1000;
    return sum;
  }
  GroupState& any() { return groups()[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(groups().size()) - 1))]; }

  // CPUs of one container; machines of any size hold a dozen groups.
  std::int64_t someSize() { return rng_.between(1, std::clamp<std::int64_t>(cpus_ / 16, 2, 24)); }

  void join() {
    const auto tenant = static_cast<int>(rng_.between(1, kTenants));
    const auto containers = rng_.chance(50) ? 1 : rng_.between(2, 4);
    const std::int64_t size = someSize();
    if (asked() + containers * size > cpus_ || static_cast<int>(groups().size()) >= kMostGroups) return;
    GroupState& group = builder_.group(tenant, static_cast<int>(containers));
    group.floor = group.ceiling = MilliCpu(1000 * containers * size);
  }
  void leave() { groups().erase(groups().begin() + (&any() - groups().data())); }
  void resize() {
    GroupState& group = any();
    const auto containers = static_cast<std::int64_t>(group.containers.size());
    const std::int64_t size = someSize();
    if (asked() - group.floor.value / 1000 + containers * size > cpus_) return;
    group.floor = group.ceiling = MilliCpu(1000 * containers * size);
  }

  Plan decideAndApply() {
    std::map<InstanceId, CpuSet> before;
    for (const GroupState& group : groups()) {
      for (const ContainerState& container : group.containers) before[container.id] = container.home;
    }
    Plan plan = decide(builder_.snapshot, config_);
    applyAll(builder_.snapshot, plan);
    for (const GroupState& group : groups()) {
      for (const ContainerState& container : group.containers) result_.moves += (before[container.id] - container.home).count();
    }
    ++result_.decisions;
    return plan;
  }

  void look(const Plan& plan) {
    std::map<int, std::set<TenantId>> cores;
    for (std::size_t g = 0; g < groups().size(); ++g) {
      const GroupState& group = groups()[g];
      CpuSet all;
      for (const ContainerState& container : group.containers) {
        std::set<int> nodes;  // the kernel's ids: one node may lie over several sockets
        for (const int id : container.home) {
          const Cpu& cpu = *machine_.findCpu(id);
          nodes.insert(machine_.domains[static_cast<std::size_t>(cpu.node)].id);
          cores[cpu.core].insert(group.tenant);
        }
        result_.crossNodeContainers += nodes.size() > 1 ? 1 : 0;
        all |= container.home;
      }
      const bool none = config_.policy == PolicyName::NoneSingle;
      if (!none && (plan.groups[g].pending || 1000 * all.count() != group.floor.value)) ++result_.unequal;
    }
    for (const auto& [core, tenants] : cores) result_.sharedCores += tenants.size() > 1 ? 1 : 0;
  }

  const Machine& machine_;
  Rng rng_;
  SnapshotBuilder builder_;
  Config config_;
  std::int64_t cpus_{0};
  Placements result_;
};
}  // namespace

bool comparable(const Machine& machine) {
  if (usableCount(machine) < 8) return false;
  return std::all_of(machine.cpus.begin(), machine.cpus.end(), [&](const Cpu& cpu) { return cpu.capacity == machine.cpus.front().capacity; });
}

Placements runHistory(const Machine& machine, PolicyName policy, std::uint64_t seed, int events) {
  return History(machine, policy, seed).run(events);
}

}  // namespace coterie::allocation::quality
