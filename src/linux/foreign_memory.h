// The memory nodes of somebody else's container, in its own cpuset: read, and written where nobody has chosen them.
//
// Who runs with fewer nodes than the cgroup above has was given them by somebody (a runtime's option, a memory manager), and keeps them. Else the
// nodes follow the container's CPUs: what is asked is written as far as the cgroup above has it, since a v1 set beyond its parent's is refused and a
// v2 one is cut. Version 2 moves the pages that lie elsewhere; version 1 only where cpuset.memory_migrate says so, which is left as it is. How many
// bytes may move is the planner's business (allocation/memory_fit.h). Kernel rules: cpuset(7), "cgroup-v2", Cpuset. A read, none below a cgroup that
// has a single node. Thread rule: control loop; the writes may be made elsewhere while the object lives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "linux/foreign_journal.h"
#include "linux/own_set.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

class ForeignMemory {
 public:
  // directory: of the container's cpuset. Null: somebody chose its nodes, or they cannot be written.
  [[nodiscard]] static std::shared_ptr<ForeignMemory> open(const std::string& directory, bool v2, SetsAbove& above);

  [[nodiscard]] const OriginalCpuset& original() const { return original_; }
  // Without writes: the cgroup above has none of them.
  [[nodiscard]] std::vector<PreparedWrite> writes(const CpuSet& nodes);
  [[nodiscard]] bool changed() const { return !asked_.empty(); }
  // What was asked where that is in force as far as it can be; else what is in force.
  [[nodiscard]] CpuSet observe(const SetsAbove& above);

 private:
  ForeignMemory() = default;

  OriginalCpuset original_;
  OwnSet nodes_;
  CpuSet asked_, written_;  // last; the second is what of the first was written
};

}  // namespace coterie::linux
