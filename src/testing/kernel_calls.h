// How often a piece of work calls the kernel, by call: what holds on a busy machine too, where wall time does not.
//
// The work is done in a child, forked from the caller with everything that it has prepared and traced from then on; what the child changes is lost.
// One thread. The caller must not have others that hold locks. A call that another process makes the work do more often (a machine where somebody
// begins something) counts as well: ask again, and take the least. Source: ptrace(2), PTRACE_GET_SYSCALL_INFO (Linux 5.3).
#pragma once

#include <functional>
#include <map>
#include <optional>

namespace coterie::testing {

using KernelCalls = std::map<long, int>;  // by number (SYS_...)

// before: done in the child, not counted. nullopt: tracing is not permitted here, or the child did not come to its end.
[[nodiscard]] std::optional<KernelCalls> kernelCalls(const std::function<void()>& before, const std::function<void()>& work);

}  // namespace coterie::testing
