// Every plan cut at every step, with every fault: for several plans, on three shapes of machine, by the rules of cgroups v1 and v2, each step in turn
// fails, hangs (and then is made, or fails), or is the one before which the agent is killed (with its journal, and without). H1-H7 hold after every
// write (kernel_watch.h); containers that do not wait for a hung write's CPUs are where they should be after 100 ms; and everybody gets where he
// would have been.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <iostream>

#include "agent/drc_rig.h"
#include "agent/kernel_watch.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;
using Fate = ManualApplier::Fate;

// Where somebody ended.
struct Place {
  CpuSet home, loans, memoryNodes;
  LaneAllowance lanes;
  friend bool operator==(const Place&, const Place&) = default;
};
using Places = std::map<InstanceId, Place>;

// One agent and those it looks after.
class Node {
 public:
  Node(const Machine& machine, testing::KernelRules rules) : rig(machine, &journal, {}, rules), watch(rig), whole_(machine) {}

  void tell(int group, std::int64_t weight = 100, Isolation isolation = Isolation::None) {
    GroupSpec spec = rig.spec(group, weight);
    spec.isolation = isolation;
    if (isolation != Isolation::None) spec.floor = spec.ceiling = MilliCpu(1000);
    specs[spec.id] = spec;
    rig.drc->setGroup(spec);
  }
  void join(int group, int instance, std::int64_t weight = 100, Isolation isolation = Isolation::None) {
    tell(group, weight, isolation);
    rig.ready(group, instance, 8);
  }
  void online(const CpuSet& cpus) {
    rig.kernel.setOnline(cpus);
    rig.machine.set(testing::withOnline(whole_, cpus, cpus));
  }
  void restart(HomeJournal& with) {
    std::vector<GroupSpec> all;
    for (const auto& [id, spec] : specs) all.push_back(spec);
    rig.restart(ManualApplier::InFlight::Lost, with, all);
    watch.accept();
  }
  // Time passes, in small steps, until a step met its fate, or for as long as a poll may take to see a change.
  void passUntilHit() {
    watch.accept();
    for (Millis passed{0}; !watch.hit() && passed < 1500ms; passed += 5ms) rig.loop.advance(5ms);
  }
  [[nodiscard]] Places places() const {
    Places all;
    for (const auto& [instance, group] : rig.groupOf) {
      const auto seen = rig.kernel.observe(instance);
      all[instance] = {seen->home, seen->loans, seen->memoryNodes, rig.allowed(instance.value)};
    }
    return all;
  }

  MemoryHomeJournal journal;
  DrcRig rig;
  KernelWatch watch;
  std::map<GroupId, GroupSpec> specs;

 private:
  Machine whole_;
};

struct Change {
  const char* name;
  std::function<void(Node&)> before;
  std::function<void(Node&)> change;
};

void three(Node& node) {
  for (const int group : {1, 2, 3}) node.join(group, group * 10);
  node.join(3, 31);
}

const Change kChanges[] = {
    {"two join", [](Node& node) { three(node); },
     [](Node& node) {
       node.join(4, 40);
       node.join(5, 50);
       node.join(5, 51);
     }},
    {"weights are turned round",
     [](Node& node) {
       three(node);
       node.tell(1, 300);
     },
     [](Node& node) {
       node.tell(1, 100);
       node.tell(2, 500);
     }},
    {"one ends", [](Node& node) { three(node); }, [](Node& node) { node.rig.ended(10); }},
    {"one comes that is isolated", [](Node& node) { three(node); }, [](Node& node) { node.join(4, 40, 100, Isolation::Core); }},
    {"a pool is made",
     [](Node& node) {
       three(node);
       node.tell(1, 1000);
     },
     [](Node& node) {
       for (const int group : {4, 5, 6}) node.join(group, group * 10, 20);
     }},
    {"CPUs go", [](Node& node) { three(node); },
     [](Node& node) {
       CpuSet left = node.rig.machine.read()->online;
       left.remove(left.first());
       left.remove(left.toVector().back());
       node.online(left);
     }},
    {"CPUs come",
     [](Node& node) {
       three(node);
       CpuSet left = node.rig.machine.read()->online;
       left.remove(left.first());
       left.remove(left.toVector().back());
       node.online(left);
       node.rig.loop.advance(1100ms);
     },
     [](Node& node) { node.online(node.rig.machine.read()->online | CpuSet::range(0, 7)); }},
    {"one borrows", [](Node& node) { three(node); }, [](Node& node) { node.rig.queue(1, 80, 40ms); }},
};

// Who gets where he should be although `stuck` stays where it was: all but those who take what it held, and who take what these held.
std::set<InstanceId> bystanders(const Machine& machine, InstanceId stuck, const Places& before, const Places& after, bool wholeUnits) {
  const auto unit = [&](const CpuSet& cpus) { return wholeUnits ? allocation::unitsOf(machine, cpus, Isolation::Core) : cpus; };
  const auto heldBy = [&](InstanceId id) { return before.count(id) > 0 ? before.at(id).home | before.at(id).loans : CpuSet{}; };
  std::set<InstanceId> waiting{stuck};
  for (bool more = true; more;) {
    more = false;
    for (const auto& [id, place] : after) {
      const CpuSet taken = unit((place.home | place.loans) - heldBy(id));
      for (const InstanceId holder : std::set(waiting)) {
        if (waiting.count(id) == 0 && taken.intersects(unit(heldBy(holder)))) more = waiting.insert(id).second;
      }
    }
  }
  std::set<InstanceId> others;
  for (const auto& [id, place] : after) {
    if (waiting.count(id) == 0) others.insert(id);
  }
  return others;
}

