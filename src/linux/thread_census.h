// Are all threads of a process in its container's two leaves? From the kernel's lists; or, while nothing has changed since they were read, from signs
// that cost a tenth.
//
// The lists (the process's threads, those in each leaf) are some 30 us a container: for hundreds of containers, looked at each second and around each
// plan, more than all else the agent does. The signs: the process has as many threads as then, and each may run exactly where its leaf lets it (or on
// the one CPU in it that it was given). A thread that somebody moved elsewhere has another mask, one that was born changes the number. What signs do
// not show (a thread moved to a foreign cgroup of the very same CPUs; one that ended while another was born elsewhere) the lists do, at every 16th
// look at the latest; not at the same look for all containers that were placed at once. O(threads) system calls. Thread rule: control loop. Source:
// Linux fs/proc/base.c (the links of /proc/PID/task are its threads and two more).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/unique_fd.h"

namespace coterie::linux {

class ThreadCensus {
 public:
  enum class Placing : std::uint8_t { Floats, Partial, Complete, Gone };

  explicit ThreadCensus(int pid);

  // The leaves: their lists by path, the CPUs they grant or were asked to, and the CPUs of single threads that keep to one.
  struct Leaves {
    const std::string& homeThreads;
    const std::string& loanThreads;
    const CpuSet& home;
    const CpuSet& loans;
    const std::map<int, int>& single;  // thread -> CPU
  };
  [[nodiscard]] Placing look(const Leaves& leaves);
  // Do signs say that all are where these leaves let them run? No: look() says what is the case.
  [[nodiscard]] bool lookBySigns(const Leaves& leaves);
  // Were all placed at the last look? For who is about to write, and looks again afterwards.
  [[nodiscard]] bool lastComplete() const { return !home_.empty(); }

 private:
  [[nodiscard]] bool signsHold(const Leaves& leaves) const;
  [[nodiscard]] Placing readLists(const Leaves& leaves);
  [[nodiscard]] std::optional<std::size_t> threadCount() const;

  int pid_;
  int ahead_;                      // looks that the first reading of the lists counts for
  UniqueFd tasks_;                 // /proc/PID/task
  std::vector<int> home_, loans_;  // as listed, while all were placed
  int looks_{0};                   // by signs, since the lists were read
};

}  // namespace coterie::linux
