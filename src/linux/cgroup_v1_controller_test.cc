// CPU control by cgroups v1 on this machine's kernel, as far as it may be tried here.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "linux/cgroup_tree.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/process_threads.h"
#include "testing/child_process.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

using testing::ChildProcess;

class CgroupV1ControllerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = linux::CgroupV1Controller::create();
    if (!made) GTEST_SKIP() << "no cgroups v1 here: " << made.error().message;
    controller_ = std::move(*made);
  }
  std::unique_ptr<linux::CgroupV1Controller> controller_;
};

TEST_F(CgroupV1ControllerTest, LeavesAreSiblingsAndLoansAreIdle) {
  const ChildProcess child(2);
  ASSERT_TRUE(controller_->add({InstanceId(7), child.pid(), {child.tids()[0]}, {child.tids()[1]}, {child.pid()}}).ok());
  EXPECT_EQ(linux::readText(controller_->cpuTree() + "/7.loans/cpu.idle").value_or(""), "1\n");
  EXPECT_EQ(linux::readText(controller_->cpuTree() + "/7.home/cpu.idle").value_or(""), "0\n");
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(7), CpuSet{0}, 0})), 0);
  const std::string lane = std::to_string(child.tids()[1]) + "\n";
  EXPECT_EQ(linux::readText(controller_->cpusetTree() + "/7/loans/tasks").value_or(""), lane);
  EXPECT_EQ(linux::readText(controller_->cpuTree() + "/7.loans/tasks").value_or(""), lane);
}

// The directories above the leaves follow the tree's set: in an order in which the kernel refuses none of the writes.
TEST_F(CgroupV1ControllerTest, TheSetAboveAllContainersIsThatAboveEachToo) {
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (machine.count() < 2) GTEST_SKIP() << "needs two CPUs";
  const CpuSet first{machine.first()}, second{machine.next(machine.first())};
  const ChildProcess child(1), other(1);
  const auto add = [&](int id, const ChildProcess& process) {
    return controller_->add({InstanceId(id), process.pid(), {process.tids()[0]}, {}, {process.pid()}}).ok();
  };
  const auto change = [&](CpuChangeKind kind, const CpuSet& cpus) {
    return linux::executeChange(*controller_->prepare({kind, InstanceId(7), cpus, 0}));
  };
  const auto above = [&](const std::string& id) { return linux::setOf(linux::readText(controller_->cpusetTree() + id + "/cpuset.cpus")); };
  ASSERT_TRUE(add(7, child));
  EXPECT_EQ(above("/7"), above(""));
  ASSERT_EQ(change(CpuChangeKind::HomeCpus, first), 0);
  for (const CpuSet& set : {first, first | second, first, first}) {
    ASSERT_EQ(change(CpuChangeKind::AncestorCpus, set), 0) << set.toString();
    EXPECT_EQ(above("/7"), set);
    EXPECT_EQ(above(""), set);
  }
  ASSERT_TRUE(add(8, other));
  EXPECT_EQ(above("/8"), first);
  EXPECT_NE(change(CpuChangeKind::AncestorCpus, second), 0) << "a container stands outside";
  EXPECT_EQ(change(CpuChangeKind::AncestorCpus, first | second), 0);
  ASSERT_EQ(change(CpuChangeKind::HomeCpus, second), 0);
  ASSERT_EQ(change(CpuChangeKind::AncestorCpus, second), 0) << "asked again, now that nothing stands outside";
  EXPECT_EQ(above("/8"), second);
  controller_->remove(InstanceId(8));
  EXPECT_FALSE(fs::exists(controller_->cpusetTree() + "/8"));
  ASSERT_EQ(change(CpuChangeKind::AncestorCpus, first | second), 0);
}

TEST_F(CgroupV1ControllerTest, AThreadsOwnNarrowMaskDoesNotBindInTheCpuset) {
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (machine.count() < 2) GTEST_SKIP() << "needs two CPUs";
  const ChildProcess child(1);
  const CpuSet first{machine.first()};
  static_cast<void>(linux::executeWrite({PreparedWrite::Kind::Affinity, child.tids()[0], linux::affinityMask(first), nullptr, nullptr}));
  ASSERT_TRUE(controller_->add({InstanceId(1), child.pid(), {child.tids()[0]}, {}, {child.pid()}}).ok());
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), machine, 0})), 0);
  EXPECT_EQ(linux::affinityOf(child.tids()[0]), machine);
}

