// The processes of this machine from /proc, as a ProcessSource.
//
// Who has ended is told by their pidfds (one epoll for all; where a kernel has none, by their stat). Who has begun: the kernel gives ids out in a
// circle and says which it gave last and how many threads there are (/proc/loadavg). While both stay as they were nobody was born; else those who
// were have ids between the last one and this, and each is asked for, in this scan and in the next, since an id is given out before its process can
// be seen. The whole list of /proc is read where there are too many of them, and every tenth time, for one whose id was chosen (clone3 with set_tid,
// a restored container). What a process is (parent, start, command, cgroup) is read when it is first seen and in the scans of the 5 s after that,
// since a process is begun, put into its cgroup and made another program (exec) one after the other; command and cgroup later in every 30th scan, a
// parent when it has ended. So a scan where nothing happens costs two system calls and two small reads for one process of thirty, and a descriptor is
// kept for each. The kernel's own threads stay what they are. Of the hierarchies of cgroups v1 the path of the one is taken whose path tells of a
// container, else v2's or the first that is not the root. Threads' times are those of /proc/PID/task/TID/schedstat (CONFIG_SCHED_INFO; where it is
// missing, times are 0). Kernel formats: proc(5), cgroups(7), kernel/pid.c. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "linux/kept_file.h"
#include "ports/clock.h"
#include "ports/process_source.h"

namespace coterie::linux {

class ProcProcesses final : public ProcessSource {
 public:
  // tellsOfContainer: is this the path of a container's cgroup? (foreign/cgroup_path.h; adapters do not know it.)
  ProcProcesses(const Clock& clock, std::function<bool(std::string_view)> tellsOfContainer);
  [[nodiscard]] Result<SeenProcesses> scan() override;
  [[nodiscard]] std::vector<ThreadTimes> threads(int pid) override;
  [[nodiscard]] int runnable() override;
  [[nodiscard]] Nanos used() override;  // of /proc/stat
  [[nodiscard]] CpuSet cpus(int pid) override;
  [[nodiscard]] Bytes resident(int pid) override;

 private:
  struct Known {
    SeenProcess process;
    Instant firstSeen{};
    int scans{0};  // in which it was there
    UniqueFd handle;
    bool ofKernel{false};
    bool orphaned{false};  // its parent has ended: it has another one
  };
  using Entries = std::map<int, Known>;
  enum class Look : std::uint8_t { Same, Changed, Gone };

  [[nodiscard]] bool takeEnded();
  enum class Begun : std::uint8_t { Nobody, Some, Unknown };
  [[nodiscard]] Begun whoMayHaveBegun();
  [[nodiscard]] bool takeList(const std::vector<int>& pids, Instant now);
  void takeBegun(Instant now);
  Entries::iterator add(Entries::iterator hint, int pid, UniqueFd handle, Instant now);
  [[nodiscard]] Look lookAgain(Known& known, Instant now) const;
  Entries::iterator forget(Entries::iterator one);

  const Clock& clock_;
  std::function<bool(std::string_view)> tellsOfContainer_;
  Entries known_;
  UniqueFd endings_;       // an epoll over the handles
  bool allHeld_{true};     // nobody is without a handle
  KeptFile load_, times_;  // /proc/loadavg, /proc/stat
  bool counted_{false};    // the first is the kernel's own
  struct Counts {
    int threads{0}, lastId{0};
    friend bool operator==(const Counts&, const Counts&) = default;
  };
  std::optional<Counts> counts_;  // of it, in the last scan
  // The last id as it was two scans ago, one ago, now: who is asked for.
  int askedFirst_{0}, askedFrom_{0}, askedTo_{0};
  int unlistedScans_{0};
  SeenProcesses seen_;  // handed out last
};

// The path of /proc/PID/cgroup that stands for the process, where it is in several hierarchies: one that tells of a container, else version 2's, else
// that of cpuset, of cpu, of any other; of none the root. The hierarchy's own path, without its mount point.
[[nodiscard]] std::string tellingCgroup(std::string_view procCgroup, const std::function<bool(std::string_view)>& tellsOfContainer);

}  // namespace coterie::linux
