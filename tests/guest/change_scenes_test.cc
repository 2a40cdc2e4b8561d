// What happens to a running node from outside: CPUs that come and go, somebody else who writes the same files, an agent that is killed.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "linux/cgroup_v2_controller.h"
#include "linux/files.h"
#include "scene.h"

namespace coterie::guest {
namespace {

constexpr Seconds kLong{60};

void setOnline(const CpuSet& cpus, bool online) {
  for (const int cpu : cpus) write(fmt::format("/sys/devices/system/cpu/cpu{}/online", cpu), online ? "1" : "0");
}

class Hotplug : public Scene {
 protected:
  void TearDown() override {
    setOnline(away_ - late_, true);
    setOnline(late_, false);
    Scene::TearDown();
  }
  // Takes CPUs away or gives them, and waits until the plan for it is in force; how long that took.
  Nanos change(const CpuSet& cpus, bool online) {
    const Instant from = node().loop().clock().now();
    setOnline(cpus, online);
    away_ = online ? away_ - cpus : away_ | cpus;
    const bool seen = node().passUntil(
        [&] { return (online ? cpus.isSubsetOf(machine().online) : !cpus.intersects(machine().online)) && node().drc().settled(); }, kLong);
    EXPECT_TRUE(seen) << "CPUs " << cpus.toString() << " were not noticed";
    settle();
    return node().loop().clock().now() - from;
  }

 private:
  CpuSet away_;

