#include "linux/process_threads.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "linux/files.h"

namespace coterie::linux {
namespace {

constexpr int kSystemNice = -10;
constexpr std::uint64_t kResetOnFork = 0x01;

// The kernel's struct sched_attr, first version (48 bytes); glibc 2.36 has no declaration of it.
struct SchedAttr {
  std::uint32_t size{48};
  std::uint32_t policy{0};
  std::uint64_t flags{0};
  std::int32_t nice{0};
  std::uint32_t priority{0};
  std::uint64_t runtime{0};
  std::uint64_t deadline{0};
  std::uint64_t period{0};
};
static_assert(sizeof(SchedAttr) == 48);

std::string taskPath(int pid, int tid, const char* file) { return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + file; }

bool setSystemPriority(int tid) {
  const int policy = ::sched_getscheduler(tid);
  if (policy < 0 || (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER) return true;
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(tid));
  if (errno != 0) return true;  // gone
  const bool resets = (policy & SCHED_RESET_ON_FORK) != 0;
  if (nice <= kSystemNice && resets) return true;
  SchedAttr wanted;
  wanted.flags = kResetOnFork;
  wanted.nice = std::min(nice, kSystemNice);  // started higher still: kept, but not handed on to workers
  return ::syscall(SYS_sched_setattr, tid, &wanted, 0U) == 0 || errno == ESRCH;
}

}  // namespace

bool processGone(int pid) { return (::kill(pid, 0) != 0 && errno == ESRCH) || livingThreadOf(pid) == 0; }

ThreadUse threadUseOf(int pid, int tid) {
  ThreadUse use;
  const auto stat = readStat(taskPath(pid, tid, "stat"));
  const auto text = readText(taskPath(pid, tid, "schedstat"));  // ns run, ns waited, slices
  if (!stat || !text || stat->state == 'Z' || stat->state == 'X') {
    use.vanished = true;
    return use;
  }
  use.cpu = Nanos{std::strtoll(text->c_str(), nullptr, 10)};
  use.runnable = stat->state == 'R';
  return use;
}

Nanos ThreadTimes::of(int tid) {
  const std::optional<Nanos> processRan = clock_.used();
  Thread& thread = threads_[tid];
  if (thread.file && processRan && *processRan == thread.processRan) return thread.ran;
  if (!thread.file) thread.file = openFor(taskPath(pid_, tid, "schedstat"), O_RDONLY);
  const auto text = thread.file ? readText(thread.file.get()) : std::nullopt;
  thread.ran = text ? Nanos{std::strtoll(text->c_str(), nullptr, 10)} : Nanos{0};
  thread.processRan = processRan.value_or(Nanos{-1});
  return thread.ran;
}

bool makeIdle(int tid) {
  if (::sched_getscheduler(tid) == SCHED_IDLE) return true;
  sched_param none{};
  return ::sched_setscheduler(tid, SCHED_IDLE, &none) == 0;
}

Status placeOwnThreads(const CpuSet& cpus) {
  bool refused = false;
  const std::string mask = affinityMask(cpus);
  for (const int tid : threadsOf(::getpid())) {
    const void* bits = mask.data();
    if (!cpus.empty() && affinityOf(tid) != cpus) ::sched_setaffinity(tid, mask.size(), static_cast<const cpu_set_t*>(bits));
    refused = !setSystemPriority(tid) || refused;
  }
  if (refused)
    return Error{Code::Unavailable, "NotPermitted",
                 "this program's own threads keep ordinary priority (raising it needs CAP_SYS_NICE): where all CPUs are busy they may wait for one"};
  return {};
}

}  // namespace coterie::linux
