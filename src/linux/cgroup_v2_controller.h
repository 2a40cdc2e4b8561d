// CPU control through cgroups v2: cpuset and cpu in one threaded subtree. As root, or in a subtree that was delegated with both controllers.
//
// Below the process's own cgroup: `system`, into which the processes that stand there move (a cgroup that passes controllers on may hold no process
// itself; the hierarchy's root may, and is left as it is), and coterie-<pid>-<start time>/, a threaded domain, flat in it two threaded leaves per
// container, <id>.home and <id>.loans. Threaded, because the loan lanes are threads of the same process; flat, because the kernel compares weights
// between siblings: a loans leaf (cpu.idle 1) yields to every home leaf only as their sibling. A process first joins the domain, then its threads are
// spread. Kernel rules obeyed: a requested set and the effective one differ, and where nothing of a request can be granted the kernel falls back to
// the parent's whole set, so observe() reports both; an empty set means "inherit" and is never written; writing memory nodes moves the pages at once;
// a thread keeps its own affinity mask, so masks are opened before a container is placed. An offline CPU stays in the request and is used again when
// it returns. Memory limits per worker are not this adapter's: domain controllers cannot be split within a threaded subtree.
// Trees of dead runs are found at start: their processes are killed, the directories removed. About 9 descriptors a container, held open. O(threads)
// per observation. Thread rule: control loop. Source: Linux Documentation/admin-guide/cgroup-v2.rst (Threads, Delegation, Cpuset).
// Errors: Unavailable/NoCgroupV2 (not mounted, or without the controllers; with the command that delegates them), PermissionDenied/CgroupNotWritable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

struct CgroupV2Options {
  std::string directory;     // own cgroup; empty: found in /proc
  bool killLeftovers{true};  // processes of a dead run: kill (serve) or leave alone (then their directories stay too)
};

class CgroupV2Controller final : public CpuController {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CgroupV2Controller>> create(const CgroupV2Options& options = {});
  ~CgroupV2Controller() override;

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

  [[nodiscard]] const std::string& tree() const { return tree_; }

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
  enum class Placing : std::uint8_t { Floats, Partial, Complete };
  explicit CgroupV2Controller(const CgroupV2Options& options);
  [[nodiscard]] Status passControllersOn();
  [[nodiscard]] Status makeTree();
  [[nodiscard]] Status makeLeaves(const ContainerRegistration& container, Leaves& leaves) const;
  [[nodiscard]] Placing placingOf(const Container& container) const;
  [[nodiscard]] PreparedChange homeChange(Container& container, const CpuSet& cpus) const;
  [[nodiscard]] PreparedChange laneChange(Container& container, const CpuSet& cpus) const;
  void giveBackOwnCgroup();

  CpuControllerTraits traits_;
  CgroupV2Options options_;
  std::string tree_;
  std::string shelter_;      // where the own cgroup's processes were moved; empty: they stayed
  bool passedOn_{false};     // the controllers were passed on by us
  std::string memoryNodes_;  // the tree's, as text
  CpuSet possible_;          // the mask of a thread that only its cpuset holds
  UniqueFd treeCpus_;
  std::shared_ptr<const UniqueFd> treeProcesses_;
  CpuSet system_;
  bool systemPlaced_{false};
  std::map<InstanceId, Container> containers_;
  std::vector<std::string> unremoved_;
};

}  // namespace coterie::linux
