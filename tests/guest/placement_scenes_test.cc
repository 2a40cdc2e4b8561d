// Where real processes and their memory lie on machines with nodes, caches and threads: containers, isolation, and what a partition would take away.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "linux/files.h"
#include "linux/memory_reader.h"
#include "scene.h"

namespace coterie::guest {
namespace {

constexpr Bytes kTouched{8LL << 20};

// A container of the controller's, which writes to memory of its own: how many pages lie on its memory nodes, of how many.
struct Pages {
  std::int64_t near{0};
  std::int64_t all{0};
};
Pages touchedPages(const apply::Container& container, const CpuSet& nodes) {
  Pages pages;
  for (const auto& [node, count] : pagesByNode(container.process->pid(), container.process->touch(kTouched))) {
    pages.all += count;
    if (nodes.contains(node)) pages.near += count;
  }
  return pages;
}

class Numa : public Scene {
 protected:
  static CpuSet nodesWithMemory() {
    const auto nodes = CpuSet::parse(textIn("/sys/devices/system/node/has_memory"));
    return nodes ? *nodes : CpuSet{};
  }
};

// The paper's layout: a service in several containers, none of which lies across nodes, each with its memory beside its CPUs.
TEST_F(Numa, OneServiceInFourContainersEachWithinANodeItsMemoryThere) {
  agent::DrcConfig whole;
  whole.reserved = CpuSet{};  // so that the nodes are equal
  begin(whole);
  add(apply::service(1), 4);
  settle();
  expectSound();
  CpuSet used;
  Pages total;
  std::string where;
  for (int i = 0; i < 4; ++i) {
    const ObservedContainer seen = node().seen(container(1, i));
    const CpuSet nodes = nodesOf(machine(), seen.effective);
    EXPECT_EQ(nodes.count(), 1) << seen.effective.toString();
    const CpuSet near = nodes.intersects(nodesWithMemory()) ? nodes : nodesWithMemory();
    EXPECT_EQ(seen.memoryNodes, near) << seen.memoryNodes.toString();
    const Pages pages = touchedPages(node().containers().at(container(1, i)), near);
    EXPECT_EQ(pages.all, kTouched.value / ::sysconf(_SC_PAGESIZE));
    EXPECT_EQ(pages.near, pages.all);
    total.near += pages.near, total.all += pages.all;
    used |= nodes;
    where += fmt::format("{}{} (node {})", i == 0 ? "" : ", ", seen.effective.toString(), nodes.toString());
  }
  EXPECT_EQ(cpusOf(1), usable()) << "alone, it has all";
  EXPECT_EQ(used, nodesOf(machine(), usable()));
  figure(fmt::format("containers on {}; {} of {} pages on their nodes", where, total.near, total.all));
}

TEST_F(Numa, MemoryAloneIsGivenToNobodyAndCpusWithoutMemoryUseTheNearest) {
  begin();
  if (textIn("/sys/devices/system/node/has_cpu") == textIn("/sys/devices/system/node/has_memory")) GTEST_SKIP() << "every node has CPUs and memory";
  CpuSet withCpus, all;
  for (const MemoryNode& one : machine().memoryNodes) {
    all.add(one.id);
    if (!one.cpus.empty()) withCpus.add(one.id);
  }
  add(apply::service(1), 2);
  add(apply::service(2), 2);
  settle();
  expectSound();
  Pages total;
  CpuSet given;
  for (const auto& [id, one] : node().containers()) {
    const CpuSet nodes = node().seen(id).memoryNodes;
    EXPECT_FALSE(nodes.empty());
    EXPECT_TRUE(nodes.isSubsetOf(withCpus)) << nodes.toString();
    const Pages pages = touchedPages(one, nodes);
    EXPECT_EQ(pages.near, pages.all);
    total.near += pages.near, total.all += pages.all;
    given |= nodes;
  }
  figure(fmt::format("memory nodes {} of {} given; {} of {} pages there", given.toString(), all.toString(), total.near, total.all));
}

// Half of the machine each: two nodes that are near to each other, not any two.
TEST_F(Numa, AServiceOverTwoNodesHasTwoNearOnes) {
  agent::DrcConfig whole;
  whole.reserved = CpuSet{};
  begin(whole);
  if (nodesOf(machine(), usable()).count() < 4) GTEST_SKIP() << "needs four nodes";
  add(apply::service(1), 2, 8);
  add(apply::service(2), 2, 8);
  settle();
  expectSound();
  std::string said;
  for (const int one : {1, 2}) {
    const CpuSet nodes = nodesOf(machine(), cpusOf(one));
    EXPECT_LE(unitsOf(machine(), cpusOf(one), DomainLevel::Socket).count(), 1) << cpusOf(one).toString();
    int farthest = 0;
    for (const int from : nodes) {
      for (std::size_t to = 0; to < machine().memoryNodes.size(); ++to) {
        const auto found =
            std::find_if(machine().memoryNodes.begin(), machine().memoryNodes.end(), [&](const MemoryNode& n) { return n.id == from; });
        if (nodes.contains(machine().memoryNodes[to].id) && to < found->distance.size()) farthest = std::max(farthest, found->distance[to]);
      }
    }
    EXPECT_LE(farthest, 12);
    said += fmt::format("{}{} on nodes {}, distance at most {}", one == 1 ? "" : "; ", cpusOf(one).toString(), nodes.toString(), farthest);
  }
  figure(said);
}

// What it was given before it moved lies, in the end, on the nodes that it has then.
TEST_F(Numa, MemoryLiesOnTheNodesOfAContainerThatHadToMove) {
  begin();
  if (nodesOf(machine(), usable()).count() < 2) GTEST_SKIP() << "needs two nodes";
  add(apply::service(1), 1);
  settle();
  const apply::Container& first = node().containers().at(container(1));
  const std::uint64_t address = first.process->touch(kTouched);
  const CpuSet before = node().seen(container(1)).memoryNodes;
  agent::GroupSpec newcomer = apply::service(2);
  newcomer.isolation = Isolation::Node;
  newcomer.floor = MilliCpu(1000);
  add(newcomer, 1);
  settle();
  expectSound();
  const CpuSet after = node().seen(container(1)).memoryNodes;
  EXPECT_TRUE((nodesOf(machine(), cpusOf(1)) & nodesWithMemory()).isSubsetOf(after)) << after.toString();
  Pages pages;
  for (const auto& [one, count] : pagesByNode(first.process->pid(), address)) {
    pages.all += count;
    if (after.contains(one)) pages.near += count;
  }
  EXPECT_EQ(pages.near, pages.all);
  figure(fmt::format("memory nodes {} before, {} after; {} of {} pages there", before.toString(), after.toString(), pages.near, pages.all));
}

// Pages move no faster than the budget says: of two containers that have to leave a node one is gathered on its new node at once, the pages of the
// other stay where they are until it is paid for.
TEST_F(Numa, PagesFollowTheirContainersWithinTheBudget) {
  constexpr Bytes kMuch{32LL << 20};
  Bytes each;
  {
    testing::ChildProcess like(3);
    static_cast<void>(like.touch(kMuch));
    each = linux::residentOf(like.pid());
  }
  agent::DrcConfig config;
  config.reserved = CpuSet{};
  config.memoryInterval = Millis(500);
  config.allocation.migrationPerMinute = Bytes(each.value * 17 / 10);
  begin(config);
  if ((nodesOf(machine(), usable()) & nodesWithMemory()).count() != 2) GTEST_SKIP() << "needs two nodes with CPUs and memory";
  add(apply::service(1), 4);
  settle();
  std::map<InstanceId, std::uint64_t> touched;
  for (const auto& [id, one] : node().containers()) touched[id] = one.process->touch(kMuch);
  const auto told = [this, &each] {
    const auto view = node().drc().explainGroup(GroupId(1));
    return std::all_of(view->containers.begin(), view->containers.end(),
                       [&](const agent::ContainerView& one) { return one.resident.value > each.value / 2; });
  };
  ASSERT_TRUE(node().passUntil(told, Seconds(60))) << "what is resident is not known";
  const auto narrow = [this](InstanceId id) { return node().seen(id).memoryNodes.count() == 1; };
  ASSERT_TRUE(node().passUntil([&] { return std::all_of(touched.begin(), touched.end(), [&](const auto& one) { return narrow(one.first); }); },
                               Seconds(200)));
  node().pass(Seconds(35));  // the budget has enough for one again
  std::map<InstanceId, CpuSet> before;
  for (const auto& [id, address] : touched) before[id] = node().seen(id).memoryNodes;

  agent::GroupSpec newcomer = apply::service(2);
  newcomer.isolation = Isolation::Node;
  newcomer.floor = MilliCpu(1000);
  add(newcomer, 1);
  settle();
  expectSound();
  std::vector<InstanceId> moved, waiting;
  for (const auto& [id, nodes] : before) {
    const CpuSet now = node().seen(id).memoryNodes;
    if (now == nodes) continue;
    (now.count() == 1 ? moved : waiting).push_back(id);
  }
  ASSERT_EQ(moved.size(), 1U);
  ASSERT_EQ(waiting.size(), 1U);
  const auto pagesOn = [&](InstanceId id, const CpuSet& nodes) {
    Pages pages;
    for (const auto& [one, count] : pagesByNode(node().containers().at(id).process->pid(), touched.at(id))) {
      pages.all += count;
      if (nodes.contains(one)) pages.near += count;
    }
    return pages;
  };
  const Pages gathered = pagesOn(moved[0], node().seen(moved[0]).memoryNodes);
  EXPECT_EQ(gathered.near, gathered.all);
  const Pages stayed = pagesOn(waiting[0], before[waiting[0]]);
  EXPECT_EQ(stayed.near, stayed.all) << "widening moves no page";
  const auto view = node().drc().explainGroup(GroupId(1));
  EXPECT_TRUE(std::any_of(view->reasons.begin(), view->reasons.end(),
                          [](const allocation::Reason& one) { return one.code == allocation::ReasonCode::MemoryNarrowDeferred; }));
  const Instant from = node().loop().clock().now();
  EXPECT_TRUE(node().passUntil([&] { return narrow(waiting[0]); }, Seconds(60)));
  const Nanos waited = node().loop().clock().now() - from;
  settle();
  const Pages last = pagesOn(waiting[0], node().seen(waiting[0]).memoryNodes);
  EXPECT_EQ(last.near, last.all);
  figure(fmt::format("{} MiB a minute for two of {} MiB: one at once ({} of {} pages), one after {} ({} of {} pages, none before)",
                     config.allocation.migrationPerMinute.value >> 20, each.value >> 20, gathered.near, gathered.all, secondsText(waited), last.near,
                     last.all));
}

class Isolated : public Scene {};

TEST_F(Isolated, EachLevelHoldsByTheKernelsWordAndIsGivenBack) {
  begin();
  add(apply::service(1), 1);
  add(apply::service(2), 2);
  add(apply::service(3), 1);
  settle();
  const struct {
    Isolation isolation;
    DomainLevel level;
    const char* name;
  } levels[] = {
      {Isolation::Core, DomainLevel::Core, "core"}, {Isolation::Cache, DomainLevel::Cache, "cache"}, {Isolation::Node, DomainLevel::Node, "node"}};
  std::string said;
  for (const auto& one : levels) {
    if (unitsOf(machine(), usable(), one.level).count() < 2) continue;  // nobody else would have room
    agent::GroupSpec spec = apply::service(1);
    spec.floor = MilliCpu(1000);
    spec.isolation = one.isolation;
    node().drc().setGroup(spec);
    settle();
    expectSound();
    const CpuSet own = unitsOf(machine(), cpusOf(1), one.level);
    const CpuSet others = unitsOf(machine(), cpusOf(2) | cpusOf(3), one.level);
    EXPECT_FALSE(own.intersects(others)) << one.name << ": " << cpusOf(1).toString() << " beside " << (cpusOf(2) | cpusOf(3)).toString();
    said += fmt::format("{}{}: {}, others {}", said.empty() ? "" : "; ", one.name, cpusOf(1).toString(), (cpusOf(2) | cpusOf(3)).toString());
  }
  node().drc().setGroup(apply::service(1));
  settle();
  expectSound();
  EXPECT_EQ(cpusOf(1) | cpusOf(2) | cpusOf(3), usable());
  figure(said);
}

// Why the agent makes no cpuset partitions: they exclude siblings, and a loans leaf is a sibling that stands on CPUs which others own.
TEST_F(Isolated, APartitionWouldForbidEveryLoan) {
  const std::string owner = std::string(kCgroups) + "/scene-owner", borrower = std::string(kCgroups) + "/scene-borrower";
  write(std::string(kCgroups) + "/cgroup.subtree_control", "+cpuset");
  for (const std::string& one : {owner, borrower}) ASSERT_EQ(::mkdir(one.c_str(), 0755), 0);
  write(owner + "/cpuset.cpus", "1-2");
  write(borrower + "/cpuset.cpus", "1");                                          // on loan
  static_cast<void>(linux::writeText(owner + "/cpuset.cpus.partition", "root"));  // refused, or taken and then invalid: by kernel
  const std::string state = textIn(owner + "/cpuset.cpus.partition");
  const std::string left = textIn(borrower + "/cpuset.cpus.effective");
  EXPECT_TRUE(state != "root" || left != "1") << state << ", " << left;
  figure(fmt::format("with a loan on CPU 1 the owner's partition is \"{}\", the borrower may use {}", state, left));
  write(owner + "/cpuset.cpus.partition", "member");
  for (const std::string& one : {owner, borrower}) EXPECT_EQ(::rmdir(one.c_str()), 0);
  write(std::string(kCgroups) + "/cgroup.subtree_control", "-cpuset");
}

}  // namespace
}  // namespace coterie::guest
