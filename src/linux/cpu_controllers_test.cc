// The contract on the fake (both kernels' rules) and on the real adapters with real processes, and what only one of them has to do.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <map>

#include "linux/affinity_controller.h"
#include "linux/cgroup_paths.h"
#include "linux/cgroup_tree.h"
#include "linux/cgroup_v1_controller.h"
#include "linux/cgroup_v2_controller.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/foreign_controller.h"
#include "linux/foreign_journal.h"
#include "linux/process_threads.h"
#include "ports/cpu_controller_contract.h"
#include "testing/child_process.h"
#include "testing/fake_cpu_controller.h"
#include "testing/kernel_calls.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

using testing::ChildProcess;

using Children = std::map<int, std::unique_ptr<ChildProcess>>;

CpuControllerHarness withRealProcesses(CpuControllerHarness harness) {
  const auto children = std::make_shared<Children>();
  harness.spawn = [children](InstanceId id, int own, int loans) {
    auto child = std::make_unique<ChildProcess>(own + loans);
    ContainerRegistration container{id, child->pid(), {}, {}, {child->pid()}};
    for (int i = 0; i < own + loans; ++i)
      (i < own ? container.ownLaneThreads : container.loanLaneThreads).push_back(child->tids()[static_cast<std::size_t>(i)]);
    (*children)[child->pid()] = std::move(child);
    return container;
  };
  harness.endProcess = [children](int pid) { children->at(pid)->end(); };
  harness.addThread = [children](int pid) { children->at(pid)->addThread(); };
  harness.execute = linux::executeChange;
  harness.whereMayRun = [](int tid) { return linux::affinityOf(tid).value_or(CpuSet{}); };
  harness.keep = children;
  return harness;
}

CpuControllerHarness makeFake(testing::KernelRules rules) {
  CpuControllerHarness harness;
  harness.machine = CpuSet{0, 1, 2, 3};
  auto fake = std::make_unique<testing::FakeCpuController>(harness.machine, rules);
  harness.spawn = [raw = fake.get()](InstanceId id, int own, int loans) { return raw->spawn(id, own, loans); };
  harness.endProcess = [raw = fake.get()](int pid) { raw->endProcess(pid); };
  harness.execute = linux::executeChange;
  harness.controller = std::move(fake);
  return harness;
}

CpuControllerHarness makeAffinity() {
  CpuControllerHarness harness;
  harness.machine = linux::affinityOf(0).value_or(CpuSet{0});
  harness.controller = std::make_unique<linux::AffinityController>(harness.machine);
  return withRealProcesses(std::move(harness));
}

