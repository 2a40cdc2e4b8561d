// The machine this process runs on, as a MachineSource: its shape through hwloc, its changing sets through held descriptors (/sys online list, the
// effective CPU set of the own cgroup). What the process may use is taken from the cgroup it was started in and the affinity mask it was started
// with: where Coterie later puts its own threads does not count. A virtual machine is known by the mark that hypervisors set (x86; /sys/hypervisor
// elsewhere). Make it before anything is placed. Thread rule: control loop.
#pragma once

#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "linux/memory_reader.h"
#include "ports/machine_source.h"

namespace coterie::linux {

class LiveMachine final : public MachineSource {
 public:
  LiveMachine();
  [[nodiscard]] Result<Machine> read() override;
  [[nodiscard]] Result<MachineSets> poll() override;
  [[nodiscard]] std::vector<NodeFree> memoryFree() override { return memory_.free(); }

 private:
  UniqueFd online_;
  UniqueFd cpuset_;  // effective CPU set of the cgroup of the start; invalid: none
  NodeMemory memory_;
  std::optional<CpuSet> startAffinity_;  // set only if somebody narrowed it below the cgroup's, isolated CPUs apart
};

}  // namespace coterie::linux
