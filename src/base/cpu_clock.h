// The CPU time that a process has used, of all its threads, to the nanosecond: the kernel's clock of it.
//
// Two system calls to find it, one for each reading, 0.3 us. Errors: no such process, or it has ended, is nullopt. Thread-safe. Source:
// clock_getcpuclockid(3).
#pragma once

#include <time.h>

#include <optional>

#include "base/units.h"

namespace coterie {

class CpuClock {
 public:
  explicit CpuClock(int pid);  // 0 or less: nobody's
  [[nodiscard]] std::optional<Nanos> used() const;

 private:
  std::optional<clockid_t> clock_;
};

[[nodiscard]] inline std::optional<Nanos> cpuTimeOf(int pid) { return CpuClock(pid).used(); }
// Of this process.
[[nodiscard]] Nanos ownCpuTime();

}  // namespace coterie
