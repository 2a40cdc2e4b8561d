// Small reads of the kernel's text files and threads, for the adapters of this folder. "It is not there" is a value (nullopt, empty), never an error.
// Affinity masks are sized from what the kernel accepts, so CPU ids above 1024 work. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/unique_fd.h"

namespace coterie::linux {

// A whole file (at most 1 MiB); nullopt if it cannot be read.
[[nodiscard]] std::optional<std::string> readText(const std::string& path);
// The same from a held descriptor, from its start.
[[nodiscard]] std::optional<std::string> readText(int fd);
// A list of ids as the kernel writes it; empty: it is not there, or no such list.
[[nodiscard]] CpuSet setOf(const std::optional<std::string>& list);
// One write(2); the errno, 0 for success.
[[nodiscard]] int writeText(const std::string& path, const std::string& text);
[[nodiscard]] UniqueFd openFor(const std::string& path, int flags);
// A folder for its owner alone, and those above it; one that is there stays as it is. The errno, 0 for success.
[[nodiscard]] int makePrivateFolder(const std::string& path);

// Thread ids of a process, ascending; empty if it has gone.
[[nodiscard]] std::vector<int> threadsOf(int pid);
// sched_getaffinity of one thread (0: the caller); nullopt if it has gone.
[[nodiscard]] std::optional<CpuSet> affinityOf(int tid);
// The mask as sched_setaffinity takes it.
[[nodiscard]] std::string affinityMask(const CpuSet& cpus);
// May a thread run exactly where this mask (of affinityMask) says? One system call.
[[nodiscard]] bool hasMask(int tid, const std::string& mask);
// The soft limit of open files, up to the hard one: a container costs more than a dozen, and 1024 is a common soft limit. And a
// table with room for 8192: each time that it doubles in a process with threads, whoever opens a file waits 10 to 20 ms for the kernel (an RCU grace
// period). Call it before there are threads.
void allowManyFiles();
// State letter (R, S, Z, ...), parent (field 4), flags (field 9) and start time (field 22) of /proc/PID/stat or /proc/PID/task/TID/stat.
struct ProcessStat {
  char state{'?'};
  int parent{0};
  bool ofKernel{false};  // one of the kernel's own threads
  unsigned long long startTime{0};
};
[[nodiscard]] std::optional<ProcessStat> readStat(const std::string& path);
// A thread that has not ended: the first one if it can be, whose id is the process's; 0: no such process, or a zombie. A first thread that ended
// (pthread_exit in main) is a zombie, too, until all others have.
[[nodiscard]] int livingThreadOf(int pid);

}  // namespace coterie::linux
