// A name of a process that no other one can take over: its pidfd. Thread-safe. Source: pidfd_open(2).
#pragma once

#include <vector>

#include "base/unique_fd.h"

namespace coterie::linux {

// Invalid where there is none: it has gone, the kernel is older than 5.3, too many files are open.
[[nodiscard]] UniqueFd openProcess(int pid);
// Or is a zombie. One system call, whatever its threads.
[[nodiscard]] bool hasEnded(const UniqueFd& process);
// Of several, by descriptor, with one system call. One that is invalid counts as ended, and so do all where the kernel does not say.
[[nodiscard]] std::vector<bool> haveEnded(const std::vector<int>& processes);

}  // namespace coterie::linux
