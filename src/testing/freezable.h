// A child process, with everything it starts, that can be frozen and thawed as one: what a paired bench needs to keep both subjects resident while
// one runs.
//
// The child is put in a cgroup of its own before it runs: version 2's cgroup.freeze where a v2 mount is writable, else version 1's freezer. Without
// either, start() fails with Unavailable/NoFreezer: stopping single processes by signal would leave some of the tree running. kill() ends the whole
// tree. Destruction kills. Thread-compatible. Source: Linux Documentation/admin-guide/cgroup-v2.rst (cgroup.freeze, cgroup.kill),
// cgroup-v1/freezer-subsystem.rst.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::testing {

class FreezableProcess {
 public:
  // Runs argv[0] with the given arguments; `inherit` are descriptors that stay open in the child under their own numbers.
  [[nodiscard]] static Result<std::unique_ptr<FreezableProcess>> start(const std::string& name, const std::vector<std::string>& argv,
                                                                       const std::vector<int>& inherit);
  ~FreezableProcess();
  FreezableProcess(const FreezableProcess&) = delete;
  FreezableProcess& operator=(const FreezableProcess&) = delete;

  // Returns when every process of the tree is frozen (or running again).
  Status freeze();
  Status thaw();
  void kill();
  [[nodiscard]] bool running();
  // CPU seconds that the tree has used, if the kernel accounts for it here; else 0.
  [[nodiscard]] double cpuSeconds() const;
  [[nodiscard]] int pid() const { return pid_; }

 private:
  FreezableProcess(std::string folder, bool version2, int pid) : folder_(std::move(folder)), version2_(version2), pid_(pid) {}
  [[nodiscard]] Status setFrozen(bool frozen);

  std::string folder_;
  bool version2_{true};
  int pid_{-1};
  bool reaped_{false};
};

}  // namespace coterie::testing
