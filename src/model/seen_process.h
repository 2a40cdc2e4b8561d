// Processes of this machine as they are seen from outside: who runs, in which cgroup, and what its threads use. Values; ports/process_source.h has
// where they come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace coterie {

struct SeenProcess {
  int pid{0};
  int parent{0};
  std::uint64_t started{0};  // in the kernel's ticks since boot; with the pid it names a process for ever
  std::string command;       // the arguments, a blank between two; empty: the kernel's own
  std::string cgroup;        // its path as the kernel shows it, of the hierarchy that tells most; "/" at least
  friend bool operator==(const SeenProcess&, const SeenProcess&) = default;
};

struct ThreadTimes {
  int tid{0};
  Nanos run{};     // on a CPU, since the thread began
  Nanos waited{};  // for a CPU, since the thread began
  friend bool operator==(const ThreadTimes&, const ThreadTimes&) = default;
};

}  // namespace coterie
