#include "process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "channel/control_messages.h"
#include "channel/seqpacket.h"

namespace coterie::process {

namespace {

Error failed(const char* what, int error) {
  return {Code::Unavailable, "SpawnFailed", std::string("a worker cannot be started: ") + what + ": " + std::strerror(error)};
}

// Of our environment a worker gets nothing but what a sanitizer or a profiler of ours needs.
std::vector<std::string> workerEnvironment() {
  std::vector<std::string> result{"PATH=/usr/bin:/bin", "LANG=C.UTF-8"};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LLVM_PROFILE_FILE"}) {
    if (const char* value = std::getenv(name); value != nullptr) result.push_back(std::string(name) + "=" + value);
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Result<Child> spawn(const std::string& path, const std::vector<std::string>& arguments) {
  auto sockets = channel::seqpacketPair();
  if (!sockets.ok()) return sockets.error();
  int errors[2];
  if (::pipe2(errors, O_CLOEXEC | O_NONBLOCK) != 0) return failed("pipe", errno);
  UniqueFd errorsHere(errors[0]);
  const UniqueFd errorsThere(errors[1]);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, errorsThere.get(), 2);
  ::posix_spawn_file_actions_adddup2(&actions, sockets->second.get(), channel::kControlFd);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> argumentTexts = arguments;
  std::vector<std::string> environment = workerEnvironment();
  pid_t pid = 0;
  const int rc = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, pointers(argumentTexts).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (rc != 0) return failed(path.c_str(), rc);

  Child child;
  child.pid = pid;
  child.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  child.control = std::move(sockets->first);
  child.errors = std::move(errorsHere);
  if (!child.process) {
    const int error = errno;
    (void)::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return failed("pidfd_open", error);
  }
  return child;
}

bool hasEnded(const UniqueFd& process) {
  pollfd watched{process.get(), POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

ExitStatus reap(int pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) continue;
  return {info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED, info.si_status};
}

std::string describe(const ExitStatus& status) {
  if (!status.signalled) return "exit code " + std::to_string(status.code);
  return "signal " + std::to_string(status.code) + " (" + ::strsignal(status.code) + ")";
}

StopNews stopNews(int pid) {
  StopNews latest = StopNews::Nothing;
  for (int i = 0; i < 2; ++i) {  // the kernel keeps one of each
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0) break;
    latest = info.si_code == CLD_CONTINUED ? StopNews::WentOn : StopNews::Stopped;
  }
  return latest;
}

void kill(const UniqueFd& process) { (void)::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0); }

MemoryUse memoryOf(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  MemoryUse use;
  std::string line;
  while (std::getline(status, line)) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    const std::int64_t bytes = std::strtoll(line.c_str() + colon + 1, nullptr, 10) * 1024;
    if (key == "VmRSS") use.resident = bytes;
    if (key == "VmHWM") use.peak = bytes;
    if (key == "RssAnon" || key == "RssShmem") use.charged += bytes;
  }
  return use;
}

bool hasThread(int pid, int thread) { return ::access(("/proc/" + std::to_string(pid) + "/task/" + std::to_string(thread)).c_str(), F_OK) == 0; }

}  // namespace coterie::process