 protected:
  CpuSet late_;  // that were offline before: they are again afterwards
};

TEST_F(Hotplug, CpusThatGoWhileTheAgentRunsAreDoneWithoutAndUsedAgainWhenTheyReturn) {
  begin();
  add(apply::service(1), 2);
  add(apply::service(2), 1);
  settle();
  expectSound();
  const CpuSet before = cpusOf(1) | cpusOf(2);
  const CpuSet one{before.last()};
  const Nanos gone = change(one, false);
  expectSound();
  EXPECT_FALSE((cpusOf(1) | cpusOf(2)).intersects(one));
  const Nanos back = change(one, true);
  expectSound();
  EXPECT_EQ(cpusOf(1) | cpusOf(2), before);
  figure(fmt::format("CPU {}: gone, in force after {}; back, in force after {}", one.toString(), secondsText(gone), secondsText(back)));
}

TEST_F(Hotplug, AWholeNodeThatGoesTakesNobodyWithIt) {
  begin();
  if (nodesOf(machine(), usable()).count() < 2) GTEST_SKIP() << "needs two nodes";
  add(apply::service(1), 2);
  add(apply::service(2), 2);
  settle();
  const CpuSet before = cpusOf(1) | cpusOf(2);
  CpuSet last;
  for (const MemoryNode& one : machine().memoryNodes) {
    if (one.cpus.intersects(before)) last = one.cpus;
  }
  const Nanos gone = change(last, false);
  expectSound();
  const CpuSet left = cpusOf(1) | cpusOf(2);
  EXPECT_EQ(left, usable());
  EXPECT_FALSE(left.intersects(last));
  const Nanos back = change(last, true);
  expectSound();
  EXPECT_EQ(cpusOf(1) | cpusOf(2), before);
  figure(fmt::format("CPUs {}: on {} after {}; on {} again after {}", last.toString(), left.toString(), secondsText(gone), before.toString(),
                     secondsText(back)));
}

TEST_F(Hotplug, CpusThatWereOfflineAtTheStartComeAndAreUsed) {
  const auto offline = CpuSet::parse(textIn("/sys/devices/system/cpu/offline"));
  if (!offline || offline->empty()) GTEST_SKIP() << "no CPU is offline";
  begin();
  add(apply::service(1), 2);
  add(apply::service(2), 2);
  settle();
  expectSound();
  const CpuSet before = cpusOf(1) | cpusOf(2);
  EXPECT_FALSE(machine().online.intersects(*offline));
  EXPECT_EQ(before, usable());
  late_ = *offline;
  const Nanos came = change(late_, true);
  expectSound();
  const CpuSet with = cpusOf(1) | cpusOf(2);
  EXPECT_EQ(with, usable());
  EXPECT_TRUE(late_.isSubsetOf(with)) << with.toString() << ": some may be reserved by now, those that came are not";
  CpuSet run;
  for (const auto& [id, one] : node().containers()) run |= mayRunOn(one.process->pid());
  EXPECT_TRUE(late_.isSubsetOf(run)) << "their threads run on " << run.toString();
  const Nanos gone = change(late_, false);
  expectSound();
  EXPECT_EQ(cpusOf(1) | cpusOf(2), before);
  figure(fmt::format("CPUs {}: came, on {} after {}; gone, on {} after {}", late_.toString(), with.toString(), secondsText(came), before.toString(),
                     secondsText(gone)));
}

// As many services as CPUs, each promised one of its own. Whoever has the CPU that goes, the last come of the lowest band waits; it is back with the
// CPU.
TEST_F(Hotplug, WithACpuGoesTheYoungestOfTheLowestBand) {
  begin();
  const int count = usable().count();
  const auto spec = [&](int id) {
    agent::GroupSpec made = apply::service(id);
    made.floor = MilliCpu(1000);
    made.band = id == 1 ? allocation::Band::High : id >= count - 1 ? allocation::Band::Low : allocation::Band::Normal;
    return made;
  };
  for (int id = count; id >= 1; --id) {  // the one of the highest band comes last
    if (id == count - 1) continue;
    add(spec(id), 1, 1);
    settle();
    node().pass(Millis(20));
  }
  add(spec(count - 1), 1, 1);
  settle();
  expectSound();
  const int youngest = count - 1;
  const auto waiting = [&] {
    CpuSet ids;
    for (int id = 1; id <= count; ++id) {
      if (node().drc().explainGroup(GroupId(id))->pending) ids.add(id);
    }
    return ids;
  };
  EXPECT_TRUE(waiting().empty()) << waiting().toString();
  const CpuSet lost = cpusOf(1);
  ASSERT_EQ(lost.count(), 1);
  const Nanos gone = change(lost, false);
  if (usable().count() == count) GTEST_SKIP() << "with one fewer nothing is reserved any more, so nobody has to wait";
  EXPECT_EQ(waiting(), CpuSet{youngest});
  node().ended(container(youngest));  // as the reconciler does with who waits
  settle();
  expectSound();
  EXPECT_EQ(cpusOf(1).count(), 1) << "the highest band has its own again";
  EXPECT_GT(node().drc().missingForFloor(spec(youngest)).value, 0);
  const Nanos back = change(lost, true);
  EXPECT_EQ(node().drc().missingForFloor(spec(youngest)).value, 0);
  node().ready(container(youngest), apply::makeContainer(GroupId(youngest), 1, 0));
  settle();
  expectSound();
  EXPECT_TRUE(waiting().empty()) << waiting().toString();
  figure(fmt::format("CPU {} of {}: gone, service {} waits after {}; back after {}", lost.toString(), usable().toString(), youngest,
                     secondsText(gone), secondsText(back)));
}

class Drift : public Scene {
 protected:
  // Somebody's write, and the time until the kernel again says what the plan says.
  Nanos repaired(const std::function<void()>& foreign) {
    const auto memory = [this] { return node().seen(container(1)).memoryNodes; };
    const CpuSet before = memory();
    const Instant from = node().loop().clock().now();
    foreign();
    EXPECT_TRUE(node().misplaced() > 0 || memory() != before) << "the foreign write did nothing";
    EXPECT_TRUE(node().passUntil([&] { return node().drc().settled() && node().misplaced() == 0 && memory() == before; }, kLong)) << said();
    return node().loop().clock().now() - from;
  }
  std::string said() {
    std::string text = node().drc().settled() ? "settled" : "not settled";
    for (const auto& [id, one] : node().containers()) {
      const ObservedContainer seen = node().seen(id);
      text += fmt::format("; {}: planned {}, set {}, granted {}, memory {}{}", id.value, node().drc().plannedHome(id).toString(),
                          seen.home.toString(), seen.effective.toString(), seen.memoryNodes.toString(), seen.uniform ? "" : ", not uniform");
    }
    return text;
  }
};

TEST_F(Drift, ForeignWritesAreNoticedAndUndone) {
  begin();
  add(apply::service(1), 1);
  add(apply::service(2), 1);
  settle();
  expectSound();
  const int pid = node().containers().at(container(1)).process->pid();
  const std::string leaf = cgroupOf(pid), tree = leaf.substr(0, leaf.rfind('/'));
  const CpuSet foreign = cpusOf(2);
  const Nanos cpus = repaired([&] { write(leaf + "/cpuset.cpus", foreign.toString()); });
  const Nanos away = repaired([&] { write(std::string(kCgroups) + "/cgroup.procs", std::to_string(pid)); });
  const Nanos above = repaired([&] { write(tree + "/cpuset.cpus", foreign.toString()); });
  expectSound();
  std::string said = fmt::format("its CPUs {}, moved away {}, the set above {}", secondsText(cpus), secondsText(away), secondsText(above));
  if (const CpuSet nodes = node().seen(container(1)).memoryNodes; machine().memoryNodes.size() > 1) {
    CpuSet other;
    for (const MemoryNode& one : machine().memoryNodes) {
      if (!nodes.contains(one.id)) other = CpuSet{one.id};
    }
    if (!other.empty()) said += ", its memory nodes " + secondsText(repaired([&] { write(leaf + "/cpuset.mems", other.toString()); }));
  }
  const auto group = node().drc().explainGroup(GroupId(1));
  ASSERT_TRUE(group);
  EXPECT_GE(group->counters.driftRepairs, 3);
  EXPECT_EQ(group->counters.conflicts, 0);
  figure("put right after: " + said);
}

// Writes a file again and again until it is ended, under the name of a program that does such things.
class Rival {
 public:
  Rival(const std::string& file, const std::string& text) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_NAME, "kubelet");
    for (;;) {
      static_cast<void>(linux::writeText(file, text));
      ::usleep(20'000);
    }
  }
  ~Rival() { end(); }
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;
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

class Fight : public Drift {
 protected:
  void beginFight() {
    agent::DrcConfig quick;
    quick.pollInterval = Millis(200);
    begin(quick);
    add(apply::service(1), 1);
    add(apply::service(2), 1);
    settle();
    expectSound();
    const std::string leaf = cgroupOf(node().containers().at(container(1)).process->pid());
    rival_.emplace(leaf + "/cpuset.cpus", cpusOf(2).toString());
    EXPECT_TRUE(node().passUntil([this] { return contested(); }, kLong)) << "the fight goes on";
    node().pass(Seconds(1));  // nothing more is written
  }
  [[nodiscard]] bool contested() {
    const auto group = node().drc().explainGroup(GroupId(1));
    return group && group->containers.front().contested;
  }
  std::optional<Rival> rival_;
};

TEST_F(Fight, IsGivenUpAfterAFewRepairsAMinuteAndSaid) {
  beginFight();
  const auto group = node().drc().explainGroup(GroupId(1));
  EXPECT_EQ(group->counters.driftRepairs, agent::DrcConfig{}.repairsPerMinute);
  EXPECT_EQ(group->counters.conflicts, 1);
  const std::string name = fmt::format("kubelet (pid {})", rival_->pid());
  const std::string rivals = node().drc().view().rivals;
  EXPECT_NE(rivals.find(name), std::string::npos) << rivals;
  EXPECT_EQ(node().drc().explainGroup(GroupId(2))->counters.driftRepairs, 0) << "nobody else is in it";
  figure(fmt::format("{} repairs, then contested by {}", group->counters.driftRepairs, rivals.empty() ? "nobody known" : rivals));
}

// An agent that leaves processes of a dead run alone, as one for other people's processes does: killed, it leaves every container where it was, and
// the next one takes them over to the same CPUs (passing through its tree, as the kernel wants it: a moment on more CPUs than its own).
class Recovery : public Scene {
 protected:
  static apply::NodeOptions leavingOthersAlone() {
    apply::NodeOptions options;
    options.journal = "/tmp/homes.json";
    options.controller = []() -> Result<std::unique_ptr<CpuController>> {
      linux::CgroupV2Options leave;
      leave.killLeftovers = false;
      auto made = linux::CgroupV2Controller::create(leave);
      if (!made) return made.error();
      return std::unique_ptr<CpuController>(std::move(made).value());
    };
    return options;
  }
  static void tell(apply::AgentNode& node, const apply::Containers& containers) {
    for (const int id : {1, 2}) node.drc().setGroup(apply::service(id));
    node.ready(containers);
  }
  // In a process of its own: places everybody, says so, and goes on until it is killed.
  [[noreturn]] static void agentMain(const apply::Containers& containers, int says) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    apply::AgentNode node(leavingOthersAlone());
    if (!node.start()) ::_exit(1);
    tell(node, containers);
    const bool placed = node.passUntil([&] { return node.drc().settled() && node.misplaced() == 0; }, kLong);
    if (!placed || ::write(says, "p", 1) != 1) ::_exit(1);
    for (;;) node.pass(kLong);
  }
};

TEST_F(Recovery, AKilledAgentLeavesContainersWhereTheyAreAndTheNextTakesThemOver) {
  ::unlink("/tmp/homes.json");
  apply::Containers containers;
  for (int i = 0; i < 4; ++i) containers[container(1 + i / 2, i % 2)] = apply::makeContainer(GroupId(1 + i / 2), 2, 1);
  const auto where = [&] {
    std::map<InstanceId, CpuSet> cpus;
    for (const auto& [id, one] : containers) cpus[id] = mayRunOn(one.process->pid());
    return cpus;
  };
  int ends[2]{};
  ASSERT_EQ(::pipe(ends), 0);
  const int agent = ::fork();
  if (agent == 0) agentMain(containers, ends[1]);
  ::close(ends[1]);
  char said = 0;
  EXPECT_EQ(::read(ends[0], &said, 1), 1) << "the first agent did not get there";
  ::close(ends[0]);
  const auto before = where();
  ::kill(agent, SIGKILL);
  ::waitpid(agent, nullptr, 0);
  EXPECT_EQ(where(), before);

  apply::AgentNode next(leavingOthersAlone());
  const Status started = next.start();
  ASSERT_TRUE(started.ok()) << started.error().message;
  tell(next, containers);
  int looks = 0, kept = 0;
  EXPECT_TRUE(next.passUntil(
      [&] {
        ++looks;
        kept += where() == before ? 1 : 0;
        return next.drc().settled() && next.misplaced() == 0;
      },
      kLong));
  EXPECT_EQ(where(), before);
  std::string text;
  for (const auto& [id, cpus] : before) text += fmt::format("{}{}", text.empty() ? "" : ", ", cpus.toString());
  figure(fmt::format("on {}: the same in {} of {} looks while the next took over", text, kept, looks));
}

}  // namespace
}  // namespace coterie::guest
