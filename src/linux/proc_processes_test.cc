// The contract on the fake and on /proc with real processes, and what only /proc has.
#include "linux/proc_processes.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "linux/files.h"
#include "linux/process_handle.h"
#include "linux/process_threads.h"
#include "ports/process_source_contract.h"
#include "testing/fake_processes.h"
#include "testing/kernel_calls.h"
#include "testing/manual_loop.h"

namespace coterie::contract {
namespace {

// A child with threads that spend a millisecond of CPU time for each byte they are sent (by the first of them). Ends with the test.
class Worker {
 public:
  explicit Worker(int threads) {
    if (::pipe(orders_) != 0 || ::pipe(answers_) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) childMain(threads);
    ::close(orders_[0]);
    ::close(answers_[1]);
    await();
  }
  ~Worker() { end(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  [[nodiscard]] int pid() const { return pid_; }
  void work() {
    if (::write(orders_[1], "w", 1) != 1) std::abort();
    await();
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(orders_[1]);
    ::close(answers_[0]);
    pid_ = -1;
  }

 private:
  void await() {
    char answer = 0;
    if (::read(answers_[0], &answer, 1) != 1) std::abort();
  }
  [[noreturn]] void childMain(int threads) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(orders_[1]);
    for (int i = 1; i < threads; ++i)
      std::thread([] {
        for (;;) ::pause();
      }).detach();
    for (char order = 'r';;) {
      if (::write(answers_[1], &order, 1) != 1 || ::read(orders_[0], &order, 1) != 1) ::_exit(0);
      const std::clock_t until = std::clock() + CLOCKS_PER_SEC / 500;
      while (std::clock() < until) {
      }
    }
  }
  int orders_[2]{};
  int answers_[2]{};
  int pid_{-1};
};

ProcessSourceHarness makeProc() {
  struct Parts {
    testing::ManualClock clock;
    std::map<int, std::unique_ptr<Worker>> workers;
  };
  const auto parts = std::make_shared<Parts>();
  ProcessSourceHarness harness;
  harness.source = std::make_unique<linux::ProcProcesses>(parts->clock, [](std::string_view) { return false; });
  harness.begin = [parts](int threads) {
    auto worker = std::make_unique<Worker>(threads);
    const int pid = worker->pid();
    parts->workers[pid] = std::move(worker);
    return pid;
  };
  harness.work = [parts](int pid) { parts->workers.at(pid)->work(); };
  harness.end = [parts](int pid) { parts->workers.at(pid)->end(); };
  harness.keep = parts;
  return harness;
}

ProcessSourceHarness makeFake() {
  ProcessSourceHarness harness;
  auto fake = std::make_unique<testing::FakeProcesses>();
  harness.begin = [raw = fake.get()](int threads) { return raw->begin("server", threads); };
  harness.work = [raw = fake.get()](int pid) { raw->run(pid, Millis(1), Millis(0)); };
  harness.end = [raw = fake.get()](int pid) { raw->end(pid); };
  harness.source = std::move(fake);
  return harness;
}

INSTANTIATE_TEST_SUITE_P(All, ProcessSourceContract,
                         ::testing::Values(ProcessSourceFactory{"Fake", makeFake}, ProcessSourceFactory{"Proc", makeProc}), processSourceName);

TEST(ProcProcesses, TellingCgroup) {
  const auto docker = [](std::string_view path) { return path.starts_with("/docker/"); };
  struct Case {
    const char* name;
    const char* text;
    const char* path;
  };
  for (const Case& one : {Case{"v2", "0::/system.slice/a.service\n", "/system.slice/a.service"},
                          {"v1, all at the root", "5:cpuset:/\n0::/\n", "/"},
                          {"hybrid: v2's is the root", "5:cpuset:/a\n4:memory:/b\n0::/\n", "/a"},
                          {"v2's counts before v1's", "5:cpuset:/a\n0::/c\n", "/c"},
                          {"cpuset's counts before others", "9:memory:/m\n8:cpu,cpuacct:/c\n7:cpuset:/s\n0::/\n", "/s"},
                          {"cpu's counts before others", "9:memory:/m\n8:cpu,cpuacct:/c\n7:cpuset:/\n0::/\n", "/c"},
                          {"a container's counts before all", "5:cpuset:/docker/x\n4:memory:/b\n0::/c\n", "/docker/x"},
                          {"a named hierarchy", "1:name=systemd:/user.slice/x\n0::/\n", "/user.slice/x"},
                          {"a path with a colon", "0::/a.slice:cri-containerd:b\n", "/a.slice:cri-containerd:b"},
                          {"nothing", "", "/"},
                          {"no lines that the kernel writes", "x\ny:z\n", "/"}})
    EXPECT_EQ(linux::tellingCgroup(one.text, docker), one.path) << one.name;
}

// 30 scans of a machine where nothing happens: the list of /proc every tenth time, of each process its command and its cgroup once, its parent where
// nobody would tell that it has ended. Other processes may begin meanwhile, which costs more: one quiet try is enough.
// Processes and threads begun since the machine was, by whomever.
long long begunSoFar() {
  const std::string text = linux::readText("/proc/stat").value_or("");
  const std::size_t at = text.find("\nprocesses ");
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + at + 11);
}

TEST(ProcProcesses, AScanOfAMachineAtRestReadsNextToNothing) {
  constexpr int kScans = 30, kLists = kScans / 10;
  testing::ManualClock clock;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 20; ++i) workers.push_back(std::make_unique<Worker>(1));
  linux::ProcProcesses source(clock, [](std::string_view) { return false; });
  const auto scan = [&] { return (*source.scan())->size(); };
  const auto settle = [&] {
    for (const Instant later : {clock.now(), clock.now() + Seconds(6)}) {
      clock.set(later);
      for (int i = 0; i < 3; ++i) scan();
    }
  };
  settle();
  int opened = std::numeric_limits<int>::max(), listed = opened, all = opened, processes = 0;
  const auto few = [&] { return processes / 4 + 10; };
  const auto mostOpened = [&] { return 2 * processes + few(); };
  const auto mostListed = [&] { return kLists * (2 + processes / 500); };
  const auto mostOfAll = [&] { return 3 * (2 * processes + few()) + 2 * kScans + 6 * kLists; };  // open, read, close; two a scan
  bool atRest = false;
  for (int tries = 0; tries < 200 && (opened > mostOpened() || listed > mostListed() || all > mostOfAll()); ++tries) {
    const long long before = begunSoFar();
    auto calls = testing::kernelCalls(settle, [&] {
      for (int i = 0; i < kScans; ++i) scan();
    });
    if (!calls) GTEST_SKIP() << "no tracing here";
    constexpr int kByTheCount = 1;  // a process of its own
    atRest = atRest || begunSoFar() - before <= kByTheCount;
    processes = static_cast<int>(scan());
    opened = std::min(opened, (*calls)[SYS_openat]);
    listed = std::min(listed, (*calls)[SYS_getdents64]);
    const auto add = [](int sum, const auto& call) { return sum + call.second; };
    all = std::min(all, std::accumulate(calls->begin(), calls->end(), 0, add));
  }
  if (!atRest) GTEST_SKIP() << "the machine is not at rest: something was started in each of 200 tries";
  EXPECT_LE(opened, mostOpened());
  EXPECT_LE(listed, mostListed());
  EXPECT_LE(all, mostOfAll());
}

TEST(ProcProcesses, WhoLostItsParentIsSeenWithAnotherOne) {
  testing::ManualClock clock;
  linux::ProcProcesses source(clock, [](std::string_view) { return false; });
  int answer[2]{};
  ASSERT_EQ(::pipe(answer), 0);
  const int parent = ::fork();
  if (parent == 0) {
    const int child = ::fork();
    if (child > 0 && ::write(answer[1], &child, sizeof child) != sizeof child) ::_exit(1);
    for (;;) ::pause();
  }
  int child = 0;
  ASSERT_EQ(::read(answer[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  const auto parentNow = [&] {
    const auto all = source.scan();
    for (const SeenProcess& process : **all) {
      if (process.pid == child) return process.parent;
    }
    return -1;
  };
  EXPECT_EQ(parentNow(), parent);
  clock.set(clock.now() + Seconds(6));  // it is not read again by itself
  EXPECT_EQ(parentNow(), parent);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  const int other = parentNow();
  EXPECT_GT(other, 0);
  EXPECT_NE(other, parent);
  ::kill(child, SIGKILL);
  ::close(answer[0]);
  ::close(answer[1]);
}

// As after pthread_exit in main: the process is a zombie by its first thread's state, and works on.
TEST(ProcProcesses, WhoseFirstThreadEndedStaysAsLongAsItHasAnother) {
  testing::ManualClock clock;
  linux::ProcProcesses early(clock, [](std::string_view) { return false; });
  linux::ProcProcesses late(clock, [](std::string_view) { return false; });
  int gate[2]{};
  ASSERT_EQ(::pipe(gate), 0);
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::thread([] {
      for (;;) ::pause();
    }).detach();
    char go = 0;
    if (::read(gate[0], &go, 1) != 1) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, 0);  // the parent of a thread that has ended is told of nobody
    ::syscall(SYS_exit, 0);
  }
  const auto seenBy = [&](linux::ProcProcesses& source) -> std::optional<SeenProcess> {
    const auto all = source.scan();
    for (const SeenProcess& process : **all) {
      if (process.pid == pid) return process;
    }
    return std::nullopt;
  };
  const UniqueFd handle = linux::openProcess(pid);
  while (linux::threadsOf(pid).size() < 2) ::usleep(1000);
  const auto before = seenBy(early);
  ASSERT_TRUE(before);
  ASSERT_FALSE(before->command.empty());
  ASSERT_EQ(::write(gate[1], "g", 1), 1);
  const std::string file = "/proc/" + std::to_string(pid) + "/stat";
  const auto isZombie = [&] {
    const auto stat = linux::readStat(file);
    return stat && stat->state == 'Z';
  };
  for (int tries = 0; tries < 5000 && !isZombie(); ++tries) ::usleep(1000);
  ASSERT_TRUE(isZombie());
  EXPECT_FALSE(handle && linux::hasEnded(handle)) << "its handle does not tell of its first thread";
  EXPECT_FALSE(linux::processGone(pid));
  EXPECT_NE(linux::livingThreadOf(pid), pid);
  for (linux::ProcProcesses* source : {&early, &late}) {  // while it is young, and when only some scans read it again
    for (const Instant later : {clock.now(), clock.now() + Seconds(6)}) {
      clock.set(later);
      for (int scans = 0; scans < 35; ++scans) {
        const auto now = seenBy(*source);
        ASSERT_TRUE(now) << scans;
        ASSERT_EQ(now->command, before->command);
        ASSERT_EQ(now->cgroup, before->cgroup);
        ASSERT_EQ(now->started, before->started);
      }
    }
  }
  ::kill(pid, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(linux::processGone(pid)) << "a zombie with all its threads";
  EXPECT_FALSE(seenBy(early));
  EXPECT_FALSE(seenBy(late));
  ::waitpid(pid, nullptr, 0);
  ::close(gate[0]);
  ::close(gate[1]);
}

TEST(ProcProcesses, AProgramThatBecomesAnotherOneIsSeenAgain) {
  testing::ManualClock clock;
  linux::ProcProcesses source(clock, [](std::string_view) { return false; });
  int gate[2]{};
  ASSERT_EQ(::pipe(gate), 0);
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    char go = 0;
    if (::read(gate[0], &go, 1) != 1) ::_exit(1);
    ::execl("/bin/sleep", "/bin/sleep", "1234567", nullptr);
    ::_exit(1);
  }
  const auto commandNow = [&] {
    const auto all = source.scan();
    for (const SeenProcess& process : **all) {
      if (process.pid == pid) return process.command;
    }
    return std::string();
  };
  EXPECT_NE(commandNow(), "/bin/sleep 1234567");
  ASSERT_EQ(::write(gate[1], "g", 1), 1);
  std::string command;
  for (int tries = 0; tries < 100'000 && command != "/bin/sleep 1234567"; ++tries) command = commandNow();
  EXPECT_EQ(command, "/bin/sleep 1234567");
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(gate[0]);
  ::close(gate[1]);
}

}  // namespace
}  // namespace coterie::contract
