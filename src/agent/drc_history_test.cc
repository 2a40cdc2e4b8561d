// Random histories of everything that can happen to an agent, by the fake kernel's rules (cgroups v1 and v2): services and workers come, go, resize
// and are isolated, CPUs vanish, somebody else writes, writes fail or hang and land late, the agent is killed between two writes and starts again
// with or without its journal. H1-H7 hold after every write (kernel_watch.h), a hung write keeps no plan waiting, and once faults end everything
// settles into a valid state that no further plan changes.
//
// COTERIE_HISTORIES: how many (200). COTERIE_HISTORY_SEED: replay one seed, verbosely. A failure prints the seed that replays it.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "agent/drc_rig.h"
#include "agent/kernel_watch.h"
#include "base/rng.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

constexpr int kLanes = 4;  // own lanes of each worker
constexpr int kEvents = 25;
constexpr int kPausesUntilRest = 8;

Machine someMachine(Rng& rng) {
  const char* names[] = {"flat2", "flat4", "smt", "nodes", "nodes of two cores"};
  const testing::MachineShape shapes[] = {{1, 1, 0, 2, 1}, {1, 1, 0, 4, 1}, {1, 1, 0, 4, 2}, {2, 2, 0, 2, 1}, {1, 2, 1, 2, 2}};
  const auto shape = static_cast<std::size_t>(rng.between(0, 4));
  return testing::regularMachine(names[shape], shapes[shape]);
}

DrcConfig someConfig(Rng& rng, const Machine& machine) {
  DrcConfig config;
  config.reserved = CpuSet{};
  if (machine.online.count() > 2 && rng.chance(25)) config.reserved->add(machine.online.first());
  return config;
}

class History {
 public:
  explicit History(std::uint64_t seed)
      : rng_(seed),
        whole_(someMachine(rng_)),
        isolation_(rng_.chance(40)),
        disturbs_(rng_.chance(25)),
        rig_(whole_, &journal_, someConfig(rng_, whole_), rng_.chance(50) ? testing::KernelRules::CgroupV1 : testing::KernelRules::CgroupV2),
        watch_(rig_) {}

  // Empty if all went well, else what went wrong.
  std::string run() {
    for (int i = 0; i < kEvents && problem_.empty(); ++i) event();
    if (problem_.empty()) calm();
    if (problem_.empty()) checkCalm();
    return problem_;
  }
  // What happened, for a failing seed.
  [[nodiscard]] const std::string& story() const { return story_; }
  [[nodiscard]] const std::string& machine() const { return whole_.name; }
  // Events, and writes that were begun.
  [[nodiscard]] std::int64_t steps() const { return events_ + watch_.writes(); }

 private:
  void say(const std::string& text) { story_ += text + "\n"; }
  void fail(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }
  // True if anything was written since the last note.
  bool note() {
    const std::vector<std::string> operations = rig_.kernel.takeOperations();
    for (const std::string& operation : operations) story_ += "  " + operation + "\n";
    for (const GroupView& view : rig_.drc->groups()) {
      story_ += "  = group " + std::to_string(view.spec.id.value) + (view.inPool ? " pool" : "") + (view.pending ? " pending" : "");
      for (const ContainerView& container : view.containers) {
        story_ += " | " + std::to_string(container.instance.value) + (container.stuck ? " stuck" : "") + " wants " + container.home.toString() +
                  " has " + rig_.home(container.instance.value).toString();
      }
      story_ += "\n";
    }
    // Where somebody else wrote, what stands beside whom, or far from its memory, is his doing, too, until all has settled.
    if (disturbed_)
      std::erase_if(rig_.breaches, [](const std::string& one) { return !one.starts_with("H2") && !one.starts_with("H4") && !one.starts_with("H7"); });
    if (!rig_.breaches.empty()) fail(rig_.breaches.front());
    return !operations.empty();
  }

