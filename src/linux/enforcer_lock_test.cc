// Who stands in whose way: by what /proc/locks says, and on real locks of real processes.
#include "linux/enforcer_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "linux/cgroup_paths.h"
#include "linux/files.h"
#include "testing/no_descriptors.h"

namespace coterie::linux {
namespace {

constexpr uid_t kOne = 64001, kOther = 64002;

TEST(EnforcerLockTest, HoldersAreReadFromTheKernelsList) {
  constexpr const char* kLocks =
      "1: POSIX  ADVISORY  READ 700 00:1c:1 128 128\n"
      "2: FLOCK  ADVISORY  READ 812 00:1c:1 0 EOF\n"
      "3: FLOCK  ADVISORY  READ 99 00:1c:1 0 EOF\n"
      "3: -> FLOCK  ADVISORY  WRITE 55 00:1c:1 0 EOF\n"
      "4: FLOCK  ADVISORY  WRITE 7 00:1c:11 0 EOF\n"
      "5: FLOCK  ADVISORY  WRITE 8 08:1c:1 0 EOF\n"
      "6: FLOCK  ADVISORY  READ 812 00:1c:1 0 EOF\n"
      "7: FLOCK  ADVISORY  READ -1 00:1c:1 0 EOF\n"
      "8: OFDLCK ADVISORY  READ -1 00:1c:1 0 EOF\nnonsense\n9: FLOCK\n\n";
  EXPECT_EQ(lockHolders(kLocks, makedev(0, 0x1c), 1), (std::vector<int>{99, 812, 812}));
  EXPECT_EQ(lockHolders(kLocks, makedev(8, 0x1c), 1), (std::vector<int>{8}));
  EXPECT_TRUE(lockHolders(kLocks, makedev(0, 0x1c), 2).empty());
  EXPECT_TRUE(lockHolders("", makedev(0, 0x1c), 1).empty());
}

TEST(EnforcerLockTest, RootReachesEverybodyAndOrdinaryUsersTheirOwn) {
  EXPECT_TRUE(usersCollide(0, 0));
  EXPECT_TRUE(usersCollide(0, kOne));
  EXPECT_TRUE(usersCollide(kOne, 0));
  EXPECT_TRUE(usersCollide(kOne, kOne));
  EXPECT_FALSE(usersCollide(kOne, kOther));
}

TEST(EnforcerLockTest, TheDirectoryIsTheRootOfTheHierarchyWithCpusets) {
  const std::string v1 = "30 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n31 1 0:3 / /sys/fs/cgroup/cpuset rw - cgroup none rw,cpuset\n";
  const std::string v2 = "32 1 0:4 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n";
  EXPECT_EQ(cpusetRoot(v2 + v1), "/sys/fs/cgroup/cpuset");
  EXPECT_EQ(cpusetRoot(v2), "/sys/fs/cgroup/unified");
  EXPECT_EQ(cpusetRoot("32 1 0:4 /docker/abc /sys/fs/cgroup rw - cgroup2 none rw\n33 1 0:4 / /host/cgroup rw - cgroup2 none rw\n"), "/host/cgroup");
  EXPECT_EQ(cpusetRoot("30 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n"), "");
  EXPECT_EQ(cpusetRoot(""), "");
}

TEST(EnforcerLockTest, WhoEnforcesIsToldFromWhoLooksOn) {
  std::string name = ::testing::TempDir() + "coterie_enforcers_XXXXXX";
  const std::string directory = ::mkdtemp(name.data());
  EXPECT_EQ(enforcers(directory), std::vector<int>{});
  {
    auto claim = lockEnforcing(directory);
    ASSERT_TRUE(claim);
    EXPECT_EQ(enforcers(directory), std::vector<int>{::getpid()});
  }
  const UniqueFd looksOn = openFor(directory, O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(looksOn.get(), LOCK_SH), 0);
  EXPECT_EQ(enforcers(directory), std::vector<int>{});
  EXPECT_EQ(enforcers(directory + "/nowhere"), std::nullopt);
  std::filesystem::remove_all(directory);
}

// Lets processes through when that many stand before it: they do not sleep there, so that they go on at the same moment.
class Gate {
 public:
  explicit Gate(int processes) : processes_(processes) {
    void* memory = ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    there_ = new (memory) std::atomic<int>(0);
  }
  ~Gate() { ::munmap(there_, sizeof *there_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void pass() const {
    there_->fetch_add(1);
    while (there_->load() < processes_) ::sched_yield();
  }

 private:
  int processes_;
  std::atomic<int>* there_;
};

Instant now() {
  struct timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return Instant(Seconds(time.tv_sec) + Nanos(time.tv_nsec));
}

// As an event loop makes the steps that has other things to do: each so much later than is asked for.
Result<EnforcerClaim> lockStepwise(const std::string& directory, Millis late) {
  EnforcerClaim claim(directory);
  for (;;) {
    const auto again = claim.look(now());
    if (!again) return again.error();
    if (!*again) return Result<EnforcerClaim>(std::move(claim));
    ::poll(nullptr, 0, static_cast<int>((**again + late).count()));
  }
}

// A process that does this under that user and then waits to be killed; what it answered. With a gate: from there on. late: lockStepwise.
class Agent {
 public:
  Agent(const std::string& directory, uid_t user, const Gate* gate = nullptr, std::optional<Millis> late = std::nullopt) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (gate != nullptr) gate->pass();
      const bool may = user == ::geteuid() || ::setuid(user) == 0;
      const auto lock = !may   ? Result<EnforcerClaim>(Error{Code::Internal, "NoUser", "setuid"})
                        : late ? lockStepwise(directory, *late)
                               : lockEnforcing(directory);
      const std::string said = lock.ok() ? std::string("locked") : lock.error().message;
      if (::write(ends[1], said.c_str(), said.size() + 1) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    answer_ = UniqueFd(ends[0]);
    if (gate == nullptr) hear();
  }
  ~Agent() { end(); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void hear() {
    char text[600] = {};
    if (::read(answer_.get(), text, sizeof text - 1) > 0) said_ = text;
  }
  [[nodiscard]] bool locked() const { return said_ == "locked"; }
  [[nodiscard]] const std::string& said() const { return said_; }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_{-1};
  UniqueFd answer_;
  std::string said_;
};

class EnforcerLockOfProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
    const UniqueFd probe = openFor(folder_, O_RDONLY | O_DIRECTORY);
    struct stat status{};
    ASSERT_EQ(::fstat(probe.get(), &status), 0);
    ASSERT_EQ(::flock(probe.get(), LOCK_SH), 0);
    if (lockHolders(readText("/proc/locks").value_or(""), status.st_dev, status.st_ino) != std::vector<int>{::getpid()})
      GTEST_SKIP() << "/proc/locks does not show a lock on " << folder_;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = (std::filesystem::temp_directory_path() / "coterie-lock-XXXXXX").string();
};

TEST_F(EnforcerLockOfProcesses, ASecondAgentIsToldWhoTheFirstIs) {
  Agent first(folder_, ::geteuid());
  ASSERT_TRUE(first.locked()) << first.said();
  const Agent second(folder_, ::geteuid());
  EXPECT_FALSE(second.locked());
  EXPECT_NE(second.said().find("process " + std::to_string(first.pid()) + " of user"), std::string::npos) << second.said();
  EXPECT_NE(second.said().find("--mode observe"), std::string::npos) << second.said();
}

TEST_F(EnforcerLockOfProcesses, TheLockEndsWithTheProcessHoweverThatEnds) {
  Agent first(folder_, ::geteuid());
  ASSERT_TRUE(first.locked());
  first.end();
  EXPECT_TRUE(Agent(folder_, ::geteuid()).locked());
}

TEST_F(EnforcerLockOfProcesses, OrdinaryUsersDoNotKeepEachOtherFromIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming other users needs root";
  const Agent one(folder_, kOne);
  ASSERT_TRUE(one.locked()) << one.said();
  EXPECT_TRUE(Agent(folder_, kOther).locked());
  EXPECT_FALSE(Agent(folder_, kOne).locked());
  const Agent root(folder_, 0);
  EXPECT_FALSE(root.locked()) << "it would set that user's processes, too";
  EXPECT_NE(root.said().find("of user " + std::to_string(kOne)), std::string::npos) << root.said();
}

// Somebody locks the directory alone, to be in the way.
TEST_F(EnforcerLockOfProcesses, AnotherUsersExclusiveLockIsInNobodysWay) {
  if (::geteuid() != 0) GTEST_SKIP() << "becoming other users needs root";
  const UniqueFd mine = openFor(folder_, O_RDONLY | O_DIRECTORY);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const UniqueFd lock = openFor(folder_, O_RDONLY | O_DIRECTORY);
    const char held = ::setuid(kOther) == 0 && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0 ? 'y' : 'n';
    if (::write(ends[1], &held, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char held = 0;
  EXPECT_EQ(::read(ends[0], &held, 1), 1);
  EXPECT_EQ(held, 'y');
  EXPECT_TRUE(Agent(folder_, kOne).locked());
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

// Each race in a directory of its own; its loser still waits while the next begin. Some have sleeping starts only; in some others one that runs
// already and whose configuration says so now makes its steps on its loop, in time or late, and is older or younger than who starts.
TEST_F(EnforcerLockOfProcesses, OfAgentsThatStartTogetherExactlyOneWins) {
  constexpr std::size_t kRaces = 60;
  std::vector<std::vector<std::unique_ptr<Agent>>> races(kRaces);
  for (std::size_t race = 0; race < kRaces; ++race) {
    const std::string directory = folder_ + "/" + std::to_string(race);
    std::filesystem::create_directories(directory);
    const std::size_t agents = race % 4 == 3 ? 3 : 2;
    const Gate gate(static_cast<int>(agents));
    const std::optional<Millis> late[] = {std::nullopt, Millis(0), Millis(3), Millis(7)};
    while (races[race].size() < agents) {
      const bool steps = races[race].size() == race % 2;
      races[race].push_back(std::make_unique<Agent>(directory, ::geteuid(), &gate, steps ? late[race / 4 % 4] : std::nullopt));
    }
  }
  for (std::size_t race = 0; race < kRaces; ++race) {
    int winners = 0;
    for (const auto& agent : races[race]) {
      agent->hear();
      winners += agent->locked() ? 1 : 0;
    }
    EXPECT_EQ(winners, 1) << "race " << race << " of " << races[race].size();
  }
}

// An agent that observed and whose configuration now says to enforce.
TEST_F(EnforcerLockOfProcesses, WhoEnforcesStaysBeforeAnOlderProcess) {
  const Gate gate(2);
  Agent older(folder_, ::geteuid(), &gate);
  Agent first(folder_, ::geteuid());
  ASSERT_TRUE(first.locked()) << first.said();
  gate.pass();
  older.hear();
  EXPECT_NE(older.said().find("process " + std::to_string(first.pid()) + " of user"), std::string::npos) << older.said();
  EXPECT_FALSE(Agent(folder_, ::geteuid()).locked()) << "the one that was refused has changed nothing";
  first.end();
  EXPECT_TRUE(Agent(folder_, ::geteuid()).locked()) << "the one that was refused holds nothing";
}

// ---- The steps ----
// A process of this program that holds it so many times: once as who would enforce, three times as who does.
class Holder {
 public:
  Holder(const std::string& directory, int times) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int i = 0; i < times; ++i) static_cast<void>(::flock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY), LOCK_SH));
      if (::write(ends[1], "y", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char held = 0;
    EXPECT_EQ(::read(ends[0], &held, 1), 1);
    ::close(ends[0]);
  }
  ~Holder() { end(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  int pid_{-1};
};

// How often this process holds it.
long heldBySelf(const std::string& directory) {
  struct stat status{};
  if (::stat(directory.c_str(), &status) != 0) return -1;
  const std::vector<int> holders = lockHolders(readText("/proc/locks").value_or(""), status.st_dev, status.st_ino);
  return std::count(holders.begin(), holders.end(), ::getpid());
}

constexpr Instant kStart{Seconds(1000)};

TEST_F(EnforcerLockOfProcesses, WhereNobodyElseIsOneStepIsEnough) {
  {
    EnforcerClaim claim(folder_);
    for (int look = 0; look < 2; ++look) {
      const auto later = claim.look(kStart);
      ASSERT_TRUE(later.ok());
      EXPECT_FALSE(later->has_value());
      EXPECT_EQ(heldBySelf(folder_), 3);
    }
    EXPECT_FALSE(Agent(folder_, ::geteuid()).locked());
  }
  EXPECT_EQ(heldBySelf(folder_), 0) << "given up with the claim";
}

TEST_F(EnforcerLockOfProcesses, BesideOneThatEnforcesTheFirstStepRefuses) {
  const Holder other(folder_, 3);
  EnforcerClaim claim(folder_);
  for (int look = 0; look < 2; ++look) {
    const auto refused = claim.look(kStart);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().reason, "AgentRunning");
    EXPECT_EQ(heldBySelf(folder_), 0);
  }
}

// The time is the caller's: nothing is waited for here.
// Two agents that both took the other for one that enforces refused each other: the kernel had shown each of them twice.
TEST_F(EnforcerLockOfProcesses, ALockThatIsShownTwiceIsNotTakenForOneThatEnforces) {
  const Holder other(folder_, 2);
  EnforcerClaim claim(folder_);
  const auto later = claim.look(kStart);
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_TRUE(later->has_value());
}

TEST_F(EnforcerLockOfProcesses, WhoCanOpenNoFileDoesNotTakeTheMachineForItsOwn) {
  for (const std::string& directory : {folder_, std::string()}) {  // the machine's own
    const testing::NoDescriptors none;
    EnforcerClaim claim(directory);
    const auto blind = claim.look(kStart);
    ASSERT_FALSE(blind.ok());
    EXPECT_EQ(blind.error().reason, "LocksUnreadable");
  }
  const Holder other(folder_, 3);
  EnforcerClaim claim(folder_);
  {
    const testing::NoDescriptors none;
    EXPECT_FALSE(claim.look(kStart).ok());
  }
  EXPECT_EQ(heldBySelf(folder_), 0);
  const auto refused = claim.look(kStart);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, "AgentRunning");
}

TEST_F(EnforcerLockOfProcesses, BesideOneThatIsAboutToItIsLookedAtAgainUntilPatienceEnds) {
  Holder other(folder_, 1);
  EnforcerClaim claim(folder_);
  const bool older = ::getpid() < other.pid();  // unless the numbers began anew in between
  for (int time = 0; time < 2; ++time) {        // after a refusal it begins anew
    const Instant start = kStart + time * Seconds(10);
    for (const Millis passed : {Millis(0), Millis(4), kEnforcerPatience - Millis(1)}) {
      const auto later = claim.look(start + passed);
      ASSERT_TRUE(later.ok()) << later.error().message;
      ASSERT_TRUE(later->has_value());
      EXPECT_GE(**later, older ? Millis(1) : Millis(20)) << "who let go is away for several looks of the other";
      EXPECT_LT(**later, Millis(50));
      EXPECT_EQ(heldBySelf(folder_), older ? 1 : 0) << "the lowest pid keeps its lock";
    }
    const auto refused = claim.look(start + kEnforcerPatience);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("process " + std::to_string(other.pid()) + " of user"), std::string::npos) << refused.error().message;
    EXPECT_EQ(heldBySelf(folder_), 0);
  }
  other.end();
  const auto alone = claim.look(kStart + Seconds(30));
  ASSERT_TRUE(alone.ok());
  EXPECT_FALSE(alone->has_value());
}

// Who is of a higher pid lets go until its next look, so that the lower one finds itself alone.
TEST_F(EnforcerLockOfProcesses, TheYoungerLetsGoAndWaitsLongerThanTheOlderLooks) {
  const UniqueFd mine = openFor(folder_, O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(mine.get(), LOCK_SH), 0);  // this process is about to
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const int older = ::getpid();
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    EnforcerClaim claim(folder_);
    const auto later = claim.look(kStart);
    const int said[2] = {later.ok() && *later ? static_cast<int>((*later)->count()) : -1, static_cast<int>(heldBySelf(folder_))};
    ::_exit(::write(ends[1], said, sizeof said) == sizeof said ? 0 : 1);
  }
  ::close(ends[1]);
  int said[2] = {0, 0};
  EXPECT_EQ(::read(ends[0], said, sizeof said), static_cast<ssize_t>(sizeof said));
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  if (pid < older) GTEST_SKIP() << "process numbers began anew";
  EXPECT_GE(said[0], 20);
  EXPECT_EQ(said[1], 0);
}

// Another program that holds it as one that enforces does, under that name; its pid.
int holderNamed(const std::string& program, const std::string& directory, uid_t user) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const int pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool may = user == ::geteuid() || ::setuid(user) == 0;
    for (int i = 0; i < 3; ++i)  // kept through exec
      may = may && ::flock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY), LOCK_SH | LOCK_NB) == 0;
    if (may) ::execl(program.c_str(), program.c_str(), "600", nullptr);
    const char failed = 'n';
    ::_exit(::write(ends[1], &failed, 1) == 1 ? 1 : 2);
  }
  ::close(ends[1]);
  char failed = 0;
  EXPECT_EQ(::read(ends[0], &failed, 1), 0) << program;  // the end: it has become that program
  ::close(ends[0]);
  return pid;
}

TEST_F(EnforcerLockOfProcesses, OnlyAgentsCountNotWhoeverLocksTheDirectory) {
  const std::string named = folder_ + "/coterie";
  std::filesystem::create_symlink("/bin/sleep", named);
  std::vector<uid_t> users{::geteuid()};
  if (::geteuid() == 0) users.push_back(kOther);
  for (const uid_t user : users) {
    for (const std::string& program : {std::string("/bin/sleep"), named}) {
      const int holder = holderNamed(program, folder_, user);
      const Agent agent(folder_, ::geteuid());
      EXPECT_EQ(agent.locked(), program != named) << program << " of user " << user << ": " << agent.said();
      ::kill(holder, SIGKILL);
      ::waitpid(holder, nullptr, 0);
    }
  }
}

TEST_F(EnforcerLockOfProcesses, WhereThereIsNothingToLockNobodyIsRefused) { EXPECT_TRUE(Agent(folder_ + "/nothing", ::geteuid()).locked()); }

}  // namespace
}  // namespace coterie::linux
