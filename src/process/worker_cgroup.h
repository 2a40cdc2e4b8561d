// A control group (v1) for one worker in one hierarchy, below the caller's own path: memory with a limit, or pids with a limit.
//
// Made before the worker starts, entered before it loads anything, removed after it was reaped (the kernel refuses earlier; what is left over from a
// killed run is removed by sweepLeftovers). Where the hierarchy is not mounted, not v1 or not writable, create() answers NotFound and the runtime
// does without. In v2 there is none: a worker's threads stand in leaves of one threaded tree, so that lent time yields to owners
// (cgroup_v2_controller.h), and the kernel limits memory and processes of such a tree as a whole only. Sources: the kernel's
// admin-guide/cgroup-v1/memory and pids. Thread rule: the control loop.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace coterie::process {

enum class CgroupKind : std::uint8_t { Memory, Pids };

class WorkerCgroup {
 public:
  // `name` is unique per worker; `limit` in bytes or in threads.
  [[nodiscard]] static Result<WorkerCgroup> create(CgroupKind kind, std::string_view name, std::int64_t limit);
  WorkerCgroup() = default;
  WorkerCgroup(WorkerCgroup&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  WorkerCgroup& operator=(WorkerCgroup&& other) noexcept;
  WorkerCgroup(const WorkerCgroup&) = delete;
  WorkerCgroup& operator=(const WorkerCgroup&) = delete;
  ~WorkerCgroup();

  [[nodiscard]] bool valid() const { return !path_.empty(); }
  [[nodiscard]] Status attach(int pid) const;
  [[nodiscard]] bool killedForMemory() const;  // the kernel's out-of-memory killer acted here
  [[nodiscard]] bool wasFull() const;          // somebody in it was refused memory at least once
  [[nodiscard]] std::int64_t peak() const;     // bytes charged to it at most; 0: not known

 private:
  explicit WorkerCgroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Removes empty worker groups that an earlier run left behind.
void sweepLeftovers(CgroupKind kind);

}  // namespace coterie::process
