#include "linux/affinity_controller.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/lane_spread.h"
#include "linux/memory_reader.h"
#include "linux/process_threads.h"

namespace coterie::linux {
namespace {

bool contains(const std::vector<int>& list, int value) { return std::find(list.begin(), list.end(), value) != list.end(); }

Error unknown(InstanceId id) { return {Code::NotFound, "UnknownContainer", "no container " + std::to_string(id.value) + " is registered"}; }

}  // namespace

AffinityController::AffinityController(CpuSet ancestors) : ancestors_(std::move(ancestors)) {
  traits_.name = "affinity";
  traits_.idleLoans = true;
  traits_.caveats = {
      "CPU sets are set by thread affinity: memory nodes and weights are not enforced, and a hostile worker can widen its own set. "
      "Run as root to use cgroups."};
  const auto autogroup = readText("/proc/sys/kernel/sched_autogroup_enabled");
  if (autogroup && autogroup->starts_with('1')) {
    traits_.idleLoans = false;
    traits_.caveats.push_back(
        "The kernel groups processes by session (sched_autogroup): lent CPUs may return late to owners in another session. "
        "echo 0 > /proc/sys/kernel/sched_autogroup_enabled");
  }
}

AffinityController::~AffinityController() = default;

Status AffinityController::add(const ContainerRegistration& container) {
  if (containers_.count(container.id) > 0) {
    return Error{Code::Conflict, "AlreadyRegistered", "container " + std::to_string(container.id.value) + " is registered already"};
  }
  const auto mask = affinityOf(container.pid);
  if (processGone(container.pid) || !mask) return Error{Code::NotFound, "ProcessGone", "process " + std::to_string(container.pid) + " has ended"};
  for (const int tid : container.loanLaneThreads) makeIdle(tid);
  containers_[container.id] = Container{container, *mask, {}, {}, std::vector<int>(container.ownLaneThreads.size(), -1)};
  return {};
}

void AffinityController::remove(InstanceId id) { containers_.erase(id); }

PreparedChange AffinityController::homeChange(Container& container, const CpuSet& cpus) const {
  PreparedChange change;
  for (const int tid : threadsOf(container.threads.pid)) {
    if (!contains(container.threads.loanLaneThreads, tid)) change.writes.push_back(affinityWrite(tid, cpus));
  }
  container.home = cpus;
  std::fill(container.laneCpus.begin(), container.laneCpus.end(), -1);  // the writes above opened their masks
  if (container.loans.empty()) {                                        // parked lanes follow the home
    for (const int tid : container.threads.loanLaneThreads) change.writes.push_back(affinityWrite(tid, cpus));
  }
  return change;
}

PreparedChange AffinityController::laneChange(Container& container, const CpuSet& cpus) {
  PreparedChange change;
  container.laneCpus = spreadLanes(container.laneCpus, cpus);
  for (std::size_t lane = 0; lane < container.laneCpus.size(); ++lane) {
    const int cpu = container.laneCpus[lane];
    change.writes.push_back(affinityWrite(container.threads.ownLaneThreads[lane], cpu < 0 ? container.home : CpuSet{cpu}));
  }
  return change;
}

PreparedChange AffinityController::loanChange(Container& container, const CpuSet& cpus) const {
  PreparedChange change;
  container.loans = cpus;
  const CpuSet& target = cpus.empty() ? container.home : cpus;
  if (target.empty()) return change;  // parked and not placed: nothing to say
  for (const int tid : container.threads.loanLaneThreads) change.writes.push_back(affinityWrite(tid, target));
  return change;
}

Result<PreparedChange> AffinityController::prepare(const CpuChange& change) {
  const bool setsCpus = change.kind == CpuChangeKind::AncestorCpus || change.kind == CpuChangeKind::HomeCpus;
  if ((setsCpus || change.kind == CpuChangeKind::MemoryNodes) && change.set.empty()) {
    return Error{Code::InvalidArgument, "EmptySet", "a container must keep at least one CPU and one memory node"};
  }
  if (change.kind == CpuChangeKind::AncestorCpus) {
    ancestors_ = change.set;
    return PreparedChange{};
  }
  const auto found = containers_.find(change.container);
  if (found == containers_.end()) return unknown(change.container);
  const bool memory = change.kind == CpuChangeKind::MemoryNodes;
  if (!memory && !change.set.isSubsetOf(ancestors_)) {
    return Error{Code::InvalidArgument, "OutsideMachine", "CPUs " + change.set.toString() + " are not within " + ancestors_.toString()};
  }
  switch (change.kind) {
    case CpuChangeKind::HomeCpus: return homeChange(found->second, change.set);
    case CpuChangeKind::LaneCpus: return found->second.home.empty() ? PreparedChange{} : laneChange(found->second, change.set);
    case CpuChangeKind::LoanCpus: return loanChange(found->second, change.set);
    default: return PreparedChange{};  // memory nodes and weights are not enforced: traits() says so
  }
}

Result<PreparedChange> AffinityController::prepareLaneMove(InstanceId id, int loanLane, LanePlace place) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknown(id);
  const Container& container = found->second;
  const auto lane = static_cast<std::size_t>(loanLane);
  if (loanLane < 0 || lane >= container.threads.loanLaneThreads.size()) return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
  const CpuSet& cpus = place == LanePlace::Home || container.loans.empty() ? container.home : container.loans;
  PreparedChange change;
  if (!cpus.empty()) change.writes.push_back(affinityWrite(container.threads.loanLaneThreads[lane], cpus));
  return change;
}

