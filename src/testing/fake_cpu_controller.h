// A CpuController over a small model of the kernel's cpuset rules, for tests: it can fail, hang and be disturbed from outside, and records what was
// written.
//
// Rules kept (cgroups v1: cpuset(7), v2: kernel documentation "cgroup-v2", Cpuset):
//   v1  a child is empty at birth and takes no tasks until cpus and mems are written (ENOSPC); a child lies within its parent (EACCES), a parent
//   around its
//       children (EBUSY); a set with tasks never becomes empty (ENOSPC); an offline CPU is cut from the sets for good.
//   v2  requested and effective sets differ: effective = requested within the parent's effective set, the parent's whole set if nothing is left or
//   nothing was
//       requested; any list of possible CPUs may be requested; offline CPUs leave only the effective set.
//   both  CPUs that the machine never had are refused (EINVAL).
// Fake processes are made with spawn(). Writes are PreparedWrite::Call: execute them with linux/execute_write.h or any executor. A hung write answers
// kHangs: an executor of tests treats it as not finished. operations() lists every executed write in order, e.g. "home 7 0-1", "loans 7 -" (parked),
// "tree 0-3"; the spreading of lanes over a home is told by laneCpus() alone. Thread rule: one thread, except that executing a write is thread-safe
// (for tests of the real applier).
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ports/cpu_controller.h"

namespace coterie::testing {

enum class KernelRules { CgroupV1, CgroupV2 };

class FakeCpuController final : public CpuController {
 public:
  static constexpr int kHangs = -1;

  explicit FakeCpuController(CpuSet online, KernelRules rules = KernelRules::CgroupV1);

  [[nodiscard]] const CpuControllerTraits& traits() const override { return traits_; }
  [[nodiscard]] Status add(const ContainerRegistration& container) override;
  void remove(InstanceId id) override;
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override;
  [[nodiscard]] Result<PreparedChange> prepareQuota(InstanceId id, MilliCpu least) override;
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) override;
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override;
  [[nodiscard]] Result<ObservedContainer> observePlace(InstanceId id) const override;
  [[nodiscard]] std::string limitAbove(InstanceId id, const CpuSet& cpus) const override {
    const auto limit = limits_.find(id);
    return limit == limits_.end() || cpus.isSubsetOf(limit->second) ? std::string() : "cgroup /docker allows only " + limit->second.toString();
  }
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int threadId) const override;
  [[nodiscard]] ContainerMemory memoryOf(InstanceId id) const override;
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override;
  void sweep() override {}
  void restore() override;

  // What tests do to it.
  [[nodiscard]] ContainerRegistration spawn(InstanceId id, int ownLanes, int loanLanes);  // a fake process, not yet added
  void endProcess(int pid);
  // Its runtime gave it a quota; without, there is none to be had.
  void setQuota(InstanceId id, MilliCpu cpus) { quotas_[id] = {cpus, cpus}; }
  [[nodiscard]] MilliCpu quota(InstanceId id) const {
    const auto found = quotas_.find(id);
    return found == quotas_.end() ? MilliCpu{} : found->second.now;
  }
  void agentKilled();  // what is written stays, nothing is registered; who is added again is as it was
  void setThreadUse(int tid, ThreadUse use) { uses_[tid] = use; }
  void setMemory(InstanceId id, ContainerMemory memory);  // of a registered one; until then a mebibyte, and no pressure
  void fail(InstanceId id, CpuChangeKind kind, int error) { faults_[{id, kind}] = error; }  // until heal()
  // A set above this one's alone has become so narrow: writes beyond it are refused. None: it is wide again.
  void limit(InstanceId id, const std::optional<CpuSet>& cpus) {
    limits_.erase(id);
    if (cpus) limits_.emplace(id, *cpus);
  }
  void hang(InstanceId id, CpuChangeKind kind) { fail(id, kind, kHangs); }
  void heal() { faults_.clear(); }
  void setOnline(const CpuSet& online);             // hotplug by the kernel's rules
  void disturb(InstanceId id, const CpuSet& home);  // somebody else writes the home's CPUs
  void disturbTree(const CpuSet& cpus);             // or those of the set above all containers
  // Its memory nodes are somebody's choice.
  void keepMemory(InstanceId id) { memoryKept_.insert(id); }
  [[nodiscard]] std::vector<std::string> takeOperations();
  [[nodiscard]] LanePlace lanePlace(InstanceId id, int loanLane) const;
  [[nodiscard]] CpuSet laneCpus(InstanceId id) const;  // that its own lanes are spread over; empty: they float
  [[nodiscard]] CpuSet system() const { return system_; }
  [[nodiscard]] int threadLooks() const { return threadLooks_; }  // how often threadUse() was asked

 private:
  struct Leaf {
    CpuSet requested;
    CpuSet memoryNodes;
    bool hasTasks{false};
  };
  struct Container {
    ContainerRegistration threads;
    CpuSet askedHome;
    Leaf home;
    Leaf loans;
    bool lent{false};
    CpuSet laneCpus;
    std::int64_t weight{100};
    std::optional<std::int64_t> askedWeight;
    CpuSet askedMemoryNodes;
    mutable std::optional<std::pair<std::int64_t, CpuSet>> figures;  // as last read, once they are what was asked
    ContainerMemory memory{Bytes(1 << 20), 0};
    std::set<int> lanesAtHome;
  };
  static int executeCall(void* context, const PreparedWrite& write);
  [[nodiscard]] int execute(const std::string& operation);
  [[nodiscard]] int writeCpus(Leaf& leaf, const CpuSet& cpus);
  [[nodiscard]] int writeTree(const CpuSet& cpus);
  [[nodiscard]] int attach(Container& container);
  [[nodiscard]] ObservedContainer seen(const Container& container) const;
  [[nodiscard]] CpuSet effectiveTree() const;
  [[nodiscard]] CpuSet effectiveOf(const Leaf& leaf) const;
  [[nodiscard]] PreparedChange call(std::vector<std::string> operations);

  CpuControllerTraits traits_;
  KernelRules rules_;
  CpuSet possible_;
  CpuSet online_;
  CpuSet tree_;
  CpuSet system_;
  int nextTid_{1000};
  std::set<int> processes_;
  mutable std::mutex mutex_;  // execute() against everything else
  std::map<InstanceId, Container> containers_;
  std::map<InstanceId, Container> orphans_;  // of an agent that was killed
  std::map<std::pair<InstanceId, CpuChangeKind>, int> faults_;
  struct Quota {
    MilliCpu found, now;
  };
  std::map<InstanceId, Quota> quotas_;
  std::map<InstanceId, CpuSet> limits_;
  std::map<int, ThreadUse> uses_;
  std::set<InstanceId> memoryKept_;
  mutable int threadLooks_{0};
  std::vector<std::string> operations_;
};

}  // namespace coterie::testing
