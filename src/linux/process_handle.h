// A name of a process that no other one can take over: its pidfd. Thread-safe. Source: pidfd_open(2).
#pragma once

#include "base/unique_fd.h"

namespace coterie::linux {

// Invalid where there is none: it has gone, the kernel is older than 5.3, too many files are open.
[[nodiscard]] UniqueFd openProcess(int pid);
// Or is a zombie. One system call, whatever its threads.
[[nodiscard]] bool hasEnded(const UniqueFd& process);

}  // namespace coterie::linux
