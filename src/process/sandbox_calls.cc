// seccomp: which system calls a worker may make. An allow-list; all else fails with EPERM, so that a library that probes gets an answer it can
// handle.
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "process/sandbox.h"

namespace coterie::process {

namespace {

// Memory, files that are open or may be read, time, threads of its own, messages on the sockets it was given.
constexpr int kAllowed[] = {SCMP_SYS(read),
                            SCMP_SYS(readv),
                            SCMP_SYS(pread64),
                            SCMP_SYS(write),
                            SCMP_SYS(writev),
                            SCMP_SYS(close),
                            SCMP_SYS(lseek),
                            SCMP_SYS(fstat),
                            SCMP_SYS(stat),
                            SCMP_SYS(lstat),
                            SCMP_SYS(newfstatat),
                            SCMP_SYS(statx),
                            SCMP_SYS(fstatfs),
                            SCMP_SYS(statfs),
                            SCMP_SYS(access),
                            SCMP_SYS(faccessat),
                            SCMP_SYS(readlink),
                            SCMP_SYS(readlinkat),
                            SCMP_SYS(getcwd),
                            SCMP_SYS(getdents64),
                            SCMP_SYS(close_range),
                            SCMP_SYS(fadvise64),
                            SCMP_SYS(brk),
                            SCMP_SYS(mmap),
                            SCMP_SYS(munmap),
                            SCMP_SYS(mprotect),
                            SCMP_SYS(mremap),
                            SCMP_SYS(madvise),
                            SCMP_SYS(mincore),
                            SCMP_SYS(recvfrom),
                            SCMP_SYS(recvmsg),
                            SCMP_SYS(sendto),
                            SCMP_SYS(sendmsg),
                            SCMP_SYS(poll),
                            SCMP_SYS(ppoll),
                            SCMP_SYS(futex),
                            SCMP_SYS(set_robust_list),
                            SCMP_SYS(get_robust_list),
                            SCMP_SYS(rseq),
                            SCMP_SYS(set_tid_address),
                            SCMP_SYS(arch_prctl),
                            SCMP_SYS(rt_sigaction),
                            SCMP_SYS(rt_sigprocmask),
                            SCMP_SYS(rt_sigreturn),
                            SCMP_SYS(sigaltstack),
                            SCMP_SYS(restart_syscall),
                            SCMP_SYS(membarrier),
                            SCMP_SYS(sched_yield),
                            SCMP_SYS(sched_getaffinity),
                            SCMP_SYS(sched_getscheduler),
                            SCMP_SYS(sched_getparam),
                            SCMP_SYS(getcpu),
                            SCMP_SYS(get_mempolicy),
                            SCMP_SYS(sched_get_priority_max),
                            SCMP_SYS(sched_get_priority_min),
                            SCMP_SYS(clock_gettime),
                            SCMP_SYS(clock_getres),
                            SCMP_SYS(clock_nanosleep),
                            SCMP_SYS(nanosleep),
                            SCMP_SYS(gettimeofday),
                            SCMP_SYS(time),
                            SCMP_SYS(times),
                            SCMP_SYS(getpid),
                            SCMP_SYS(getppid),
                            SCMP_SYS(gettid),
                            SCMP_SYS(getuid),
                            SCMP_SYS(geteuid),
                            SCMP_SYS(getgid),
                            SCMP_SYS(getegid),
                            SCMP_SYS(getrusage),
                            SCMP_SYS(getrlimit),
                            SCMP_SYS(sysinfo),
                            SCMP_SYS(uname),
                            SCMP_SYS(getrandom),
                            SCMP_SYS(exit),
                            SCMP_SYS(exit_group)};

struct Rule {
  int call;
  std::vector<scmp_arg_cmp> conditions;
};

scmp_arg_cmp equal(unsigned argument, std::uint64_t value) { return scmp_arg_cmp{argument, SCMP_CMP_EQ, value, 0}; }
// (argument & mask) == value
scmp_arg_cmp masked(unsigned argument, std::uint64_t mask, std::uint64_t value) { return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, mask, value}; }

// What of a file's opening says that it may change one.
constexpr std::uint64_t kOpenFlags = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND | (O_TMPFILE & ~O_DIRECTORY);

std::vector<Rule> conditionalRules() {
  const auto self = static_cast<std::uint64_t>(::getpid());  // exec keeps the id
  return {
      {SCMP_SYS(openat), {masked(2, kOpenFlags, O_RDONLY)}},
      {SCMP_SYS(clone), {masked(0, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND, CLONE_THREAD | CLONE_VM | CLONE_SIGHAND)}},
      {SCMP_SYS(execveat), {equal(4, AT_EMPTY_PATH)}},  // the launcher becoming the worker; Landlock says which binary
      {SCMP_SYS(sched_setscheduler), {equal(0, 0), equal(1, SCHED_IDLE)}},
      {SCMP_SYS(tgkill), {equal(0, self)}},  // abort()
      {SCMP_SYS(prctl), {equal(0, PR_SET_NAME)}},
      {SCMP_SYS(prctl), {equal(0, PR_GET_NAME)}},
      {SCMP_SYS(prctl), {equal(0, 0x53564d41)}},          // PR_SET_VMA: names of mappings
      {SCMP_SYS(prlimit64), {equal(0, 0), equal(2, 0)}},  // reading its own limits
      {SCMP_SYS(fcntl), {equal(1, F_GETFD)}},
      {SCMP_SYS(fcntl), {equal(1, F_SETFD)}},
      {SCMP_SYS(fcntl), {equal(1, F_GETFL)}},
  };
}

struct Release {
  void operator()(void* filter) const { ::seccomp_release(filter); }
};

Error failed(const char* what, int error) {
  return {Code::Unavailable, "SandboxFailed", std::string("seccomp: ") + what + ": " + std::strerror(error)};
}

}  // namespace

Result<bool> restrictSystemCalls(bool mayWrite) {
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) return false;
  const std::unique_ptr<void, Release> filter(::seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (!filter) return failed("init", ENOMEM);
  for (const int call : kAllowed) {
    if (const int rc = ::seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0); rc < 0) return failed("allow", -rc);
  }
  // The C library falls back to clone(), whose flags can be looked at, and to faccessat().
  for (const int call : {SCMP_SYS(clone3), SCMP_SYS(faccessat2), SCMP_SYS(openat2)}) {
    if (const int rc = ::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), call, 0); rc < 0) return failed("refuse", -rc);
  }
  std::vector<Rule> rules = conditionalRules();
  // Which file it is, Landlock decides: it has given no right to write, and asks for none where a file has no place in the tree, as memory files.
  if (mayWrite) rules.push_back({SCMP_SYS(openat), {masked(2, kOpenFlags, O_WRONLY | O_CREAT | O_TRUNC)}});
  for (const Rule& rule : rules) {
    const auto count = static_cast<unsigned>(rule.conditions.size());
    if (const int rc = ::seccomp_rule_add_array(filter.get(), SCMP_ACT_ALLOW, rule.call, count, rule.conditions.data()); rc < 0)
      return failed("allow", -rc);
  }
  if (const int rc = ::seccomp_load(filter.get()); rc < 0) return failed("load", -rc);
  return true;
}

}  // namespace coterie::process
