// The sandbox of a worker: what a launcher applies to itself, single-threaded, before it becomes the worker by exec. What the worker's code does
// later, even as somebody else's binary, happens inside.
//
// In this order: rlimits; oom_score_adj +500; own network namespace (as root directly, else in a user namespace of its own); user and groups of the
// tenant (as root); no capabilities, none to regain; PDEATHSIG (setuid clears it, so after it) with the parent checked; no_new_privs; Landlock
// (read-only: system libraries, ONNX Runtime, the model's folder, what ONNX Runtime reads of /sys and /proc; execute: the worker and the loader; no
// signals or abstract sockets out); seccomp. seccomp is a list of what is allowed; all else is EPERM. In particular: no sockets, no new processes, no
// memfds, no ptrace, no signals except to itself, no writable opens (but by a worker that prepares a model, of the memory file that it was given), no
// affinity; sched_setscheduler only of the calling thread to SCHED_IDLE, which is how loan lanes get their class after the door is shut: a thread can
// only give up its share by it, and the kernel lets no unprivileged thread return. What the kernel lacks is returned as words for a condition; what
// must work and does not is an error. Sources: landlock(7), seccomp(2), user_namespaces(7), capabilities(7). Thread rule: the only thread of the
// process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace coterie::process {

struct SandboxOptions {
  std::int32_t parent{0};       // must still be our parent
  std::uint32_t uid{0};         // user and group to become when root; 0: stay
  std::int64_t dataLimit{0};    // RLIMIT_DATA, 0: none
  std::int32_t threadLimit{0};  // RLIMIT_NPROC, 0: none; counts the whole user unless in a user namespace of its own
  std::int32_t fileLimit{256};  // RLIMIT_NOFILE
  bool network{true};           // own network namespace
  std::vector<int> readable;    // descriptors of files and folders that may be read
  int worker{-1};               // descriptor of the binary to become
  // > 0: a memory file that it is given may be opened for writing and hold that many bytes. Only where Landlock keeps every other file closed.
  std::int64_t writeLimit{0};
};

// Applies it all. Returns what the machine lacks ("Landlock", "network namespace", "own user", "seccomp"); Unavailable/SandboxFailed otherwise.
[[nodiscard]] Result<std::vector<std::string>> enterSandbox(const SandboxOptions& options);

// Parts of the above, in their own files.
[[nodiscard]] Result<bool> restrictFiles(const SandboxOptions& options);  // Landlock; false: the kernel has none
[[nodiscard]] Result<bool> restrictSystemCalls(bool mayWrite);            // seccomp; false: the kernel has none

}  // namespace coterie::process
