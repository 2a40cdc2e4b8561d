#include "testing/kernel_calls.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace coterie::testing {

namespace {

constexpr int kSyscallStop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

[[noreturn]] void childMain(const std::function<void()>& before, const std::function<void()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  before();
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
  ::raise(SIGSTOP);
  work();
  ::_exit(0);
}

}  // namespace

std::optional<KernelCalls> kernelCalls(const std::function<void()>& before, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) childMain(before, work);
  KernelCalls calls;
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
  ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (long signal = 0;;) {
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, signal) != 0 || ::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
    signal = WSTOPSIG(status) == kSyscallStop ? 0 : WSTOPSIG(status);
    __ptrace_syscall_info info{};
    const bool known = signal == 0 && ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0;
    if (known && info.op == PTRACE_SYSCALL_INFO_ENTRY) ++calls[static_cast<long>(info.entry.nr)];
  }
  const bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !calls.empty();
  return whole ? std::optional(std::move(calls)) : std::nullopt;
}

}  // namespace coterie::testing
