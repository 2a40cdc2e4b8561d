// Does the kernel give a lent CPU back at once? An owner wakes every 10 ms for a few milliseconds of work on one CPU while a borrower spins on it,
// placed in the ways that lending could be done. Prints the owner's latency against its latency alone, and how much CPU the borrower had. Ratios, no
// pass or fail: machines are noisy. usage: lending [seconds per case]. Needs root and cgroups v1 for all but the last case.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "linux/affinity_controller.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/process_threads.h"

namespace coterie::linux {
namespace {

using WallClock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPeriod{10};
constexpr std::int64_t kWorkNanos = 3'000'000;

std::int64_t threadCpuNanos() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

struct Figures {
  double p50{0};
  double p99{0};
};

// In the child: latencies of periodic work of a fixed CPU time, in milliseconds.
[[noreturn]] void ownerMain(int out, double seconds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::raise(SIGSTOP);  // placed first
  std::vector<double> latencies;
  const auto end = WallClock::now() + std::chrono::duration<double>(seconds);
  auto next = WallClock::now();
  while (next < end) {
    const std::int64_t until = threadCpuNanos() + kWorkNanos;
    while (threadCpuNanos() < until) {
    }
    latencies.push_back(std::chrono::duration<double, std::milli>(WallClock::now() - next).count());
    next = std::max(next + kPeriod, WallClock::now());
    const auto wait = std::chrono::duration_cast<std::chrono::nanoseconds>(next - WallClock::now()).count();
    timespec sleep{0, std::max<std::int64_t>(wait, 0)};
    ::nanosleep(&sleep, nullptr);
  }
  std::sort(latencies.begin(), latencies.end());
  const Figures figures{latencies[latencies.size() / 2], latencies[latencies.size() * 99 / 100]};
  ::_exit(::write(out, &figures, sizeof figures) == sizeof figures ? 0 : 1);
}

[[noreturn]] void borrowerMain() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::raise(SIGSTOP);
  for (volatile std::uint64_t spins = 0;;) spins = spins + 1;
}

int startStopped(const std::function<void()>& body) {
  const int pid = ::fork();
  if (pid == 0) body();
  int status = 0;
  ::waitpid(pid, &status, WUNTRACED);
  return pid;
}

void end(int pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

enum class Placing { Alone, OrdinaryOwnGroup, IdleThreadOwnGroup, LoansLeaf, IdleThreadSameGroup };

void check(CpuController& controller, const CpuChange& change) {
  const auto prepared = controller.prepare(change);
  if (!prepared || executeChange(*prepared) != 0)
    std::fprintf(stderr, "a change was refused: %s\n", prepared ? "by the kernel" : prepared.error().message.c_str());
}

struct Outcome {
  Figures owner;
  double borrowerCpu{0};
};

Outcome measure(CpuController& controller, Placing placing, const CpuSet& shared, const CpuSet& other, double seconds) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const int owner = startStopped([&] { ownerMain(ends[1], seconds); });
  const int borrower = placing == Placing::Alone ? 0 : startStopped([] { borrowerMain(); });
  static_cast<void>(controller.add({InstanceId(1), owner, {owner}, {}, {}}));
  check(controller, {CpuChangeKind::HomeCpus, InstanceId(1), shared, 0});
  if (borrower != 0) {
    const bool leaf = placing == Placing::LoansLeaf;
    const bool idle = placing == Placing::IdleThreadOwnGroup || placing == Placing::IdleThreadSameGroup;
    static_cast<void>(controller.add({InstanceId(2), borrower, {}, leaf ? std::vector<int>{borrower} : std::vector<int>{}, {}}));
    check(controller, {CpuChangeKind::HomeCpus, InstanceId(2), leaf ? other : shared, 0});
    if (leaf) check(controller, {CpuChangeKind::LoanCpus, InstanceId(2), shared, 0});
    if (idle) makeIdle(borrower);
    ::kill(borrower, SIGCONT);
  }
  ::kill(owner, SIGCONT);
  Outcome outcome;
  if (::read(ends[0], &outcome.owner, sizeof outcome.owner) != sizeof outcome.owner) std::fprintf(stderr, "the owner did not answer\n");
  if (borrower != 0) {
    outcome.borrowerCpu = static_cast<double>(threadUseOf(borrower, borrower).cpu.count()) / 1e9 / seconds;
    end(borrower);
  }
  end(owner);
  ::close(ends[0]);
  ::close(ends[1]);
  controller.remove(InstanceId(1));
  controller.remove(InstanceId(2));
  return outcome;
}

int run(double seconds) {
  const CpuSet machine = affinityOf(0).value_or(CpuSet{0});
  const CpuSet shared{machine.last()};
  const CpuSet other{machine.first()};
  AffinityController affinity(machine);
  auto groups = CgroupV1Controller::create();
  if (!groups) std::printf("skipped the cgroup cases: %s\n", groups.error().message.c_str());
  struct Case {
    const char* text;
    Placing placing;
    bool cgroups;
  };
  const Case cases[] = {{"alone", Placing::Alone, true},
                        {"borrower ordinary, in a cpu cgroup of its own", Placing::OrdinaryOwnGroup, true},
                        {"borrower SCHED_IDLE, in a cpu cgroup of its own", Placing::IdleThreadOwnGroup, true},
                        {"borrower in a loans leaf (cpu.idle 1)", Placing::LoansLeaf, true},
                        {"borrower SCHED_IDLE, in the owner's cpu cgroup", Placing::IdleThreadSameGroup, false}};
  std::printf("%-52s %8s %8s %8s %8s %10s\n", "owner: 3 ms of work every 10 ms on one CPU", "p50 ms", "p99 ms", "p50 x", "p99 x", "borrowed");
  Figures alone;
  for (const Case& one : cases) {
    if (one.cgroups && !groups) continue;
    CpuController& controller = one.cgroups ? static_cast<CpuController&>(**groups) : affinity;
    const Outcome outcome = measure(controller, one.placing, shared, other, seconds);
    if (alone.p50 == 0) alone = outcome.owner;
    std::printf("%-52s %8.2f %8.2f %8.2f %8.2f %7.2f CPU\n", one.text, outcome.owner.p50, outcome.owner.p99, outcome.owner.p50 / alone.p50,
                outcome.owner.p99 / alone.p99, outcome.borrowerCpu);
  }
  return 0;
}

}  // namespace
}  // namespace coterie::linux

int main(int count, char** arguments) { return coterie::linux::run(count > 1 ? std::atof(arguments[1]) : 3.0); }