enum class Fault { Error, HangThenMade, HangThenError, Kill, KillAndJournalLost };
const char* const kFaultNames[] = {"error", "hang, made late", "hang, failed late", "kill", "kill, journal lost"};

std::string text(const Places& places) {
  std::string all;
  for (const auto& [id, place] : places) {
    all += " " + std::to_string(id.value) + ": home " + place.home.toString() + " loans " + place.loans.toString() + " memory " +
           place.memoryNodes.toString() + " lanes " + std::to_string(place.lanes.ownLanes) + "+" + std::to_string(place.lanes.loanLanes);
  }
  return all;
}

// The same, whichever CPUs these are.
std::string sizes(const Places& places) {
  std::string all;
  for (const auto& [id, place] : places) {
    all += " " + std::to_string(id.value) + ": " + std::to_string(place.home.count()) + " CPUs, " + std::to_string(place.memoryNodes.count()) +
           " nodes, lanes " + std::to_string(place.lanes.ownLanes) + "+" + std::to_string(place.lanes.loanLanes);
  }
  return all;
}

class EveryCut : public ::testing::TestWithParam<testing::KernelRules> {
 protected:
  void cutEverywhere(const Machine& machine) {
    for (const Change& change : kChanges) {
      Node whole(machine, GetParam());
      change.before(whole);
      whole.rig.loop.advance(3s);
      const Places before = whole.places();
      const int first = whole.watch.writes();
      change.change(whole);
      whole.passUntilHit();
      whole.rig.loop.advance(5s);
      const Places after = whole.places();
      const int steps = whole.watch.writes() - first;
      EXPECT_GT(steps, 0) << change.name;
      EXPECT_TRUE(whole.rig.breaches.empty()) << change.name << ": " << whole.rig.breaches.front();
      for (int step = 1; step <= steps; ++step) {
        for (int fault = 0; fault < 5; ++fault) cut(machine, change, before, after, step, static_cast<Fault>(fault));
      }
    }
  }
  void TearDown() override {
    EXPECT_GT(cuts_, 100);
    EXPECT_GT(waitedFor_, 20);
    std::cout << cuts_ << " cuts, " << recovered_ << " recovered, " << same_ << " to the very same CPUs; " << waitedFor_
              << " containers beside a hung write where they should be after 100 ms\n";
  }

 private:
  void cut(const Machine& machine, const Change& change, const Places& before, const Places& after, int step, Fault fault) {
    const std::string where =
        machine.name + ", " + change.name + ", step " + std::to_string(step) + ": " + kFaultNames[static_cast<std::size_t>(fault)];
    MemoryHomeJournal empty;
    Node node(machine, GetParam());
    change.before(node);
    node.rig.loop.advance(3s);
    const bool hangs = fault == Fault::HangThenMade || fault == Fault::HangThenError;
    node.watch.cutAt(step, fault == Fault::Error ? Fate::Failed : hangs ? Fate::Hung : Fate::Killed);
    change.change(node);
    node.passUntilHit();
    ASSERT_TRUE(node.watch.hit().has_value()) << where;
    const KernelWatch::Hit hit = *node.watch.hit();
    node.watch.cutNone();
    ++cuts_;
    if (hangs) {
      node.rig.loop.advance(hit.at + 100ms - node.rig.loop.now());
      if (hit.step.field != "tree") checkBystanders(machine, node, hit, before, after, where);
      node.rig.loop.advance(3s);
      node.rig.applier.release(fault == Fault::HangThenMade ? 0 : EINTR);
    }
    if (fault == Fault::Kill) node.restart(node.journal);
    if (fault == Fault::KillAndJournalLost) node.restart(empty);
    node.rig.loop.advance(5s);
    EXPECT_TRUE(node.rig.drc->settled()) << where;
    EXPECT_TRUE(node.rig.breaches.empty()) << where << ": " << node.rig.breaches.front();
    if (node.places() != after) node.rig.loop.advance(150s);  // what moved for a better fit may do so again
    ++recovered_;
    same_ += node.places() == after ? 1 : 0;
    EXPECT_EQ(sizes(node.places()), sizes(after)) << where << "\n" << text(node.places()) << "\n" << text(after);
  }

  void checkBystanders(const Machine& machine, const Node& node, const KernelWatch::Hit& hit, const Places& before, const Places& after,
                       const std::string& where) {
    bool wholeUnits = false;
    for (const auto& [id, spec] : node.specs) wholeUnits = wholeUnits || spec.isolation != Isolation::None;
    const Places now = node.places();
    for (const InstanceId id : bystanders(machine, hit.step.container, before, after, wholeUnits)) {
      ++waitedFor_;
      EXPECT_EQ(text({{id, now.at(id)}}), text({{id, after.at(id)}})) << where << ", of instance " << hit.step.container.value << ": 100 ms later";
    }
  }

  int cuts_{0};
  int waitedFor_{0};
  int same_{0};
  int recovered_{0};
};

TEST_P(EveryCut, RecoversOnAFlatMachine) { cutEverywhere(testing::regularMachine("flat", {1, 1, 0, 8, 1})); }
TEST_P(EveryCut, RecoversOnCoresOfTwoThreads) { cutEverywhere(testing::regularMachine("smt", {1, 1, 1, 4, 2})); }
TEST_P(EveryCut, RecoversOnTwoNodes) { cutEverywhere(testing::regularMachine("nodes", {2, 1, 1, 4, 1})); }

INSTANTIATE_TEST_SUITE_P(Kernel, EveryCut, ::testing::Values(testing::KernelRules::CgroupV1, testing::KernelRules::CgroupV2),
                         [](const auto& kernel) { return kernel.param == testing::KernelRules::CgroupV1 ? "v1" : "v2"; });

}  // namespace
}  // namespace coterie::agent
