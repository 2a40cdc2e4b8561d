#include "process/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace coterie::process {

namespace {
constexpr std::int32_t kSharedThreadLimit = 16'384;

Error failed(const char* what) {
  return {Code::Unavailable, "SandboxFailed", std::string("the sandbox cannot be entered: ") + what + ": " + std::strerror(errno)};
}

bool writeFile(const char* path, std::string_view text) {
  const UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  return fd.valid() && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

Status limit(__rlimit_resource_t resource, rlim_t value) {
  rlimit present{};
  if (::getrlimit(resource, &present) != 0) return failed("getrlimit");
  const rlim_t wanted = present.rlim_max == RLIM_INFINITY ? value : std::min(value, present.rlim_max);
  const rlimit both{wanted, wanted};
  if (::setrlimit(resource, &both) != 0) return failed("setrlimit");
  return {};
}

Status limitResources(const SandboxOptions& options) {
  struct Row {
    __rlimit_resource_t resource;
    rlim_t value;
  };
  for (const Row& row :
       {Row{RLIMIT_CORE, 0}, Row{RLIMIT_FSIZE, static_cast<rlim_t>(options.writeLimit)}, Row{RLIMIT_MEMLOCK, 0}, Row{RLIMIT_MSGQUEUE, 0},
        Row{RLIMIT_RTPRIO, 0}, Row{RLIMIT_NICE, 0}, Row{RLIMIT_SIGPENDING, 128}, Row{RLIMIT_NOFILE, static_cast<rlim_t>(options.fileLimit)}}) {
    if (Status s = limit(row.resource, row.value); !s.ok()) return s;
  }
  if (options.dataLimit > 0) {
    if (Status s = limit(RLIMIT_DATA, static_cast<rlim_t>(options.dataLimit)); !s.ok()) return s;
  }
  return {};
}

// RLIMIT_NPROC counts a user's threads, in its user namespace and in those around it. Set before a namespace is made, it would bound what the whole
// user has outside, which may be far more than a worker's share: so it comes after. Without a namespace of our own it can only be generous.
Status limitThreads(const SandboxOptions& options, bool ownNamespace) {
  if (options.threadLimit <= 0) return {};
  const bool shared = ::geteuid() != 0 && !ownNamespace;
  return limit(RLIMIT_NPROC, static_cast<rlim_t>(shared ? std::max(options.threadLimit, kSharedThreadLimit) : options.threadLimit));
}

// True if this process now has a network of its own, with nothing in it but a loopback that is down.
bool leaveNetwork() {
  if (::geteuid() == 0) return ::unshare(CLONE_NEWNET) == 0;
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  // Without a mapping of its own id the worker would be "nobody" and could not read its model.
  return writeFile("/proc/self/setgroups", "deny") && writeFile("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1") &&
         writeFile("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
}

Status becomeUser(std::uint32_t uid) {
  if (::setgroups(0, nullptr) != 0) return failed("setgroups");
  if (::setresgid(uid, uid, uid) != 0) return failed("setresgid");
  if (::setresuid(uid, uid, uid) != 0) return failed("setresuid");
  return {};
}

Status dropCapabilities() {
  // Root by uid alone must not bring capabilities back at exec; this fails without CAP_SETPCAP, where there is nothing to lose.
  (void)::prctl(PR_SET_SECUREBITS,
                SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) return failed("capset");
  return {};
}

}  // namespace

Result<std::vector<std::string>> enterSandbox(const SandboxOptions& options) {
  std::vector<std::string> missing;
  if (Status s = limitResources(options); !s.ok()) return s.error();
  // Under memory pressure a worker goes before the gateway and the store.
  if (!writeFile("/proc/self/oom_score_adj", "500")) missing.emplace_back("oom_score_adj");
  const bool left = options.network && leaveNetwork();
  if (!left) missing.emplace_back("network namespace");
  if (Status s = limitThreads(options, left); !s.ok()) return s.error();
  if (options.uid != 0 && ::geteuid() == 0) {
    if (Status s = becomeUser(options.uid); !s.ok()) return s.error();
  } else {
    missing.emplace_back("own user");
  }
  if (Status s = dropCapabilities(); !s.ok()) return s.error();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return failed("PDEATHSIG");
  if (options.parent != 0 && ::getppid() != options.parent) return Error{Code::Unavailable, "SandboxFailed", "the supervisor is gone"};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  const auto files = restrictFiles(options);
  if (!files.ok()) return files.error();
  if (!*files) missing.emplace_back("Landlock");
  const auto calls = restrictSystemCalls(*files && options.writeLimit > 0);
  if (!calls.ok()) return calls.error();
  if (!*calls) missing.emplace_back("seccomp");
  return missing;
}

}  // namespace coterie::process
