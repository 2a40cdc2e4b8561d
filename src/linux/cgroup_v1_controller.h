// CPU control through cgroups v1 (also on hybrid systems, where v2 carries no controllers): the cpuset and cpu hierarchies. Needs root.
//
// Below the process's own cgroup in each hierarchy: coterie-<pid>-<start time>/, and flat in it two leaves per container, <id>.home and <id>.loans.
// Flat, because the kernel compares weights between siblings: a loans leaf (cpu.idle 1) yields to every home leaf only if it is their sibling in the
// cpu hierarchy. Kernel rules obeyed: a new v1 cpuset is empty and refuses tasks (ENOSPC) until cpus and mems are written; a child's set must lie
// within its parent's (EACCES), a parent's around its children's (EBUSY), and no set with tasks may become empty (ENOSPC); processes move by
// cgroup.procs, single threads by tasks, in each hierarchy apart; a thread keeps its own affinity mask in a cpuset, so masks are opened before a
// container is placed; an offline CPU is cut from cpuset.cpus for good (it reads back as drift when it returns); with RT_GROUP_SCHED a new cpu cgroup
// has no real-time budget, so Coterie's own threads stay where they are and get priority by nice. memory_migrate stays as the kernel has it.
// Directories of a dead run (its pid has gone or started at another time) are found at start: their processes are killed, the directories removed.
// About 12 descriptors a container, held open: a change costs no path walk. O(threads) per observation. Thread rule: control loop.
// Errors: Unavailable/NoCgroupV1 (not mounted), PermissionDenied/CgroupNotWritable, with the command that helps.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

struct CgroupV1Options {
  std::string cpusetDirectory;  // own cgroup in the cpuset hierarchy; empty: found in /proc
  std::string cpuDirectory;     // the same in the cpu hierarchy
  bool killLeftovers{true};     // processes of a dead run: kill (serve) or leave alone (then their directories stay too)
};

class CgroupV1Controller final : public CpuController {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CgroupV1Controller>> create(const CgroupV1Options& options = {});
  ~CgroupV1Controller() override;

  [[nodiscard]] const CpuControllerTraits& traits() const override { return traits_; }
  [[nodiscard]] Status add(const ContainerRegistration& container) override;
  void remove(InstanceId id) override;
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override;
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) override;
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override;
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int threadId) const override;
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override;
  void sweep() override;
  void restore() override;

  [[nodiscard]] const std::string& cpusetTree() const { return cpusetTree_; }
  [[nodiscard]] const std::string& cpuTree() const { return cpuTree_; }

 private:
  struct Leaves;  // held descriptors of one container
  struct Container {
    ContainerRegistration threads;
    std::shared_ptr<Leaves> leaves;
    std::string memoryNodes;    // asked last, as text
    CpuSet home;                // asked last; empty: not placed
    bool lent{false};           // the loans leaf has CPUs of its own; false: it follows the home
    std::vector<int> laneCpus;  // that each own lane keeps to, -1: it floats
    CpuSet mask;                // its first thread's, as it came: without isolated CPUs, as a rule
  };
  explicit CgroupV1Controller(const CgroupV1Options& options);
  [[nodiscard]] Status makeTrees();
  [[nodiscard]] Status makeLeaves(const ContainerRegistration& container, Leaves& leaves) const;
  enum class Placing : std::uint8_t { Floats, Partial, Complete };
  [[nodiscard]] Placing placingOf(const Container& container) const;
  [[nodiscard]] PreparedChange homeChange(Container& container, const CpuSet& cpus) const;
  [[nodiscard]] PreparedChange laneChange(Container& container, const CpuSet& cpus) const;

  CpuControllerTraits traits_;
  CgroupV1Options options_;
  std::string cpusetTree_;
  std::string cpuTree_;
  std::string memoryNodes_;  // the tree's, as text
  CpuSet possible_;          // the mask of a thread that only its cpuset holds
  UniqueFd treeCpus_;
  CpuSet system_;
  bool systemPlaced_{false};
  std::map<InstanceId, Container> containers_;
  std::vector<std::string> unremoved_;
};

}  // namespace coterie::linux
