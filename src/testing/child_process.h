// A child process with threads that do nothing until they are told: what tests and benches of CPU control place on real kernels.
//
// Forked, not executed, and it keeps no file of its parent but one end of a socket; it dies with this object, and with the thread that made it. Each
// command is carried out before the call returns. A child that cannot be made or does not answer ends the program: there is nothing to go on with.
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace coterie::testing {

class ChildProcess {
 public:
  explicit ChildProcess(int threads);  // beside its first one
  ~ChildProcess() { end(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  [[nodiscard]] const std::vector<int>& tids() const { return tids_; }  // of the threads beside its first one
  int addThread();                                                      // born from its first one; its id
  void spin(bool on);                                                   // all threads beside its first one: keep a CPU busy each, or wait again
  // Its first thread maps so much memory in small pages and writes to every page; the address.
  std::uint64_t touch(Bytes size);
  void end();  // killed, and waited for

 private:
  [[nodiscard]] std::int64_t ask(char what, std::int64_t argument = 0);

  int socket_{-1};
  int pid_{-1};
  std::vector<int> tids_;
};

}  // namespace coterie::testing
