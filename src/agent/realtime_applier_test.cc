#include "agent/realtime_applier.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>

#include "agent/drc_rig.h"
#include "base/unique_fd.h"
#include "linux/affinity_controller.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/live_machine.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<ApplyBatch> batchOf(std::vector<ApplyStep> steps) { return std::make_shared<ApplyBatch>(std::move(steps)); }

ApplyStep callStep(int (*call)(void*, const PreparedWrite&), void* context, std::vector<int> waits = {}) {
  ApplyStep step;
  step.change.writes.push_back({PreparedWrite::Kind::Call, -1, "", call, context});
  step.waitsFor = std::move(waits);
  return step;
}

int countCall(void* context, const PreparedWrite&) {
  static_cast<std::atomic<int>*>(context)->fetch_add(1);
  return 0;
}

// A write that hangs in the kernel: says when it is there, and stays until it is let go.
class Gate {
 public:
  // The applier's thread.
  static int hang(void* context, const PreparedWrite&) {
    const auto* gate = static_cast<Gate*>(context);
    std::uint64_t value = 1;
    if (::write(gate->reached_.get(), &value, sizeof value) != sizeof value) return 5;
    return ::read(gate->open_.get(), &value, sizeof value) == sizeof value ? 0 : 5;
  }
  [[nodiscard]] bool reached() const {
    pollfd waits{reached_.get(), POLLIN, 0};
    std::uint64_t value = 0;
    return ::poll(&waits, 1, 5000) == 1 && ::read(reached_.get(), &value, sizeof value) == sizeof value;
  }
  void open() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(open_.get(), &one, sizeof one), 8);
  }

 private:
  UniqueFd reached_{::eventfd(0, EFD_CLOEXEC)};
  UniqueFd open_{::eventfd(0, EFD_CLOEXEC)};
};

class RealtimeApplierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = RealtimeApplier::create(loop_, {linux::executeWrite, true, 3});
    ASSERT_TRUE(made);
    applier_ = std::move(*made);
    applier_->setProgress([this] { ++progress_; });
  }
  // Real threads: each thing that they say wakes the loop, and the condition is looked at again; false if nothing is said for 5 s.
  template <typename Condition>
  [[nodiscard]] bool eventually(Condition condition) {
    for (;;) {
      loop_.runUntilIdle();
      if (condition()) return true;
      if (!loop_.pollDescriptors(Millis{5000})) return condition();
    }
  }
  testing::ManualLoop loop_;
  std::unique_ptr<RealtimeApplier> applier_;
  int progress_{0};
};

TEST_F(RealtimeApplierTest, RunsBatchesAndSaysSo) {
  std::atomic<int> calls{0};
  std::vector<ApplyStep> steps;
  for (int i = 0; i < 100; ++i) steps.push_back(callStep(countCall, &calls, i > 0 ? std::vector<int>{i - 1} : std::vector<int>{}));
  const auto batch = batchOf(std::move(steps));
  applier_->submit(batch);
  EXPECT_TRUE(eventually([&] { return batch->allFinal(); }));
  EXPECT_EQ(calls.load(), 100);
  EXPECT_TRUE(eventually([&] { return batch.use_count() == 1; })) << "let go of, on the loop";
  EXPECT_GE(progress_, 1);
}

TEST_F(RealtimeApplierTest, ItsPolicyIsReadBackAndSaid) {
  const auto policy = applier_->policy();
  EXPECT_FALSE(applier_->policyText().empty());
  if (policy != RealtimeApplier::Policy::Fifo) GTEST_SKIP() << "no real-time scheduling here: " << applier_->policyText();
  bool found = false;
  for (const int tid : linux::threadsOf(::getpid())) {
    const int seen = ::sched_getscheduler(tid);
    found = found || seen == (SCHED_FIFO | SCHED_RESET_ON_FORK);
  }
  EXPECT_TRUE(found) << "with reset on fork: what it starts would be ordinary";
}

// 150 spinning threads kept the control loop, at nice -10, for 0.8 s from the 60 ms of work that placing 200 containers was.
TEST_F(RealtimeApplierTest, TheLoopThatHurriesDoesNotWaitBehindTheLoadItPlansFor) {
  if (applier_->policy() != RealtimeApplier::Policy::Fifo) GTEST_SKIP() << "no real-time scheduling here: " << applier_->policyText();
  const int found = ::sched_getscheduler(0);
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  for (int turn = 0; turn < 3; ++turn) {
    applier_->hurry(true);
    applier_->hurry(true);
    EXPECT_EQ(::sched_getscheduler(0), SCHED_FIFO | SCHED_RESET_ON_FORK) << "what it starts is ordinary";
    applier_->hurry(false);
    EXPECT_EQ(::sched_getscheduler(0), found);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
  }
  applier_->hurry(true);
  applier_.reset();
  EXPECT_EQ(::sched_getscheduler(0), found) << "its end gives the policy back";
}

TEST_F(RealtimeApplierTest, AHurryHasABudgetOfCpuTime) {
  if (applier_->policy() != RealtimeApplier::Policy::Fifo) GTEST_SKIP() << "no real-time scheduling here: " << applier_->policyText();
  const int found = ::sched_getscheduler(0);
  RealtimeApplierConfig config{linux::executeWrite};
  config.hurryMost = Millis(2);
  const auto made = RealtimeApplier::create(loop_, config);
  ASSERT_TRUE(made);
  ASSERT_EQ((*made)->policy(), RealtimeApplier::Policy::Fifo);
  (*made)->hurry(true);
  ASSERT_NE(::sched_getscheduler(0), found);
  const auto used = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return Seconds(time.tv_sec) + Nanos(time.tv_nsec);
  };
  for (const Nanos until = used() + config.hurryMost + Millis(1); used() < until;) {
  }
  (*made)->hurry(true);
  EXPECT_EQ(::sched_getscheduler(0), found);
  (*made)->hurry(false);
  (*made)->hurry(true);
  EXPECT_EQ(::sched_getscheduler(0), found) << "nor anew in the same second";
}

