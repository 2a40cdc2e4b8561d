// A worker binary that attacks: argv = hostile NAME PARENT VICTIM SECRET MODEL_FD FOLDER_FD ORT_FD. Tries of one system call report over the control
// socket how it went ("refused: Operation not permitted", or "SUCCEEDED"); tries on the protocol play a worker that misbehaves.
#include "hostile.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "channel/seqpacket.h"

namespace coterie::hostile {

Loot receiveLoot() {
  std::vector<std::byte> buffer(channel::kMaxControlMessage);
  channel::Received received = channel::receiveWithFds(channel::kControlFd, buffer, channel::Wait::Yes);
  Loot loot;
  loot.setup = channel::decodeSetup(std::span<const std::byte>(buffer).first(received.size)).value();
  loot.signals = received.fds.at(0).release();
  loot.requests = received.fds.at(1).release();
  loot.answers = received.fds.at(2).release();
  std::size_t next = 3;
  if (loot.setup.bringsMemoryFile()) loot.memoryFile = received.fds.at(next++).release();
  loot.lane = received.fds.at(next).release();
  return loot;
}

namespace {

struct Context {
  int parent;
  int victim;
  std::string secret;  // another tenant's model
  int model;           // descriptor of our own
  Loot loot;
};

std::string procOf(int pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }
bool opens(const std::string& path, int flags) { return ::open(path.c_str(), flags, 0600) >= 0; }

void* forever(void*) {
  while (true) ::sleep(1000);
}
// True if it could make more threads than a worker's lanes ever need.
bool threadBomb() {
  int made = 0;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, 64 * 1024);
  for (pthread_t thread{}; made < 20000 && ::pthread_create(&thread, &attributes, forever, nullptr) == 0; ++made) continue;
  errno = EAGAIN;
  return made >= 5000;
}

bool anyOfTheParentsDescriptors(int pid, int flags) {
  for (int fd = 0; fd < 64; ++fd) {
    if (opens(procOf(pid, ("fd/" + std::to_string(fd)).c_str()), flags)) return true;
  }
  return false;
}

bool reads(int pid) {
  char byte = 0;
  iovec local{&byte, 1};
  iovec remote{reinterpret_cast<void*>(0x400000), 1};
  return ::process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1 || errno == EFAULT;
}

constexpr int kReplace = O_WRONLY | O_CREAT | O_TRUNC;  // the only way in which a worker that prepares may open a file to write

using Try = std::function<bool(const Context&)>;  // true: it worked

const std::map<std::string, Try>& tries() {
  static const std::map<std::string, Try> kTries = {
      {"ptrace-parent", [](const Context& c) { return ::ptrace(PTRACE_ATTACH, c.parent, nullptr, nullptr) == 0; }},
      {"ptrace-neighbour", [](const Context& c) { return ::ptrace(PTRACE_SEIZE, c.victim, nullptr, nullptr) == 0; }},
      {"mem-of-parent", [](const Context& c) { return opens(procOf(c.parent, "mem"), O_RDONLY); }},
      {"mem-of-neighbour", [](const Context& c) { return opens(procOf(c.victim, "mem"), O_RDWR); }},
      {"environ-of-parent", [](const Context& c) { return opens(procOf(c.parent, "environ"), O_RDONLY); }},
      {"maps-of-neighbour", [](const Context& c) { return opens(procOf(c.victim, "maps"), O_RDONLY); }},
      {"read-parents-memory", [](const Context& c) { return reads(c.parent); }},
      {"signal-parent", [](const Context& c) { return ::kill(c.parent, SIGTERM) == 0; }},
      {"signal-neighbour", [](const Context& c) { return ::kill(c.victim, SIGKILL) == 0; }},
      {"signal-everybody", [](const Context&) { return ::kill(-1, SIGKILL) == 0; }},
      {"tgkill-neighbour", [](const Context& c) { return ::syscall(SYS_tgkill, c.victim, c.victim, SIGKILL) == 0; }},
      {"pidfd-of-neighbour", [](const Context& c) { return ::syscall(SYS_pidfd_open, c.victim, 0) >= 0; }},
      {"internet-socket", [](const Context&) { return ::socket(AF_INET, SOCK_STREAM, 0) >= 0; }},
      {"unix-socket", [](const Context&) { return ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
      {"netlink-socket", [](const Context&) { return ::socket(AF_NETLINK, SOCK_RAW, 0) >= 0; }},
      {"io-uring", [](const Context&) { return ::syscall(425, 8, nullptr) >= 0 || errno == EFAULT; }},
      {"parents-memfds", [](const Context& c) { return anyOfTheParentsDescriptors(c.parent, O_RDONLY); }},
      {"neighbours-memfds", [](const Context& c) { return anyOfTheParentsDescriptors(c.victim, O_RDWR); }},
      {"reopen-requests-writable", [](const Context& c) { return opens("/proc/self/fd/" + std::to_string(c.loot.requests), O_RDWR); }},
      {"map-requests-writable",
       [](const Context& c) { return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c.loot.requests, 0) != MAP_FAILED; }},
      {"make-requests-writable",
       [](const Context& c) {
         void* data = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, c.loot.requests, 0);
         return data != MAP_FAILED && ::mprotect(data, 4096, PROT_READ | PROT_WRITE) == 0;
       }},
      {"write-requests", [](const Context& c) { return ::write(c.loot.requests, "x", 1) == 1; }},
      {"shrink-requests", [](const Context& c) { return ::ftruncate(c.loot.requests, 0) == 0; }},
      {"shrink-answers", [](const Context& c) { return ::ftruncate(c.loot.answers, 0) == 0; }},
      {"grow-answers", [](const Context& c) { return ::ftruncate(c.loot.answers, 1LL << 40) == 0; }},
      {"chmod-requests", [](const Context& c) { return ::fchmod(c.loot.requests, 0777) == 0; }},
      {"another-tenants-model", [](const Context& c) { return opens(c.secret, O_RDONLY); }},
      {"password-file", [](const Context&) { return opens("/etc/passwd", O_RDONLY); }},
      {"write-a-file", [](const Context&) { return opens("/tmp/coterie-hostile-was-here", O_WRONLY | O_CREAT); }},
      {"create-as-a-preparer", [](const Context&) { return opens("/tmp/coterie-hostile-was-here", kReplace); }},
      {"replace-the-model", [](const Context& c) { return opens("/proc/self/fd/" + std::to_string(c.model), kReplace); }},
      {"write-beyond-the-limit",
       [](const Context& c) {
         const int fd = ::open(("/proc/self/fd/" + std::to_string(c.loot.memoryFile)).c_str(), kReplace, 0600);
         if (fd < 0) return true;  // that it may
         return ::lseek(fd, 1LL << 40, SEEK_SET) >= 0 && ::write(fd, "x", 1) == 1;
       }},
      {"rewrite-the-prepared", [](const Context& c) { return opens("/proc/self/fd/" + std::to_string(c.loot.memoryFile), kReplace); }},
      {"write-the-prepared", [](const Context& c) { return ::write(c.loot.memoryFile, "x", 1) == 1; }},
      {"shrink-the-prepared", [](const Context& c) { return ::ftruncate(c.loot.memoryFile, 0) == 0; }},
      {"map-the-prepared-writable",
       [](const Context& c) { return ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c.loot.memoryFile, 0) != MAP_FAILED; }},
      {"fork-bomb", [](const Context&) { return ::fork() >= 0; }},
      {"thread-bomb", [](const Context&) { return threadBomb(); }},
      {"shell",
       [](const Context&) {
         char name[] = "sh";
         char* const argv[] = {name, nullptr};
         return ::execve("/bin/sh", argv, nullptr) == 0;
       }},
      {"affinity",
       [](const Context&) {
         cpu_set_t all;
         CPU_ZERO(&all);
         for (int cpu = 0; cpu < 64; ++cpu) CPU_SET(cpu, &all);
         return ::sched_setaffinity(0, sizeof all, &all) == 0;
       }},
      {"real-time",
       [](const Context&) {
         const sched_param top{99};
         return ::sched_setscheduler(0, SCHED_FIFO, &top) == 0;
       }},
      {"idle-class-for-parent",
       [](const Context& c) {
         const sched_param none{};
         return ::sched_setscheduler(c.parent, SCHED_IDLE, &none) == 0;
       }},
      {"nice-of-neighbour", [](const Context& c) { return ::setpriority(PRIO_PROCESS, static_cast<id_t>(c.victim), 19) == 0; }},
      {"limits-of-neighbour",
       [](const Context& c) {
         const rlimit none{0, 0};
         return ::prlimit(c.victim, RLIMIT_NOFILE, &none, nullptr) == 0;
       }},
      {"own-memfd", [](const Context&) { return ::memfd_create("mine", 0) >= 0; }},
      {"shared-memory", [](const Context&) { return ::shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0; }},
      {"user-namespace", [](const Context&) { return ::unshare(CLONE_NEWUSER) == 0; }},
      {"mount", [](const Context&) { return ::mount("none", "/tmp", "tmpfs", 0, nullptr) == 0; }},
      {"root-again", [](const Context&) { return ::setuid(0) == 0; }},
      {"bpf", [](const Context&) { return ::syscall(SYS_bpf, BPF_MAP_CREATE, nullptr, 0) >= 0 || errno == EFAULT; }},
      {"keyring", [](const Context&) { return ::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1) >= 0; }},
      {"dumpable", [](const Context&) { return ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0; }},
  };
  return kTries;
}

}  // namespace
}  // namespace coterie::hostile

int main(int argc, char** argv) {
  using namespace coterie;
  if (argc < 6) return 2;
  (void)::signal(SIGXFSZ, SIG_IGN);
  const std::string name = argv[1];
  const hostile::Context context{std::atoi(argv[2]), std::atoi(argv[3]), argv[4], std::atoi(argv[5]), hostile::receiveLoot()};
  if (const auto found = hostile::tries().find(name); found != hostile::tries().end()) {
    errno = 0;
    const bool worked = found->second(context);
    const std::string report = worked ? "SUCCEEDED" : std::string("refused: ") + std::strerror(errno);
    (void)channel::send(channel::kControlFd, channel::encodeFailed({Code::Internal, "Tried", report}), channel::Wait::Yes);
    while (true) ::sleep(1000);
  }
  hostile::breakProtocol(name, context.loot);
  return 3;
}