TEST_F(CgroupV1ControllerTest, AThreadMovedAwayBySomebodyIsSeenAndPutBack) {
  const ChildProcess child(1);
  ASSERT_TRUE(controller_->add({InstanceId(1), child.pid(), {child.tids()[0]}, {}, {child.pid()}}).ok());
  const CpuChange wanted{CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{0}, 0};
  ASSERT_EQ(linux::executeChange(*controller_->prepare(wanted)), 0);
  ASSERT_EQ(linux::writeText(fs::path(controller_->cpusetTree()).parent_path().string() + "/tasks", std::to_string(child.tids()[0])), 0);
  EXPECT_FALSE(controller_->observe(InstanceId(1))->uniform);
  ASSERT_EQ(linux::executeChange(*controller_->prepare(wanted)), 0);
  EXPECT_TRUE(controller_->observe(InstanceId(1))->uniform);
}

// Looks that read no list: the thread's mask gives it away.
TEST_F(CgroupV1ControllerTest, AThreadMovedAwayIsSeenAtTheNextLookWhereNothingHadChangedForLong) {
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (machine.count() < 2) GTEST_SKIP() << "needs two CPUs";
  const ChildProcess child(2);
  ASSERT_TRUE(controller_->add({InstanceId(1), child.pid(), {child.tids()[0]}, {child.tids()[1]}, {child.pid()}}).ok());
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{machine.first()}, 0})), 0);
  for (const int tid : {child.tids()[0], child.tids()[1], child.pid()}) {
    for (int look = 0; look < 5; ++look) ASSERT_TRUE(controller_->observe(InstanceId(1))->uniform);
    ASSERT_EQ(linux::writeText(fs::path(controller_->cpusetTree()).parent_path().string() + "/tasks", std::to_string(tid)), 0);
    const auto seen = controller_->observe(InstanceId(1));
    EXPECT_TRUE(tid == child.pid() ? seen->home.empty() : !seen->uniform) << tid;
    ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{machine.first()}, 0})), 0);
  }
}

// Its mask does not: the lists do, which are read now and then all the same.
TEST_F(CgroupV1ControllerTest, AThreadMovedToTheSameCpusElsewhereIsSeenAfterAFewLooks) {
  const ChildProcess child(1);
  ASSERT_TRUE(controller_->add({InstanceId(1), child.pid(), {child.tids()[0]}, {}, {child.pid()}}).ok());
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{0}, 0})), 0);
  ASSERT_TRUE(controller_->observe(InstanceId(1))->uniform);
  const std::string other = fs::path(controller_->cpusetTree()).parent_path().string() + "/coterie-test-same-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(other.c_str(), 0755), 0);
  ASSERT_EQ(linux::writeText(other + "/cpuset.cpus", "0"), 0);
  ASSERT_EQ(linux::writeText(other + "/cpuset.mems", "0"), 0);
  ASSERT_EQ(linux::writeText(other + "/tasks", std::to_string(child.tids()[0])), 0);
  int looks = 1;
  while (looks < 20 && controller_->observe(InstanceId(1))->uniform) ++looks;
  EXPECT_LE(looks, 16);
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{0}, 0})), 0);
  EXPECT_TRUE(controller_->observe(InstanceId(1))->uniform);
  EXPECT_EQ(::rmdir(other.c_str()), 0);
}

TEST_F(CgroupV1ControllerTest, RestoreRemovesItsTrees) {
  const ChildProcess child(1);
  ASSERT_TRUE(controller_->add({InstanceId(1), child.pid(), {child.tids()[0]}, {}, {child.pid()}}).ok());
  ASSERT_EQ(linux::executeChange(*controller_->prepare({CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{0}, 0})), 0);
  ASSERT_TRUE(fs::exists(controller_->cpusetTree()));
  controller_->restore();
  EXPECT_FALSE(fs::exists(controller_->cpusetTree()));
  EXPECT_FALSE(fs::exists(controller_->cpuTree()));
  EXPECT_EQ(::kill(child.pid(), 0), 0) << "restoring ends nobody";
}