// Cgroups with a cpuset of their own, as a runtime would make them for its containers.
class RuntimeCgroups {
 public:
  // Why not, or nothing.
  std::string open() {
    const linux::CgroupDirectories own = linux::ownCgroupDirectories();
    const auto v1 = own.v1.find("cpuset");
    v2_ = v1 == own.v1.end();
    if (v2_ && !own.v2) return "no cgroups here";
    parent_ = v2_ ? *own.v2 : v1->second;
    if (v2_ && std::getenv("COTERIE_IN_GUEST") != nullptr)  // elsewhere the machine is somebody's
      static_cast<void>(linux::writeText(parent_ + "/cgroup.subtree_control", "+cpuset"));
    const std::string probe = make(0);
    if (probe.empty() || !fs::exists(probe + "/cpuset.cpus")) return "no cgroup with a cpuset can be made below " + parent_;
    return {};
  }
  ~RuntimeCgroups() {
    for (const std::string& directory : made_) ::rmdir(directory.c_str());
  }
  // The directory of a container; a process may be put there.
  std::string make(int number) {
    std::string directory = parent_ + "/docker-" + idOf(number) + ".scope";
    if (::mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return {};
    made_.push_back(directory);
    if (v2_) return directory;
    for (const char* file : {"/cpuset.cpus", "/cpuset.mems"})
      static_cast<void>(linux::writeText(directory + file, linux::readText(parent_ + file).value_or("")));
    return directory;
  }
  [[nodiscard]] static std::string nameOf(int number) { return "/docker-" + idOf(number) + ".scope"; }

 private:
  static std::string idOf(int number) {
    std::string digits = std::to_string(::getpid()) + "00" + std::to_string(number);
    return std::string(64 - digits.size(), 'a') + digits;
  }
  bool v2_{false};
  std::string parent_;
  std::vector<std::string> made_;
};

enum class OwnCgroup : std::uint8_t { None, Made };

CpuControllerHarness makeForeign(OwnCgroup cgroup) {
  struct Parts {
    RuntimeCgroups cgroups;  // removed when nobody is there any more
    std::map<InstanceId, linux::ForeignPlace> places;
    ~Parts() {
      for (const auto& [id, place] : places) {
        for (const int pid : place.processes) {
          ::kill(pid, SIGKILL);
          ::waitpid(pid, nullptr, 0);
        }
      }
    }
  };
  const auto parts = std::make_shared<Parts>();
  CpuControllerHarness harness;
  harness.machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (cgroup == OwnCgroup::Made) harness.whyNot = parts->cgroups.open();
  if (!harness.whyNot.empty()) return harness;
  harness.controller =
      std::make_unique<linux::ForeignController>(harness.machine, [parts = parts.get()](InstanceId id) { return parts->places[id]; }, "");
  harness = withRealProcesses(std::move(harness));
  harness.spawn = [parts = parts.get(), cgroup, inner = harness.spawn](InstanceId id, int own, int loans) {
    ContainerRegistration container = inner(id, own, loans);
    parts->places[id].processes = {container.pid};
    if (cgroup == OwnCgroup::None) return container;
    const std::string directory = parts->cgroups.make(id.value);
    EXPECT_EQ(linux::writeText(directory + "/cgroup.procs", std::to_string(container.pid)), 0) << directory;
    parts->places[id].cgroup = RuntimeCgroups::nameOf(id.value);
    return container;
  };
  harness.keep = parts;
  return harness;
}

CpuControllerHarness makeCgroupV1() {
  CpuControllerHarness harness;
  harness.machine = linux::affinityOf(0).value_or(CpuSet{0});
  auto made = linux::CgroupV1Controller::create();
  if (!made) {
    harness.whyNot = "no cgroups v1 here: " + made.error().message;
    return harness;
  }
  harness.controller = std::move(*made);
  return withRealProcesses(std::move(harness));
}

CpuControllerHarness makeCgroupV2() {
  CpuControllerHarness harness;
  harness.machine = linux::affinityOf(0).value_or(CpuSet{0});
  auto made = linux::CgroupV2Controller::create();
  if (!made) {
    harness.whyNot = "no cgroups v2 here: " + made.error().message;
    return harness;
  }
  harness.controller = std::move(*made);
  return withRealProcesses(std::move(harness));
}

INSTANTIATE_TEST_SUITE_P(All, CpuControllerContract,
                         ::testing::Values(CpuControllerHarnessFactory{"FakeV1", [] { return makeFake(testing::KernelRules::CgroupV1); }},
                                           CpuControllerHarnessFactory{"FakeV2", [] { return makeFake(testing::KernelRules::CgroupV2); }},
                                           CpuControllerHarnessFactory{"Affinity", makeAffinity},
                                           CpuControllerHarnessFactory{"Foreign", [] { return makeForeign(OwnCgroup::None); }},
                                           CpuControllerHarnessFactory{"ForeignInItsCgroup", [] { return makeForeign(OwnCgroup::Made); }},
                                           CpuControllerHarnessFactory{"CgroupV1", makeCgroupV1},
                                           CpuControllerHarnessFactory{"CgroupV2", makeCgroupV2}),
                         [](const auto& tested) { return tested.param.name; });

TEST(AffinityControllerTest, SaysWhatItDoesNotEnforce) {
  const linux::AffinityController controller(CpuSet{0});
  ASSERT_FALSE(controller.traits().caveats.empty());
  const std::string& said = controller.traits().caveats.front();
  for (const char* word : {"memory nodes", "weights", "hostile"}) EXPECT_NE(said.find(word), std::string::npos) << word;
  EXPECT_FALSE(controller.traits().holdsHostileWorkers);
}

TEST(AffinityControllerTest, LoanLanesGetTheIdleClass) {
  linux::AffinityController controller(CpuSet{0});
  const ChildProcess child(2);
  ASSERT_TRUE(controller.add({InstanceId(1), child.pid(), {child.tids()[0]}, {child.tids()[1]}, {child.pid()}}).ok());
  EXPECT_EQ(::sched_getscheduler(child.tids()[0]), SCHED_OTHER);
  EXPECT_EQ(::sched_getscheduler(child.tids()[1]), SCHED_IDLE);
}

// sglang#20437: a library inside the container set its threads' mask anew, and the agent went on believing what it had written. What counts is what
// the kernel says of the threads: under the peer's rule, which asks its own record, nothing is seen.
TEST(AffinityControllerStories, ALibraryThatSetsAThreadsMaskIsSeenByWhatIsEffective) {
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (machine.count() < 2) GTEST_SKIP() << "needs two CPUs";
  linux::AffinityController controller(machine);
  const ChildProcess child(2);
  ASSERT_TRUE(controller.add({InstanceId(1), child.pid(), {child.tids()[0], child.tids()[1]}, {}, {child.pid()}}).ok());
  const CpuChange wanted{CpuChangeKind::HomeCpus, InstanceId(1), CpuSet{machine.first()}, 0};
  ASSERT_EQ(linux::executeChange(*controller.prepare(wanted)), 0);
  const auto inForce = [&] {
    const auto seen = controller.observe(InstanceId(1));
    return seen.ok() && seen->uniform && seen->effective == wanted.set;
  };
  EXPECT_TRUE(inForce());
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int cpu : machine) CPU_SET(cpu, &all);
  ASSERT_EQ(::sched_setaffinity(child.tids()[1], sizeof all, &all), 0);
  EXPECT_EQ(wanted.set, CpuSet{machine.first()}) << "the record says what it said";
  EXPECT_FALSE(inForce());
  ASSERT_EQ(linux::executeChange(*controller.prepare(wanted)), 0);
  EXPECT_TRUE(inForce());
}

