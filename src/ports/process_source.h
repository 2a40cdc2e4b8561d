// The processes of this machine, whoever began them: the scan that finds other people's servers, and what their threads use.
//
// A scan is a list of all processes of the moment; one that ends meanwhile is in it or is not. It is handed out as a thing of its own that never
// changes, the same one again as long as nothing does. Of a process that has gone, times and CPUs are empty: that is a value, no error. Costs: a scan
// O(processes) with a few system calls each for what is new, and only a few in all where nothing is; threads() O(threads of the process). Adapters:
// src/linux (ProcProcesses), src/testing (FakeProcesses); one contract suite, process_source_contract.h. Thread rule: control loop.
#pragma once

#include <memory>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "model/seen_process.h"

namespace coterie {

using SeenProcesses = std::shared_ptr<const std::vector<SeenProcess>>;  // ascending pid

class ProcessSource {
 public:
  virtual ~ProcessSource() = default;
  // Unavailable/ProcessesUnreadable.
  [[nodiscard]] virtual Result<SeenProcesses> scan() = 0;
  // Ascending tid.
  [[nodiscard]] virtual std::vector<ThreadTimes> threads(int pid) = 0;
  // Threads of the whole machine that run or wait for a CPU now, without the caller.
  [[nodiscard]] virtual int runnable() = 0;
  // CPU time that the whole machine has used since it was started; coarse (10 ms).
  [[nodiscard]] virtual Nanos used() = 0;
  // Where its first thread may run.
  [[nodiscard]] virtual CpuSet cpus(int pid) = 0;
  // Of memory, pages that it shares included.
  [[nodiscard]] virtual Bytes resident(int pid) = 0;
};

}  // namespace coterie
