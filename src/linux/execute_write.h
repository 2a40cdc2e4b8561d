// Makes prepared system calls: all that the thread which applies plans ever does with them. No allocation, no lock, no log; one system call per
// write. A target that has gone meanwhile (ESRCH: the thread ended; ENODEV: the cgroup was removed) is success: there is nothing left to place.
// Thread-safe.
#pragma once

#include "ports/cpu_controller.h"

namespace coterie::linux {

// Puts one thread on these CPUs (sched_setaffinity). Allocates: made beforehand, on the control loop.
[[nodiscard]] PreparedWrite affinityWrite(int threadId, const CpuSet& cpus);

[[nodiscard]] int executeWrite(const PreparedWrite& write) noexcept;     // 0 or an errno
[[nodiscard]] int executeChange(const PreparedChange& change) noexcept;  // the first errno ends it

}  // namespace coterie::linux
