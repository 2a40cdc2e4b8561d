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
// Trees of dead runs are found at start: their processes are killed, the directories removed. Who is started in the `system` that a dead run left
// (its supervisor stands there) takes that run's cgroup, the one above, as its own, and gives it back as it was. About a dozen descriptors a
// container, held open. O(threads) per observation. Thread rule: control loop. Source: Linux Documentation/admin-guide/cgroup-v2.rst (Threads,
// Delegation, Cpuset). Errors: Unavailable/NoCgroupV2 (not mounted, or without the controllers; with the command that delegates them),
// PermissionDenied/CgroupNotWritable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "linux/cgroup_controller.h"

namespace coterie::linux {

struct CgroupV2Options {
  std::string directory;        // own cgroup; empty: found in /proc
  bool killLeftovers{true};     // processes of a dead run: kill (serve) or leave alone (then their directories stay too)
  bool onlyIfDelegated{false};  // where systemd runs, what it has not delegated is left to it
};

class CgroupV2Controller final : public CgroupController {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CgroupV2Controller>> create(const CgroupV2Options& options = {});
  ~CgroupV2Controller() override;

  [[nodiscard]] const std::string& tree() const { return tree_; }

 private:
  explicit CgroupV2Controller(const CgroupV2Options& options);
  [[nodiscard]] Status passControllersOn();
  void takeOverFromDeadRun();
  [[nodiscard]] Status makeTree();
  [[nodiscard]] Status makeLeaves(InstanceId id, CgroupLeaves& leaves) const override;
  [[nodiscard]] std::int64_t kernelWeight(std::int64_t weight) const override;
  [[nodiscard]] std::int64_t weightRead(const std::optional<std::string>& text) const override;
  void moveBack(int pid) const override;
  void removeTrees() override;
  void giveBackOwnCgroup();

  CgroupV2Options options_;
  std::string tree_;
  std::string shelter_;   // where the own cgroup's processes were moved; empty: they stayed
  bool passedOn_{false};  // the controllers were passed on by us
};

}  // namespace coterie::linux
