// Threads of processes as the CPU adapters need them: use and state, scheduling class, and the priority of Coterie's own threads. Thread-safe.
#pragma once

#include <map>

#include "base/cpu_clock.h"
#include "base/cpu_set.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

[[nodiscard]] bool processGone(int pid);  // no such process, or all its threads have ended
[[nodiscard]] ThreadUse threadUseOf(int pid, int tid);
// The CPU time of threads through files that are held open, for who asks every second: a tenth of the cost of threadUseOf(), and a tenth of that
// while the whole process has not run.
class ThreadTimes {
 public:
  explicit ThreadTimes(int pid) : pid_(pid), clock_(pid) {}
  [[nodiscard]] Nanos of(int tid);  // 0 once it has ended

 private:
  struct Thread {
    UniqueFd file;
    Nanos ran{};
    Nanos processRan{};  // when that was read
  };
  int pid_;
  CpuClock clock_;
  std::map<int, Thread> threads_;
};
// The kernel's idle class (SCHED_IDLE); allowed to everyone for own threads. False if refused or gone.
bool makeIdle(int tid);

// Coterie's own threads: on `cpus` (empty: wherever they may run), and at nice -10 where the process may (weight 9548 against 1024: the "weight 1000
// of 100" of the system group), reset on fork so that workers start at nice 0. Threads with a real-time policy are left alone. Answers
// Unavailable/NotPermitted if the priority was refused; the CPUs are set all the same.
[[nodiscard]] Status placeOwnThreads(const CpuSet& cpus);

}  // namespace coterie::linux
