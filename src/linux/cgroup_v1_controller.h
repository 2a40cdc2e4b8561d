// CPU control through cgroups v1 (also on hybrid systems, where v2 carries no controllers): the cpuset and cpu hierarchies. Needs root.
//
// Below the process's own cgroup in each hierarchy: coterie-<pid>-<start time>/, and in it two leaves per container: in the cpu hierarchy <id>.home
// and <id>.loans, in the cpuset hierarchy <id>/home and <id>/loans, where <id> has all CPUs of the tree. Flat in the one, because the kernel compares
// weights between siblings: a loans leaf (cpu.idle 1) yields to every home leaf only if it is their sibling. Deep in the other, because the kernel
// looks at all siblings at each write of a set (of 400, half of the write's time). Kernel rules obeyed: a new v1 cpuset is empty and refuses tasks
// (ENOSPC) until cpus and mems are written; a child's set must lie within its parent's (EACCES), a parent's around its children's (EBUSY), and no set
// with tasks may become empty (ENOSPC); processes move by cgroup.procs, single threads by tasks, in each hierarchy apart; a thread keeps its own
// affinity mask in a cpuset, so masks are opened before a container is placed; an offline CPU is cut from cpuset.cpus for good (it reads back as
// drift when it returns); with RT_GROUP_SCHED a new cpu cgroup has no real-time budget, so Coterie's own threads stay where they are and get priority
// by nice. memory_migrate stays as the kernel has it. Directories of a dead run (its pid has gone or started at another time) are found at start:
// their processes are killed, the directories removed. About 13 descriptors a container, held open: a change costs no path walk. O(threads) per
// observation. Thread rule: control loop. Errors: Unavailable/NoCgroupV1 (not mounted), PermissionDenied/CgroupNotWritable, with the command that
// helps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "linux/cgroup_controller.h"

namespace coterie::linux {

struct CgroupV1Options {
  std::string cpusetDirectory;  // own cgroup in the cpuset hierarchy; empty: found in /proc
  std::string cpuDirectory;     // the same in the cpu hierarchy
  bool killLeftovers{true};     // processes of a dead run: kill (serve) or leave alone (then their directories stay too)
};

class CgroupV1Controller final : public CgroupController {
 public:
  [[nodiscard]] static Result<std::unique_ptr<CgroupV1Controller>> create(const CgroupV1Options& options = {});
  ~CgroupV1Controller() override;

  [[nodiscard]] const std::string& cpusetTree() const { return cpusetTree_; }
  [[nodiscard]] const std::string& cpuTree() const { return cpuTree_; }

 private:
  explicit CgroupV1Controller(const CgroupV1Options& options);
  [[nodiscard]] Status makeTrees();
  [[nodiscard]] Status makeLeaves(InstanceId id, CgroupLeaves& leaves) const override;
  [[nodiscard]] std::int64_t kernelWeight(std::int64_t weight) const override;
  [[nodiscard]] std::int64_t weightRead(const std::optional<std::string>& text) const override;
  void moveBack(int pid) const override;
  void removeTrees() override;

  CgroupV1Options options_;
  std::string cpusetTree_;
  std::string cpuTree_;
};

}  // namespace coterie::linux