  // ---- events ----
  void event() {
    ++events_;
    const bool killing = rng_.chance(10);
    if (killing) watch_.cutAt(static_cast<int>(rng_.between(1, 6)), ManualApplier::Fate::Killed);
    const std::int64_t plans = rig_.drc->view().plans;
    const bool planned = happen();
    watch_.accept();
    if (planned && !killing && rng_.chance(30)) {
      rig_.loop.advance(100ms + hangs_ * 60ms);  // one after the other may hang, and each is given up after 1.5 deadlines of 20 ms at most
      if (rig_.drc->view().plans == plans) fail("a hung write keeps a plan waiting");
    }
    rig_.loop.advance(Millis{rng_.chance(50) ? 0 : rng_.between(1, 1500)});
    if (watch_.hit() || (killing && rng_.chance(30))) restart();
    watch_.cutNone();
    watch_.check();
    if (rng_.chance(50)) endPending();
    note();
  }
  // True if it asks for a plan.
  bool happen() {
    switch (rng_.between(0, 12)) {
      case 0:
      case 1:
      case 2: return add(), true;
      case 3: return end();
      case 4: return resize(), false;
      case 5: return rig_.queue(anyGroup(), rng_.between(0, 80), Millis{rng_.between(1, 50)}), false;
      case 6:
      case 7: return fault(), false;
      case 8: return heal(), false;
      case 9: return hotplug(), false;
      case 10: return disturb(), false;
      case 11: return remove(), false;
      default: return false;
    }
  }
  int anyGroup() { return static_cast<int>(rng_.between(1, 6)); }
  GroupSpec someSpec(int group) {
    GroupSpec spec = rig_.spec(group, rng_.between(1, 300));
    spec.floor = MilliCpu(rng_.chance(30) ? 1000 : 0);
    if (isolation_ && rng_.chance(30)) spec.isolation = static_cast<Isolation>(rng_.between(1, 3));
    return spec;
  }
  void tell(const GroupSpec& spec) {
    specs_[spec.id] = spec;
    rig_.drc->setGroup(spec);
  }
  void add() {
    const int group = anyGroup();
    tell(someSpec(group));
    const int instance = nextInstance_++;
    say("add " + std::to_string(group) + "/" + std::to_string(instance));
    if (rng_.chance(50)) rig_.starting(group, instance);
    rig_.ready(group, instance, kLanes, static_cast<int>(rng_.between(0, 2)));
  }
  bool end() {
    if (rig_.groupOf.empty()) return false;
    auto chosen = rig_.groupOf.begin();
    std::advance(chosen, rng_.between(0, static_cast<std::int64_t>(rig_.groupOf.size()) - 1));
    say("end " + std::to_string(chosen->first.value));
    rig_.ended(chosen->first.value);
    return true;
  }
  void resize() {
    const int group = anyGroup();
    if (specs_.count(GroupId(group)) == 0) return;
    say("resize " + std::to_string(group));
    tell(someSpec(group));
  }
  void remove() {
    const int group = anyGroup();
    say("remove " + std::to_string(group));
    rig_.drc->removeGroup(GroupId(group));
    specs_.erase(GroupId(group));
  }
  void fault() {
    constexpr CpuChangeKind kKinds[] = {CpuChangeKind::HomeCpus, CpuChangeKind::HomeCpus,    CpuChangeKind::HomeCpus, CpuChangeKind::HomeCpus,
                                        CpuChangeKind::LoanCpus, CpuChangeKind::MemoryNodes, CpuChangeKind::LaneCpus, CpuChangeKind::Weight};
    const CpuChangeKind kind = kKinds[rng_.between(0, 7)];
    const InstanceId id(static_cast<int>(rng_.between(std::max(1, nextInstance_ - 8), nextInstance_)));
    const bool hangs = rng_.chance(50);
    say((hangs ? "hang " : "fail ") + std::to_string(id.value) + " kind " + std::to_string(static_cast<int>(kind)));
    hangs ? rig_.kernel.hang(id, kind) : rig_.kernel.fail(id, kind, EIO);
    hangs_ += hangs ? 1 : 0;
  }
  void heal() {
    say("heal");
    rig_.kernel.heal();
    if (rng_.chance(40)) rig_.applier.release(0, 1);  // the first of them returns before the others, or after
    rig_.applier.release(rng_.chance(50) ? 0 : EINTR, rng_.chance(25) ? 1 : ManualApplier::kAll);
    hangs_ = static_cast<int>(rig_.applier.hanging().size());
  }
  void online(const CpuSet& cpus) {
    say("online " + cpus.toString());
    rig_.kernel.setOnline(cpus);
    rig_.machine.set(testing::withOnline(whole_, cpus, cpus));
  }
  void hotplug() {
    CpuSet cpus = whole_.online;
    for (const int cpu : whole_.online) {
      if (rng_.chance(25)) cpus.remove(cpu);
    }
    const bool none = (cpus - *rig_.settings.reserved).empty();
    online(none || rng_.chance(40) ? whole_.online : cpus);
  }
  void disturb() {
    if (!disturbs_ || rig_.groupOf.empty()) return;
    const InstanceId id = rig_.groupOf.begin()->first;
    if (rig_.home(id.value).empty()) return;
    say("disturb " + std::to_string(id.value));
    disturbed_ = true;
    rig_.astray.insert(id);
    rig_.kernel.disturb(id, rig_.machine.read()->online);
  }
  // Another agent finds what this one left. Groups that were removed are unknown to it: their workers are ended by whoever starts it.
  void restart() {
    const auto inFlight = rng_.chance(50) ? ManualApplier::InFlight::Made : ManualApplier::InFlight::Lost;
    const bool lost = rng_.chance(30);
    say(std::string("kill") + (lost ? ", journal lost" : "") + (inFlight == ManualApplier::InFlight::Made ? ", what hangs is made" : ""));
    if (lost) journal_ = {};
    std::erase_if(rig_.groupOf, [this](const auto& entry) {
      if (specs_.count(entry.second) > 0) return false;
      rig_.kernel.endProcess(rig_.processes.at(entry.first).pid);
      return true;
    });
    std::vector<GroupSpec> specs;
    for (const auto& [id, spec] : specs_) specs.push_back(spec);
    rig_.restart(inFlight, journal_, specs);
    watch_.cutNone();
    watch_.accept();
    rig_.settle();
  }
  // As the instance reconciler does when it is told.
  void endPending() {
    for (const GroupView& view : rig_.drc->groups()) {
      for (const ContainerView& container : view.containers) {
        if (!view.pending || rig_.groupOf.count(container.instance) == 0) continue;
        say("end pending " + std::to_string(container.instance.value));
        rig_.ended(container.instance.value);
      }
    }
    rig_.settle();
  }

