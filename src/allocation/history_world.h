// What random histories happen to: a machine and the groups on it, and the events that change them. One seed is one history.
//
// Groups come, go and resize, workers crash, CPUs and allowances vanish, demand, weights, quotas and memory change, the agent is killed. What a real
// admission would refuse never joins. For history_test.cc, which decides and judges after each event.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocation/decide.h"
#include "allocation/roles.h"
#include "allocation/sizing.h"
#include "base/rng.h"
#include "model/machine_generator.h"

namespace coterie::allocation {

inline constexpr int kMostCpus = 64;  // larger ones would cost most of the time, and show no other rule

inline const std::vector<Machine>& machines() {
  static const std::vector<Machine> machines = [] {
    std::vector<Machine> made;
    for (const std::string_view name : shapeNames()) {
      Machine machine = shapeNamed(name).value();
      if (machine.online.count() <= kMostCpus) made.push_back(std::move(machine));
    }
    return made;
  }();
  return machines;
}
inline const Machine& machineOf(std::uint64_t seed) { return machines()[seed % machines().size()]; }

class HistoryWorld {
 public:
  explicit HistoryWorld(std::uint64_t seed) : rng_(seed), whole_(machineOf(seed)), machine_(whole_) {
    snapshot_.machine = &machine_;
    snapshot_.now = Instant(Seconds(rng_.between(0, 100)));
    snapshot_.bucket = {MilliCpu(1'000'000), snapshot_.now};
    cutsSets_ = rng_.chance(50);
    config_.lending = !rng_.chance(10);
    config_.memoryNodes = !rng_.chance(10);
    config_.migrationPerMinute = Bytes(rng_.chance(50) ? 0 : rng_.between(1, 32) << 30);
    weights_ = rng_.chance(50);
    isolation_ = rng_.chance(40);
    roles_ = rng_.chance(40);
    if (rng_.chance(50)) {
      for (MilliCpu& cap : tenantCaps_) cap = someCap();
    }
    if (whole_.online.count() > 4 && rng_.chance(30)) snapshot_.reserved.add(whole_.online.first());
  }
  HistoryWorld(const HistoryWorld&) = delete;
  HistoryWorld& operator=(const HistoryWorld&) = delete;

  void event() {
    const std::int64_t kind = rng_.between(0, 99);
    if (snapshot_.groups.empty() || kind < 25) return join();
    if (kind < 33) return leave();
    if (kind < 45) return resize();
    if (kind < 60) return workers();
    if (kind < 70) return cpus();
    if (kind < 76) return allowance();
    if (kind < 90) return demand();
    if (kind < 92) return weights();
    if (kind < 95) return quota();
    if (kind < 98) return memory();
    snapshot_.pool = {};  // the agent was killed: what it remembered is gone
    for (GroupState& group : snapshot_.groups) group.lastOptionalMove.reset();
  }

