#include "testing/freezable.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <tuple>

namespace coterie::testing {

namespace {
Error unavailable(const std::string& what) { return {Code::Unavailable, "NoFreezer", what + ": " + std::strerror(errno)}; }

std::string readText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool writeText(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

struct Freezer {
  std::string folder;
  bool version2{true};
};

constexpr std::string_view kPrefix = "coterie-bench-";

// A bench that was killed could not remove its cgroups; its processes went with it. Only empty ones can be removed.
void removeLeftovers(const std::string& mount) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(mount, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const int owner = std::atoi(name.c_str() + kPrefix.size());
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

// A new cgroup below the first mount that has what freezing needs.
std::optional<Freezer> makeFreezer(const std::string& name) {
  for (const auto& [mount, probe, version2] : {std::tuple<std::string, std::string, bool>{"/sys/fs/cgroup/unified", "cgroup.freeze", true},
                                               {"/sys/fs/cgroup", "cgroup.freeze", true},
                                               {"/sys/fs/cgroup/freezer", "freezer.state", false}}) {
    removeLeftovers(mount);
    const std::string folder = mount + "/" + std::string(kPrefix) + std::to_string(::getpid()) + "-" + name;
    if (::mkdir(folder.c_str(), 0755) != 0) continue;
    if (::access((folder + "/" + probe).c_str(), W_OK) == 0) return Freezer{folder, version2};
    ::rmdir(folder.c_str());
  }
  return std::nullopt;
}

// Only async-signal-safe calls: between fork and exec.
[[noreturn]] void runChild(int parent, int processesFd, const std::vector<int>& inherit, char* const* argv) {
  // A bench that is interrupted leaves nothing behind: its subjects go with it, and their workers with them.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(125);
  ::setpgid(0, 0);
  if (::write(processesFd, "0", 1) != 1) ::_exit(126);
  for (const int fd : inherit) ::fcntl(fd, F_SETFD, 0);
  ::execvp(argv[0], argv);
  ::_exit(127);
}
}  // namespace

Result<std::unique_ptr<FreezableProcess>> FreezableProcess::start(const std::string& name, const std::vector<std::string>& argv,
                                                                  const std::vector<int>& inherit) {
  const auto freezer = makeFreezer(name);
  if (!freezer) return Error{Code::Unavailable, "NoFreezer", "no writable cgroup freezer: run as root, or in a delegated cgroup"};
  const UniqueFd processes(::open((freezer->folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  std::vector<std::string> words = argv;
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int parent = ::getpid();
  const int pid = processes ? ::fork() : -1;
  if (pid < 0) {
    ::rmdir(freezer->folder.c_str());
    return unavailable("cannot start " + argv.front());
  }
  if (pid == 0) runChild(parent, processes.get(), inherit, pointers.data());
  return std::unique_ptr<FreezableProcess>(new FreezableProcess(freezer->folder, freezer->version2, pid));
}

FreezableProcess::~FreezableProcess() {
  kill();
  for (int tries = 0; tries < 200 && ::rmdir(folder_.c_str()) != 0 && errno == EBUSY; ++tries) ::poll(nullptr, 0, 5);
}

Status FreezableProcess::setFrozen(bool frozen) {
  const std::string file = folder_ + (version2_ ? "/cgroup.freeze" : "/freezer.state");
  if (!writeText(file, version2_ ? (frozen ? "1" : "0") : (frozen ? "FROZEN" : "THAWED"))) return unavailable("cannot write " + file);
  for (int tries = 0; tries < 5000; ++tries) {
    const std::string state = version2_ ? readText(folder_ + "/cgroup.events") : readText(file);
    const bool reached = version2_ ? state.find(frozen ? "frozen 1" : "frozen 0") != std::string::npos : state == (frozen ? "FROZEN\n" : "THAWED\n");
    if (reached) return {};
    ::poll(nullptr, 0, 1);
  }
  return Error{Code::DeadlineExceeded, "FreezeTimedOut", folder_ + " did not " + (frozen ? "freeze" : "thaw") + " within 5 s"};
}

Status FreezableProcess::freeze() { return setFrozen(true); }
Status FreezableProcess::thaw() { return setFrozen(false); }

void FreezableProcess::kill() {
  if (reaped_) return;
  if (!version2_ || !writeText(folder_ + "/cgroup.kill", "1")) {
    ::kill(-pid_, SIGKILL);
    (void)setFrozen(false);
    const std::string members = readText(folder_ + "/cgroup.procs");
    for (std::size_t at = 0; at < members.size(); at = members.find('\n', at) + 1) {
      const int member = std::atoi(members.c_str() + at);
      if (member > 0) ::kill(member, SIGKILL);
      if (members.find('\n', at) == std::string::npos) break;
    }
  }
  (void)setFrozen(false);
  ::waitpid(pid_, nullptr, 0);
  reaped_ = true;
}

bool FreezableProcess::running() {
  if (!reaped_ && ::waitpid(pid_, nullptr, WNOHANG) == pid_) reaped_ = true;
  return !reaped_;
}

double FreezableProcess::cpuSeconds() const {
  const std::string stat = version2_ ? readText(folder_ + "/cpu.stat") : "";
  const std::size_t at = stat.find("usage_usec ");
  return at == std::string::npos ? 0 : std::atof(stat.c_str() + at + std::strlen("usage_usec ")) / 1e6;
}

}  // namespace coterie::testing