TEST_F(RealtimeApplierTest, AHelperGoesOnPastAStuckWrite) {
  Gate gate;
  std::atomic<int> calls{0};
  std::vector<ApplyStep> steps;
  steps.push_back(callStep(Gate::hang, &gate));
  steps.push_back(callStep(countCall, &calls, {0}));
  steps.push_back(callStep(countCall, &calls));
  const auto batch = batchOf(std::move(steps));
  applier_->submit(batch);
  ASSERT_TRUE(gate.reached());
  EXPECT_EQ(batch->state(0), ApplyState::Running);
  EXPECT_EQ(batch->state(2), ApplyState::Waiting);
  applier_->helpOut(batch);
  EXPECT_TRUE(eventually([&] { return batch->state(2) == ApplyState::Done; }));
  EXPECT_EQ(batch->state(1), ApplyState::Waiting);
  gate.open();
  EXPECT_TRUE(eventually([&] { return batch->allFinal(); }));
  EXPECT_EQ(batch->state(1), ApplyState::Done);
  EXPECT_EQ(calls.load(), 2);
}

TEST_F(RealtimeApplierTest, ItsEndLeavesAStuckThreadBehind) {
  static Gate gate;  // outlives the thread that is left behind
  // The thread's hold on the batch is the last: when it lets go, it is done with it.
  const auto last = std::make_shared<std::promise<ApplyState>>();
  std::vector<ApplyStep> steps;
  steps.push_back(callStep(Gate::hang, &gate));
  std::shared_ptr<ApplyBatch> batch(new ApplyBatch(std::move(steps)), [last](ApplyBatch* gone) {
    last->set_value(gone->state(0));
    delete gone;
  });
  applier_->submit(batch);
  ASSERT_TRUE(gate.reached());
  EXPECT_EQ(batch->state(0), ApplyState::Running);
  applier_.reset();  // returns
  batch.reset();
  gate.open();
  auto state = last->get_future();
  ASSERT_EQ(state.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(state.get(), ApplyState::Done);
}

// The whole agent on this machine's kernel: real processes, real applier, the loop stepped by hand.
class WholeAgent : public RealtimeApplierTest, public ::testing::WithParamInterface<const char*> {
 protected:
  struct Child {
    int pid{0};
    int tid{0};
  };
  void SetUp() override {
    RealtimeApplierTest::SetUp();
    machine_ = std::make_unique<linux::LiveMachine>();
    if (machine_->poll()->allowed.count() < 2) GTEST_SKIP() << "needs two CPUs";
    if (std::string(GetParam()) == "affinity") {
      controller_ = std::make_unique<linux::AffinityController>(machine_->poll()->allowed);
    } else {
      auto made = linux::CgroupV1Controller::create();
      if (!made) GTEST_SKIP() << made.error().message;
      controller_ = std::move(*made);
    }
    DrcConfig config;
    config.reserved = CpuSet{};
    config.burstQuiet = Nanos{0};  // the clock of these tests stands still
    drc_ = std::make_unique<Drc>(Drc::Ports{loop_, *controller_, *machine_, *applier_, journal_, lanes_, {}}, config);
    ASSERT_TRUE(drc_->start().ok());
  }
  void TearDown() override {
    if (drc_) drc_->shutDown();
    for (const int pid : children_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  int spawn() {
    const int pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    children_.push_back(pid);
    return pid;
  }
  int ready(int id) {
    GroupSpec spec;
    spec.id = GroupId(id);
    spec.tenant = TenantId(id);
    spec.service = {"ns", std::to_string(id)};
    drc_->setGroup(spec);
    InstanceReady said;
    said.pid = spawn();
    said.ownLaneThreads = {said.pid};
    drc_->instanceReady(GroupId(id), InstanceId(id), said);
    return said.pid;
  }
  std::unique_ptr<linux::LiveMachine> machine_;
  std::unique_ptr<CpuController> controller_;
  MemoryHomeJournal journal_;
  LaneLog lanes_;
  std::unique_ptr<Drc> drc_;
  std::vector<int> children_;
};

TEST_P(WholeAgent, SplitsThisMachineAndGivesItBack) {
  const CpuSet all = machine_->poll()->allowed;
  const int first = ready(1);
  ASSERT_TRUE(eventually([&] { return drc_->settled(); }));
  EXPECT_EQ(linux::affinityOf(first), all);
  const int second = ready(2);
  ASSERT_TRUE(eventually([&] { return drc_->settled(); }));
  const CpuSet one = linux::affinityOf(first).value_or(CpuSet{});
  const CpuSet two = linux::affinityOf(second).value_or(CpuSet{});
  EXPECT_FALSE(one.intersects(two)) << one.toString() << " " << two.toString();
  EXPECT_EQ(one | two, all);
  EXPECT_EQ(lanes_.lanes.at(InstanceId(1)).ownLanes, 1);
  ::kill(second, SIGKILL);
  ::waitpid(second, nullptr, 0);
  std::erase(children_, second);
  drc_->instanceEnded(InstanceId(2));
  ASSERT_TRUE(eventually([&] { return drc_->settled(); }));
  EXPECT_EQ(linux::affinityOf(first), all);
  drc_->shutDown();
  EXPECT_EQ(linux::affinityOf(first), all);
}

INSTANTIATE_TEST_SUITE_P(Real, WholeAgent, ::testing::Values("affinity", "cgroup_v1"), [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace coterie::agent