  // ---- the end ----
  // No more faults; everything comes back; time passes.
  void calm() {
    heal();
    rig_.applier.release();
    online(whole_.online);
    watch_.accept();
    for (auto& [group, sample] : rig_.demand) sample = {};
    rig_.loop.advance(5s);
    endPending();
    rig_.loop.advance(70s);  // contested ones are left alone for a minute
    note();
    // Optional moves may follow one another, and a group waits between two of its own.
    for (int pauses = 0; pauses < kPausesUntilRest; ++pauses) {
      rig_.loop.advance(rig_.settings.allocation.optionalMoveInterval + 1s);
      if (!note()) return;
    }
  }

  void checkCalm() {
    if (!rig_.drc->settled()) return fail("it does not settle");
    if (rig_.applier.hurries()) return fail("it hurries with nothing to do");
    rig_.pooled.clear();
    rig_.late.clear();
    disturbed_ = false;
    watch_.check();
    for (const auto& [instance, group] : rig_.groupOf) checkSettled(instance, group);
    note();
    rig_.drc->setLending(true);  // one more plan
    rig_.loop.advance(5s);
    const auto more = rig_.kernel.takeOperations();
    if (!more.empty()) fail("it does not come to rest: " + more.front());
  }

  void checkSettled(InstanceId instance, GroupId group) {
    const auto view = rig_.drc->explainGroup(group);
    if (!view || view->pending) return;
    const std::string who = "instance " + std::to_string(instance.value) + " ";
    const ObservedContainer seen = *rig_.kernel.observe(instance);
    const LaneAllowance lanes = rig_.allowed(instance.value);
    if (seen.home.empty()) return fail(who + "has no home");
    if (seen.home != rig_.drc->plannedHome(instance)) fail(who + "is not where it should be");
    if (seen.memoryNodes != allocation::MemoryMap(whole_).nearest(seen.home)) fail(who + "has the memory nodes " + seen.memoryNodes.toString());
    if (lanes.loanLanes != 0) fail(who + "still borrows");
    bool alone = !view->inPool;
    for (const auto& [other, otherGroup] : rig_.groupOf) alone = alone && (other == instance || !rig_.home(other.value).intersects(seen.home));
    const int most = std::min(kLanes, seen.home.count());
    if (lanes.ownLanes < 1 || (alone && lanes.ownLanes != most)) fail(who + "has " + std::to_string(lanes.ownLanes) + " lanes");
  }

  Rng rng_;
  Machine whole_;
  bool isolation_;
  bool disturbs_;          // somebody else writes
  bool disturbed_{false};  // he did
  MemoryHomeJournal journal_;
  DrcRig rig_;
  KernelWatch watch_;
  std::map<GroupId, GroupSpec> specs_;
  int nextInstance_{1};
  int hangs_{0};  // since faults were healed last
  std::int64_t events_{0};
  std::string problem_;
  std::string story_;
};

TEST(DrcHistories, HardRulesHoldAfterEveryWriteAndEverythingSettles) {
  const char* replay = std::getenv("COTERIE_HISTORY_SEED");
  const char* wanted = std::getenv("COTERIE_HISTORIES");
  const std::uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 10) : 0;
  const std::uint64_t histories = replay != nullptr ? 1 : wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200;
  std::int64_t steps = 0;
  for (std::uint64_t seed = first; seed < first + histories; ++seed) {
    History history(seed);
    const std::string problem = history.run();
    steps += history.steps();
    if (replay != nullptr) std::cerr << history.story();
    ASSERT_TRUE(problem.empty()) << "on " << history.machine() << ", after " << steps << " steps; replay with COTERIE_HISTORY_SEED=" << seed
                                 << " agent_test --gtest_filter=DrcHistories.*\n"
                                 << problem << "\n"
                                 << history.story();
  }
  std::cout << steps << " steps in " << histories << " histories\n";
}

}  // namespace
}  // namespace coterie::agent