// Started by somebody who does not ask for exit statuses, as the first process of many containers does not. Plain folders will do.
TEST(CgroupTree, ThatOfAZombieIsRemoved) {
  int gate[2]{};
  ASSERT_EQ(::pipe(gate), 0);
  const int pid = ::fork();
  if (pid == 0) {
    char end = 0;
    ::close(gate[1]);
    ::_exit(static_cast<int>(::read(gate[0], &end, 1)));
  }
  ::close(gate[0]);
  const auto stat = linux::readStat("/proc/" + std::to_string(pid) + "/stat");
  ASSERT_TRUE(stat);
  std::string parent = (fs::temp_directory_path() / "coterie-trees-XXXXXX").string();
  ASSERT_NE(::mkdtemp(parent.data()), nullptr);
  const std::string tree = parent + "/coterie-" + std::to_string(pid) + "-" + std::to_string(stat->startTime);
  fs::create_directories(tree + "/1.home");
  linux::clearTreesOfDeadRuns({parent}, true);
  EXPECT_TRUE(fs::exists(tree + "/1.home")) << "it lives";
  ::close(gate[1]);
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT), 0);  // a zombie from here on
  ASSERT_EQ(::kill(pid, 0), 0);
  linux::clearTreesOfDeadRuns({parent}, true);
  EXPECT_FALSE(fs::exists(tree));
  ::waitpid(pid, nullptr, 0);
  fs::remove_all(parent);
}

TEST_F(CgroupV1ControllerTest, LeftoversOfADeadRunAreKilledAndRemovedALivingRunsAreNot) {
  // In a cgroup of this test's own: tests that run beside it clear leftovers too.
  const std::string parent = fs::path(controller_->cpusetTree()).parent_path().string() + "/coterie-test-" + std::to_string(::getpid());
  const std::string dead = parent + "/coterie-4194304-1";                               // beyond any pid
  const std::string reused = parent + "/coterie-" + std::to_string(::getpid()) + "-1";  // a living pid, started at another time
  for (const std::string& directory : {parent, dead, dead + "/1.home", reused, reused + "/1.home"}) {
    ASSERT_EQ(::mkdir(directory.c_str(), 0755), 0);
    ASSERT_EQ(linux::writeText(directory + "/cpuset.cpus", "0"), 0);
    ASSERT_EQ(linux::writeText(directory + "/cpuset.mems", "0"), 0);
  }
  linux::CgroupV1Options options;
  options.cpusetDirectory = parent;
  {
    const auto living = linux::CgroupV1Controller::create(options);
    ASSERT_TRUE(living) << living.error().message;
    EXPECT_FALSE(fs::exists(dead));
    ASSERT_EQ(::mkdir(dead.c_str(), 0755), 0);
    ASSERT_EQ(linux::writeText(dead + "/cpuset.cpus", "0"), 0);
    ASSERT_EQ(linux::writeText(dead + "/cpuset.mems", "0"), 0);
    ASSERT_EQ(::mkdir((dead + "/1.home").c_str(), 0755), 0);
    ASSERT_EQ(linux::writeText(dead + "/1.home/cpuset.cpus", "0"), 0);
    ASSERT_EQ(linux::writeText(dead + "/1.home/cpuset.mems", "0"), 0);
    const ChildProcess orphan(1);
    ASSERT_EQ(linux::writeText(dead + "/1.home/cgroup.procs", std::to_string(orphan.pid())), 0);
    const auto second = linux::CgroupV1Controller::create(options);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_FALSE(fs::exists(dead));
    EXPECT_FALSE(fs::exists(reused));
    EXPECT_TRUE(linux::processGone(orphan.pid()));
    EXPECT_TRUE(fs::exists((*living)->cpusetTree())) << "of a living run";
  }
  ::rmdir(parent.c_str());
}

}  // namespace
}  // namespace coterie
