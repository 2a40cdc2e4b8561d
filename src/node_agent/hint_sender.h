// Tells a container's server how many threads to use: by a file that is replaced as a whole, and a signal afterwards. (Hooks over HTTP:
// hook_caller.h.)
//
// The file holds one line of JSON, {"threads": 2, "cpus": "0-1"}; who reads it sees the old line or the new one. It is made beside its place without
// following links (mode 0644, since the server is another user), its folder too (0755) if it is not there. A signal is sent only to a process that
// has a handler for it: the default action of the ones that are allowed ends a process. Withdrawn: the file is removed, and the signal sent again; a
// server without a file does as it likes. Errors: Unavailable/HintUnwritable, Unavailable/SignalUnhandled (the file stands). Thread rule: control
// loop. Example of a listener: examples/thread-hint.
#pragma once

#include <string>

#include "base/cpu_set.h"
#include "base/result.h"
#include "foreign/discover.h"
#include "node_agent/agent_file.h"

namespace coterie::node_agent {

struct ThreadHint {
  int threads{0};  // 0: withdrawn
  CpuSet cpus;
  friend bool operator==(const ThreadHint&, const ThreadHint&) = default;
};

// A pattern with its placeholders filled in: the path of a container's own file, the address of its hook.
[[nodiscard]] std::string filledIn(const std::string& pattern, const foreign::FoundContainer& container);
// "3f2a9c0d1e4b" of a container's id, else the pid.
[[nodiscard]] std::string shortName(const foreign::FoundContainer& container);
[[nodiscard]] std::string hintText(const ThreadHint& hint);
// What a hook is told.
[[nodiscard]] std::string hookText(const foreign::FoundContainer& container, const ThreadHint& hint);
// By file and signal.
[[nodiscard]] Status sendHint(const HintSpec& spec, const foreign::FoundContainer& container, const ThreadHint& hint);

}  // namespace coterie::node_agent