Result<ObservedContainer> AffinityController::observe(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknown(id);
  const Container& container = found->second;
  ObservedContainer observed;
  observed.vanished = processGone(container.threads.pid);
  if (observed.vanished || container.home.empty()) return observed;
  std::optional<CpuSet> shared;  // the mask of every thread that keeps to no single CPU
  for (const int tid : threadsOf(container.threads.pid)) {
    const auto mask = affinityOf(tid);
    if (!mask) continue;
    if (contains(container.threads.loanLaneThreads, tid)) {
      observed.loans |= *mask;
      continue;
    }
    observed.home |= *mask;
    const auto lane = std::find(container.threads.ownLaneThreads.begin(), container.threads.ownLaneThreads.end(), tid);
    const auto index = static_cast<std::size_t>(lane - container.threads.ownLaneThreads.begin());
    if (lane != container.threads.ownLaneThreads.end() && container.laneCpus[index] >= 0) {
      observed.uniform = observed.uniform && *mask == CpuSet{container.laneCpus[index]};
      continue;
    }
    observed.uniform = observed.uniform && (!shared || *shared == *mask);
    shared = *mask;
  }
  observed.effective = observed.home;
  return observed;
}

ThreadUse AffinityController::threadUse(InstanceId id, int threadId) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? ThreadUse{{}, false, true} : threadUseOf(found->second.threads.pid, threadId);
}

ContainerMemory AffinityController::memoryOf(InstanceId id) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? ContainerMemory{} : ContainerMemory{residentOf(found->second.threads.pid), std::nullopt};
}

Status AffinityController::placeSystem(const CpuSet& cpus) {
  system_ = cpus;
  systemPlaced_ = true;
  return placeOwnThreads(cpus);
}

void AffinityController::sweep() {
  if (systemPlaced_ && !placeOwnThreads(system_)) systemPlaced_ = false;  // refused: said once by placeSystem(), not asked for again
}

void AffinityController::restore() {
  for (auto& [id, container] : containers_) {
    if (container.home.empty()) continue;
    for (const int tid : threadsOf(container.threads.pid)) static_cast<void>(executeWrite(affinityWrite(tid, container.original)));
  }
  containers_.clear();
}

}  // namespace coterie::linux
