// CPU control without cgroups: sched_setaffinity on every thread of a container. Needs no root for the own user's processes.
//
// A thread inherits the mask of the thread that made it, and a process may gain threads while its masks are being set; so one pass is not enough:
// observe() says `uniform == false` until all threads agree, and the caller writes again ("until two scans agree"). Loan lanes are put in SCHED_IDLE,
// one by one, when the container is added: that holds back only against threads of the same cpu cgroup. What affinity cannot do is in
// traits().caveats. Kernel rules: sched_setaffinity(2) cuts the mask to the thread's cpuset and to online CPUs without saying so, and fails with
// EINVAL if nothing is left; therefore sets are checked against the ancestors' set here. O(threads) per change. Thread rule: control loop.
#pragma once

#include <map>
#include <vector>

#include "ports/cpu_controller.h"

namespace coterie::linux {

class AffinityController final : public CpuController {
 public:
  explicit AffinityController(CpuSet ancestors);  // the CPUs that containers may have at all
  ~AffinityController() override;

  [[nodiscard]] const CpuControllerTraits& traits() const override { return traits_; }
  [[nodiscard]] Status add(const ContainerRegistration& container) override;
  void remove(InstanceId id) override;
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override;
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) override;
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override;
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int threadId) const override;
  [[nodiscard]] ContainerMemory memoryOf(InstanceId id) const override;
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override;
  void sweep() override;
  void restore() override;

 private:
  struct Container {
    ContainerRegistration threads;
    CpuSet original;            // mask of the process when it was added, given back by restore()
    CpuSet home;                // asked last; empty: not placed
    CpuSet loans;               // asked last; empty: parked on the home
    std::vector<int> laneCpus;  // that each own lane keeps to, -1: the whole home
  };
  [[nodiscard]] PreparedChange homeChange(Container& container, const CpuSet& cpus) const;
  [[nodiscard]] static PreparedChange laneChange(Container& container, const CpuSet& cpus);
  [[nodiscard]] PreparedChange loanChange(Container& container, const CpuSet& cpus) const;

  CpuControllerTraits traits_;
  CpuSet ancestors_;
  CpuSet system_;
  bool systemPlaced_{false};
  std::map<InstanceId, Container> containers_;
};

}  // namespace coterie::linux