// In a child, whose threads may be changed: raised where allowed, and whoever it starts is ordinary again.
TEST(OwnThreads, AreRaisedAndTheirChildrenAreNot) {
  const int pid = ::fork();
  if (pid == 0) {
    const bool raised = linux::placeOwnThreads({}).ok();
    const int own = ::getpriority(PRIO_PROCESS, 0);
    const int child = ::fork();
    if (child == 0) ::_exit(::getpriority(PRIO_PROCESS, 0) == 0 ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    const bool ordinary = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ::_exit(raised ? (own <= -10 && ordinary ? 0 : 1) : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "raising the priority needs CAP_SYS_NICE";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// ---- What is not ours is given back as it was found ----
class ForeignControllerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (machine_.count() < 2) GTEST_SKIP() << "needs two CPUs";
    first_ = CpuSet{machine_.first()};
    second_ = CpuSet{machine_.next(machine_.first())};
  }
  void TearDown() override { ::unlink(journal_.c_str()); }
  std::unique_ptr<linux::ForeignController> controller(const std::vector<int>& processes) {
    return std::make_unique<linux::ForeignController>(machine_, [processes](InstanceId) { return linux::ForeignPlace{processes, ""}; }, journal_);
  }
  static void pin(int tid, const CpuSet& cpus) { static_cast<void>(linux::executeWrite(linux::affinityWrite(tid, cpus))); }
  static void setHome(linux::ForeignController& controller, const CpuSet& cpus) {
    const auto prepared = controller.prepare({CpuChangeKind::HomeCpus, InstanceId(1), cpus, 0});
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    ASSERT_EQ(linux::executeChange(*prepared), 0);
  }
  CpuSet machine_{linux::affinityOf(0).value_or(CpuSet{0})};
  CpuSet first_, second_;
  std::string journal_{::testing::TempDir() + "coterie_foreign_" + std::to_string(::getpid())};
};

TEST_F(ForeignControllerTest, EveryThreadGetsBackItsOwnMaskAndNewOnesTheFirstOnes) {
  ChildProcess child(2);
  pin(child.tids()[1], second_);  // a server that pins one of its threads
  const auto made = controller({child.pid()});
  ASSERT_TRUE(made->add({InstanceId(1), child.pid(), {}, {}, {}}).ok());
  setHome(*made, first_);
  for (const int tid : child.tids()) EXPECT_EQ(linux::affinityOf(tid), first_);
  const int born = child.addThread();
  EXPECT_EQ(linux::affinityOf(born), first_) << "inherited";
  made->restore();
  EXPECT_EQ(linux::affinityOf(child.tids()[0]), machine_);
  EXPECT_EQ(linux::affinityOf(child.tids()[1]), second_);
  EXPECT_EQ(linux::affinityOf(born), machine_);
  EXPECT_FALSE(fs::exists(journal_));
}

// With nobody new to note: a kill before the next one would have left it as it is for good.
TEST_F(ForeignControllerTest, ANoteThatSomebodyRemovedIsWrittenAgain) {
  ChildProcess child(1);
  const auto made = controller({child.pid()});
  ASSERT_TRUE(made->add({InstanceId(1), child.pid(), {}, {}, {}}).ok());
  setHome(*made, first_);
  fs::remove(journal_);
  made->sweep();
  EXPECT_TRUE(fs::exists(journal_));
  made->restore();
  EXPECT_FALSE(fs::exists(journal_));
  made->sweep();
  EXPECT_FALSE(fs::exists(journal_)) << "there is nothing to give back";
}

TEST_F(ForeignControllerTest, AContainerIsAllItsProcesses) {
  ChildProcess one(1);
  ChildProcess two(1);
  const auto made = controller({one.pid(), two.pid()});
  ASSERT_TRUE(made->add({InstanceId(1), one.pid(), {}, {}, {}}).ok());
  setHome(*made, second_);
  EXPECT_EQ(linux::affinityOf(two.tids()[0]), second_);
  one.end();
  EXPECT_FALSE(made->observe(InstanceId(1))->vanished);
  two.end();
  EXPECT_TRUE(made->observe(InstanceId(1))->vanished);
}

// What the agent does each second for every container at rest.
TEST(ForeignControllerAtRest, AContainerInItsCgroupIsOneRead) {
  constexpr int kContainers = 8, kSweeps = 8;
  CpuControllerHarness harness = makeForeign(OwnCgroup::Made);
  if (harness.controller == nullptr) GTEST_SKIP() << harness.whyNot;
  CpuController& controller = *harness.controller;
  std::vector<InstanceId> ids;
  for (int i = 1; i <= kContainers; ++i) {
    ids.emplace_back(i);
    ASSERT_TRUE(controller.add(harness.spawn(InstanceId(i), 1, 0)).ok());
    const auto prepared = controller.prepare({CpuChangeKind::HomeCpus, InstanceId(i), CpuSet{harness.machine.first()}, 0});
    ASSERT_TRUE(prepared.ok());
    ASSERT_EQ(harness.execute(*prepared), 0);
  }
  const auto look = [&](int sweeps) {
    for (; sweeps > 0; --sweeps) {
      controller.sweep();
      static_cast<void>(controller.observeAll(ids));
    }
  };
  const bool single = controller.observe(ids.front())->memoryNodes.count() == 1;  // else a read more for them
  const auto some = testing::kernelCalls([&] { look(4); }, [&] { look(kSweeps); });
  if (!some) GTEST_SKIP() << "no tracing here";
  const auto calls = [&](long number) { return some->count(number) > 0 ? some->at(number) : 0; };
  const int reads = kContainers * (kSweeps + 1) * (single ? 1 : 2);  // what is in force once in eight
  EXPECT_GE(calls(SYS_pread64), kContainers * kSweeps) << "a foreign write is seen at once";
  EXPECT_LE(calls(SYS_pread64), reads + 2 * kSweeps);
  EXPECT_LE(calls(SYS_poll) + calls(SYS_ppoll), kSweeps);
  EXPECT_LE(calls(SYS_openat), kSweeps) << "its own threads, to be placed";
  controller.restore();
}

// A killed agent leaves narrow sets behind; the next one gives them back before it looks at anything.
TEST_F(ForeignControllerTest, AfterAKillTheNextStartGivesBack) {
  ChildProcess child(2);
  pin(child.tids()[1], second_);
  auto killed = controller({child.pid()});
  ASSERT_TRUE(killed->add({InstanceId(1), child.pid(), {}, {}, {}}).ok());
  setHome(*killed, first_);
  const int born = child.addThread();
  killed->sweep();  // each second
  killed.reset();   // nothing was restored
  ASSERT_EQ(linux::affinityOf(child.tids()[1]), first_);
  const auto next = controller({child.pid()});
  EXPECT_EQ(linux::affinityOf(child.tids()[0]), machine_);
  EXPECT_EQ(linux::affinityOf(child.tids()[1]), second_);
  EXPECT_EQ(linux::affinityOf(born), machine_);
}

TEST_F(ForeignControllerTest, WhoIsNobodysMemberAnyMoreIsGivenBack) {
  ChildProcess child(1);
  const auto made = controller({child.pid()});
  ASSERT_TRUE(made->add({InstanceId(1), child.pid(), {}, {}, {}}).ok());
  setHome(*made, first_);
  made->remove(InstanceId(1));
  EXPECT_EQ(linux::affinityOf(child.tids()[0]), machine_);
}

TEST(ForeignJournal, WhatIsWrittenIsReadBack) {
  const linux::Originals originals{{{7, 8, 99, CpuSet{0, 3}}},
                                   {{"/sys/fs/cgroup/a b", true, {}}, {"/sys/fs/cgroup/cpuset/c", false, CpuSet{1}}},
                                   {{{"/sys/fs/cgroup/cpu/c d", false}, {50000, 100000, 7}}},
                                   {{"/sys/fs/cgroup/a b", true, {}}, {"/sys/fs/cgroup/cpuset/c", false, CpuSet{0, 1}}}};
  EXPECT_EQ(linux::parseOriginals(linux::originalsText(originals)), originals);
  for (const char* nonsense :
       {"", "thread\n", "thread 1 2 x 0\n", "thread 1 2 3 -\n", "cpuset-v1 - /a\n", "cpuset-v2 0\n", "memory-v1 - /a\n", "other 1\n"})
    EXPECT_EQ(linux::parseOriginals(nonsense), linux::Originals{}) << nonsense;
}

// Between a kill -9 and the next run nobody notes what is born.
TEST(ForeignJournal, WhoWasBornMeanwhileGetsWhatTheFirstThreadHad) {
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  if (machine.count() < 2) GTEST_SKIP() << "needs two CPUs";
  const ChildProcess child(2);
  const CpuSet narrow{machine.first()}, own = machine - narrow;
  const auto started = [&](int tid) {
    return linux::readStat("/proc/" + std::to_string(child.pid()) + "/task/" + std::to_string(tid) + "/stat")->startTime;
  };
  const int born = child.tids()[0], pinned = child.tids()[1];
  for (const int tid : {child.pid(), born}) ASSERT_EQ(linux::executeWrite(linux::affinityWrite(tid, narrow)), 0);
  ASSERT_EQ(linux::executeWrite(linux::affinityWrite(pinned, own)), 0);
  linux::Originals originals;
  originals.threads.push_back({child.pid(), child.pid(), started(child.pid()), machine});
  static_cast<void>(linux::giveBack(originals));
  EXPECT_EQ(linux::affinityOf(child.pid()), machine);
  EXPECT_EQ(linux::affinityOf(born), machine);
  EXPECT_EQ(linux::affinityOf(pinned), own) << "what it chose itself stays";
}

TEST(ForeignJournal, AReusedThreadIdIsLeftAlone) {
  const ChildProcess child(1);
  const CpuSet machine = linux::affinityOf(0).value_or(CpuSet{0});
  const CpuSet first{machine.first()};
  linux::giveBack({{{child.pid(), child.tids()[0], 1, first}}, {}, {}});  // started at another time
  EXPECT_EQ(linux::affinityOf(child.tids()[0]), machine);
}

}  // namespace
}  // namespace coterie
