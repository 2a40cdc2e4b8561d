// Where the machine's shape comes from, and whether it changed. read() walks the hardware (milliseconds); poll() reads only the sets that change
// while a machine runs (a few system calls), so that a component can ask every second; memoryFree() is a read per memory node (tens of microseconds
// each), for every few seconds. Adapters: src/linux (LiveMachine), a struct in tests. Thread rule: control loop.
#pragma once

#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "model/machine.h"

namespace coterie {

struct MachineSets {
  CpuSet online;
  CpuSet allowed;  // own cpuset and start-up affinity, within online
  friend bool operator==(const MachineSets&, const MachineSets&) = default;
};

class MachineSource {
 public:
  virtual ~MachineSource() = default;
  [[nodiscard]] virtual Result<Machine> read() = 0;
  [[nodiscard]] virtual Result<MachineSets> poll() = 0;
  // Ascending id; nodes of which the kernel says nothing are not listed. Not there is no error: what is not known is not acted on.
  [[nodiscard]] virtual std::vector<NodeFree> memoryFree() = 0;
};

}  // namespace coterie
