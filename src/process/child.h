// One child process: spawned with a control socket at fd 3, watched through its pidfd, reaped once.
//
// Spawned by posix_spawn, so that a large multi-threaded parent neither copies page tables nor runs code between fork and exec. Standard input and
// output are /dev/null, standard error is a pipe for the supervisor to read. Everything else of the parent's is close-on-exec. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::process {

struct Child {
  int pid{0};
  UniqueFd process;  // pidfd
  UniqueFd control;  // our end
  UniqueFd errors;   // what it writes to standard error; non-blocking
};

// `arguments` includes argv[0]. Unavailable/SpawnFailed.
[[nodiscard]] Result<Child> spawn(const std::string& path, const std::vector<std::string>& arguments);

// Has it ended? Asked of the pidfd, because an event loop may call back without cause.
[[nodiscard]] bool hasEnded(const UniqueFd& process);

// How a child ended.
struct ExitStatus {
  bool signalled{false};
  int code{0};  // signal or exit code
};
// Waits by id, not by pidfd: an event loop may have made that non-blocking.
[[nodiscard]] ExitStatus reap(int pid);
[[nodiscard]] std::string describe(const ExitStatus& status);  // "signal 11 (Segmentation fault)", "exit code 3"
void kill(const UniqueFd& process);                            // SIGKILL
// What the parent is told of its child since it was asked last: did a signal stop it, did it go on? Nothing: neither, or it is traced, which its
// parent is not told of. waitid(2).
enum class StopNews : std::uint8_t { Nothing, Stopped, WentOn };
[[nodiscard]] StopNews stopNews(int pid);

// What the kernel says about a live process, read from /proc; 0 if it is gone.
struct MemoryUse {
  std::int64_t resident{0};  // all pages
  std::int64_t charged{0};   // private and shared-memory pages: what a limit is about
  std::int64_t peak{0};
};
[[nodiscard]] MemoryUse memoryOf(int pid);
[[nodiscard]] bool hasThread(int pid, int thread);

}  // namespace coterie::process