 private:
  GroupState& anyGroup() {
    return snapshot_.groups[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(snapshot_.groups.size()) - 1))];
  }
  MilliCpu someFloor() {
    switch (rng_.between(0, 4)) {
      case 0: return MilliCpu(rng_.between(1, 999));
      case 1: return MilliCpu(1000 * rng_.between(1, 3));
      case 2: return MilliCpu(rng_.between(1000, 4000));
      default: return MilliCpu(0);
    }
  }
  MilliCpu someCeiling(MilliCpu floor) {
    if (rng_.chance(60)) return MilliCpu(1'000'000);
    return std::max(floor, MilliCpu(rng_.chance(30) ? rng_.between(100, 999) : rng_.between(1000, 6000)));
  }
  void addContainer(GroupState& group) {
    ContainerState container;
    container.id = InstanceId(nextInstance_++);
    container.resident = someMemory();
    if (rng_.chance(15)) container.expected = someMemory();
    container.cpuWeight = weights_ ? 100 : 0;
    if (roles_ && rng_.chance(50)) addRole(container);
    group.containers.push_back(container);
  }
  // As a container is found: what it may not do before it is in a plan, it does.
  void addRole(ContainerState& container) {
    container.role = static_cast<ContainerRole>(rng_.between(1, 3));
    if (container.role == ContainerRole::Pause) {
      if (rng_.chance(30)) container.home = machine_.online;
      return;
    }
    if (rng_.chance(50)) container.floor = MilliCpu(rng_.chance(50) ? rng_.between(1, 999) : 1000 * rng_.between(1, 3));
  }

  void join() {
    if (snapshot_.groups.size() > 9) return;
    GroupState group;
    group.id = GroupId(nextGroup_++);
    const int tenant = static_cast<int>(rng_.between(0, 3));
    group.tenant = TenantId(tenant);
    group.tenantWeight = tenantWeights_[static_cast<std::size_t>(tenant)];
    group.tenantCap = tenantCaps_[static_cast<std::size_t>(tenant)];
    group.band = static_cast<Band>(rng_.between(0, 2));
    group.weight = rng_.chance(60) ? 100 : rng_.between(1, 1000);
    group.floor = someFloor();
    group.ceiling = someCeiling(group.floor);
    group.lend = rng_.chance(20) ? Lend::Never : Lend::WhenIdle;
    if (rng_.chance(20)) group.memory = static_cast<MemoryTier>(rng_.between(1, 3));
    if (!machine_.devices.empty() && rng_.chance(20)) group.device = machine_.devices.front().name;
    if (isolation_ && rng_.chance(30)) group.isolation = static_cast<Isolation>(rng_.between(1, 3));
    group.loanLanes = static_cast<int>(rng_.between(0, 3));
    group.joined = snapshot_.now;
    const std::int64_t containers = rng_.chance(60) ? 1 : rng_.between(2, 4);
    for (std::int64_t c = 0; c < containers; ++c) addContainer(group);
    if (missingForFloor(snapshot_, group).value > 0) return;  // Pending, outside the snapshot
    const auto place = rng_.between(0, static_cast<std::int64_t>(snapshot_.groups.size()));
    snapshot_.groups.insert(snapshot_.groups.begin() + place, group);
  }

  void leave() { snapshot_.groups.erase(snapshot_.groups.begin() + (&anyGroup() - snapshot_.groups.data())); }

  void resize() {
    GroupState& group = anyGroup();
    const MilliCpu before = group.floor;
    group.floor = someFloor();
    const GroupState copy = group;
    Snapshot others = snapshot_;
    std::erase_if(others.groups, [&](const GroupState& one) { return one.id == copy.id; });
    if (missingForFloor(others, copy).value > 0) group.floor = before;
    group.ceiling = someCeiling(group.floor);
    if (rng_.chance(20)) group.lend = group.lend == Lend::Never ? Lend::WhenIdle : Lend::Never;
  }

  void workers() {
    GroupState& group = anyGroup();
    if (rng_.chance(50) && group.containers.size() < 6) return addContainer(group);
    const auto which = rng_.between(0, static_cast<std::int64_t>(group.containers.size()) - 1);
    group.containers.erase(group.containers.begin() + which);
    if (group.containers.empty() || rng_.chance(60)) addContainer(group);  // restarted, or replaced
  }

  void cpus() {
    CpuSet online = machine_.online;
    for (std::int64_t i = rng_.between(1, 3); i > 0; --i) {
      const std::vector<int> all = whole_.online.toVector();
      const int cpu = all[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(all.size()) - 1))];
      if (rng_.chance(50)) {
        online.add(cpu);
      } else {
        online.remove(cpu);
      }
    }
    if ((online - snapshot_.reserved).empty()) online = whole_.online;
    rebuild(online, machine_.allowed | (online - machine_.online));
  }

  void allowance() {
    CpuSet allowed = machine_.online;
    if (rng_.chance(60)) {
      for (const int cpu : machine_.online) {
        if (rng_.chance(30)) allowed.remove(cpu);
      }
    }
    rebuild(machine_.online, allowed);
  }

  void rebuild(const CpuSet& online, const CpuSet& allowed) {
    if (((allowed & online) - snapshot_.reserved).empty()) return;
    machine_ = withOnline(whole_, online, allowed);
    // cgroup v1 cuts vanished CPUs out of the sets; elsewhere they stay written.
    if (!cutsSets_) return;
    for (GroupState& group : snapshot_.groups) {
      for (ContainerState& container : group.containers) {
        container.home &= machine_.online;
        container.loans &= machine_.online;
        container.awakeLoanLanes = container.loans.count();
      }
    }
  }

  void demand() {
    for (GroupState& group : snapshot_.groups) {
      if (rng_.chance(40)) continue;
      group.demand = MilliCpu(rng_.between(0, 8000));
      group.queuedBeyondOwnLanes = rng_.chance(60);
      group.demandBelowEntitlementSince.reset();
      if (rng_.chance(50)) group.demandBelowEntitlementSince = snapshot_.now - Millis(rng_.between(0, 200));
    }
  }

  void weights() {
    const int tenant = static_cast<int>(rng_.between(0, 3));
    tenantWeights_[static_cast<std::size_t>(tenant)] = rng_.between(1, 1000);
    for (GroupState& group : snapshot_.groups) {
      if (group.tenant.value == tenant) group.tenantWeight = tenantWeights_[static_cast<std::size_t>(tenant)];
    }
    anyGroup().weight = rng_.between(1, 1000);
  }

  MilliCpu someCap() {
    switch (rng_.between(0, 3)) {
      case 0: return MilliCpu(rng_.between(1, 999));
      case 1: return MilliCpu(1000 * rng_.between(1, 6));
      case 2: return MilliCpu(rng_.between(1000, 8000));
      default: return MilliCpu(0);
    }
  }
  void quota() {
    const int tenant = static_cast<int>(rng_.between(0, 3));
    tenantCaps_[static_cast<std::size_t>(tenant)] = someCap();
    for (GroupState& group : snapshot_.groups) {
      if (group.tenant.value == tenant) group.tenantCap = tenantCaps_[static_cast<std::size_t>(tenant)];
    }
  }

  Bytes someMemory() { return Bytes(rng_.chance(20) ? rng_.between(0, std::int64_t{40} << 30) : std::int64_t{1} << 28); }
  // What is resident, who waits for it, and what the kernel says is free.
  void memory() {
    for (GroupState& group : snapshot_.groups) {
      for (ContainerState& container : group.containers) {
        if (rng_.chance(40)) container.resident = someMemory();
        if (rng_.chance(50)) container.expected = Bytes(0);
        container.memoryPressure = rng_.chance(10) ? 300 : 0;
      }
    }
    snapshot_.memoryFree.clear();
    for (const MemoryNode& node : machine_.memoryNodes) {
      if (rng_.chance(30)) snapshot_.memoryFree.push_back({node.id, Bytes(node.size.value / 100 * rng_.between(0, 100))});
    }
  }

 protected:
  ~HistoryWorld() = default;

  Rng rng_;
  const Machine& whole_;
  Machine machine_;
  Config config_;
  Snapshot snapshot_;

 private:
  bool cutsSets_{false};
  bool weights_{false};
  bool isolation_{false};
  bool roles_{false};
  std::array<std::int64_t, 4> tenantWeights_{100, 100, 100, 300};
  std::array<MilliCpu, 4> tenantCaps_{};
  int nextGroup_{0};
  int nextInstance_{0};
};

}  // namespace coterie::allocation
