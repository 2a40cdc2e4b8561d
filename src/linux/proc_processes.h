// The processes of this machine from /proc, as a ProcessSource.
//
// Who is there is read at each scan (one directory). What a process is (parent, start, command, cgroup) is read when it is first seen and in the
// scans of the 5 s after that, since a process is begun, put into its cgroup and made another program (exec) one after the other; later in every 10th
// scan, or at once where its start time shows that the pid is another's. So a scan costs one small read per known process. Of the hierarchies of
// cgroups v1 the path of the one is taken whose path tells of a container, else v2's or the first that is not the root. Threads' times are those of
// /proc/PID/task/TID/schedstat (CONFIG_SCHED_INFO; where it is missing, times are 0). Kernel formats: proc(5), cgroups(7). Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ports/clock.h"
#include "ports/process_source.h"

namespace coterie::linux {

class ProcProcesses final : public ProcessSource {
 public:
  // tellsOfContainer: is this the path of a container's cgroup? (foreign/cgroup_path.h; adapters do not know it.)
  ProcProcesses(const Clock& clock, std::function<bool(std::string_view)> tellsOfContainer);
  [[nodiscard]] Result<std::vector<SeenProcess>> scan() override;
  [[nodiscard]] std::vector<ThreadTimes> threads(int pid) override;
  [[nodiscard]] int runnable() override;  // procs_running of /proc/stat
  [[nodiscard]] CpuSet cpus(int pid) override;
  [[nodiscard]] Bytes resident(int pid) override;

 private:
  struct Known {
    SeenProcess process;
    Instant firstSeen{};
    int scans{0};
  };
  [[nodiscard]] bool isFresh(const Known& known, Instant now) const;

  const Clock& clock_;
  std::function<bool(std::string_view)> tellsOfContainer_;
  std::map<int, Known> known_;
};

// The path to show of /proc/PID/cgroup.
[[nodiscard]] std::string tellingCgroup(std::string_view procCgroup, const std::function<bool(std::string_view)>& tellsOfContainer);

}  // namespace coterie::linux
