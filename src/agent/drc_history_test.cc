// Random histories of everything that can happen to an agent, by the fake kernel's rules: no CPU has two owners after any write, whatever fails or
// hangs, and once faults end everything settles into a valid state that no further plan changes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <iterator>

#include "agent/drc_rig.h"
#include "base/rng.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

class History {
 public:
  History(const Machine& machine, std::uint64_t seed) : rng_(seed), rig_(machine), whole_(machine) {}

  void event() {
    const std::size_t breaches = rig_.breaches.size();
    happen();
    rig_.loop.advance(Millis{rng_.chance(50) ? 0 : rng_.between(1, 1500)});
    rig_.checkHomes();
    if (rng_.chance(50)) endPending();
    note();
    if (rig_.breaches.size() > breaches) story_ += "  BREACH " + rig_.breaches.back() + "\n";
  }
  // What happened, for a failing seed.
  [[nodiscard]] const std::string& story() const { return story_; }
  void note() {
    for (const std::string& operation : rig_.kernel.takeOperations()) story_ += "  " + operation + "\n";
    for (const GroupView& view : rig_.drc->groups()) {
      story_ += "  = group " + std::to_string(view.spec.id.value) + (view.inPool ? " pool" : "") + (view.pending ? " pending" : "");
      for (const ContainerView& container : view.containers) {
        story_ += " | " + std::to_string(container.instance.value) + (container.stuck ? " stuck" : "") + " wants " + container.home.toString() +
                  " has " + rig_.home(container.instance.value).toString();
      }
      story_ += "\n";
    }
  }

 private:
  void say(const std::string& text) { story_ += text + "\n"; }
  void happen() {
    switch (rng_.between(0, 11)) {
      case 0:
      case 1: add(); break;
      case 2: end(); break;
      case 3: resize(); break;
      case 4: rig_.queue(anyGroup(), rng_.between(0, 80), Millis{rng_.between(1, 50)}); break;
      case 5: fault(); break;
      case 6: heal(); break;
      case 7: hotplug(); break;
      case 8: disturb(); break;
      case 9: remove(); break;
      default: break;
    }
  }

 public:
  // No more faults; everything comes back; time passes.
  void calm() {
    heal();
    online(whole_.online);
    for (auto& [group, sample] : rig_.demand) sample = {};
    rig_.loop.advance(5s);
    endPending();
    rig_.loop.advance(5s);
    note();
  }
  // As the instance reconciler does when it is told.
  void endPending() {
    for (const GroupView& view : rig_.drc->groups()) {
      for (const ContainerView& container : view.containers) {
        if (!view.pending) continue;
        say("end pending " + std::to_string(container.instance.value));
        rig_.ended(container.instance.value);
      }
    }
    rig_.settle();
  }
  [[nodiscard]] DrcRig& rig() { return rig_; }
  [[nodiscard]] bool disturbed() const { return disturbed_; }

 private:
  int anyGroup() { return static_cast<int>(rng_.between(1, 6)); }
  void add() {
    const int group = anyGroup();
    GroupSpec spec = rig_.spec(group, rng_.between(1, 300));
    spec.floor = MilliCpu(rng_.chance(30) ? 1000 : 0);
    rig_.drc->setGroup(spec);
    const int instance = nextInstance_++;
    say("add " + std::to_string(group) + "/" + std::to_string(instance));
    if (rng_.chance(50)) rig_.starting(group, instance);
    rig_.ready(group, instance, 4, static_cast<int>(rng_.between(0, 2)));
  }
  void end() {
    if (rig_.groupOf.empty()) return;
    auto chosen = rig_.groupOf.begin();
    std::advance(chosen, rng_.between(0, static_cast<std::int64_t>(rig_.groupOf.size()) - 1));
    say("end " + std::to_string(chosen->first.value));
    rig_.ended(chosen->first.value);
  }
  void resize() {
    const int group = anyGroup();
    say("resize " + std::to_string(group));
    if (rig_.drc->explainGroup(GroupId(group))) rig_.drc->setGroup(rig_.spec(group, rng_.between(1, 300)));
  }
  void remove() {
    const int group = anyGroup();
    say("remove " + std::to_string(group));
    rig_.drc->removeGroup(GroupId(group));
  }
  InstanceId anyInstance() { return InstanceId(static_cast<int>(rng_.between(1, nextInstance_))); }
  void fault() {
    const auto kind = rng_.chance(70) ? CpuChangeKind::HomeCpus : CpuChangeKind::LoanCpus;
    const InstanceId id = anyInstance();
    const bool hangs = rng_.chance(50);
    say((hangs ? "hang " : "fail ") + std::to_string(id.value));
    hangs ? rig_.kernel.hang(id, kind) : rig_.kernel.fail(id, kind, 5);
  }
  void heal() {
    say("heal");
    rig_.kernel.heal();
    rig_.applier.release(rng_.chance(50) ? 0 : 4);
  }
  void online(const CpuSet& cpus) {
    say("online " + cpus.toString());
    rig_.kernel.setOnline(cpus);
    rig_.machine.set(testing::withOnline(whole_, cpus, cpus));
  }
  void hotplug() {
    CpuSet cpus = whole_.online;
    for (const int cpu : whole_.online) {
      if (rng_.chance(25) && cpus.count() > 1) cpus.remove(cpu);
    }
    online(rng_.chance(40) ? whole_.online : cpus);
  }
  void disturb() {
    if (rig_.groupOf.empty() || rng_.chance(70)) return;
    const InstanceId id = rig_.groupOf.begin()->first;
    if (rig_.home(id.value).empty()) return;
    disturbed_ = true;  // from here on overlaps are somebody else's doing until repaired
    say("disturb " + std::to_string(id.value));
    rig_.kernel.disturb(id, rig_.machine.read()->online);
  }

  Rng rng_;
  DrcRig rig_;
  Machine whole_;
  int nextInstance_{1};
  bool disturbed_{false};
  std::string story_;
};

void runHistory(const Machine& machine, std::uint64_t seed, int events) {
  SCOPED_TRACE(machine.name + " seed " + std::to_string(seed));
  History history(machine, seed);
  DrcRig& rig = history.rig();
  for (int i = 0; i < events && rig.breaches.empty(); ++i) history.event();
  if (!history.disturbed()) {
    EXPECT_TRUE(rig.breaches.empty()) << history.story();
  }
  history.calm();
  EXPECT_TRUE(rig.drc->settled()) << history.story();
  rig.breaches.clear();
  rig.pooled.clear();
  rig.late.clear();
  rig.checkHomes();
  EXPECT_TRUE(rig.breaches.empty()) << rig.breaches.front() << "\n" << history.story();
  for (const auto& [instance, group] : rig.groupOf) {
    const auto view = rig.drc->explainGroup(group);
    if (!view || view->pending) continue;
    EXPECT_FALSE(rig.home(instance.value).empty()) << "instance " << instance.value << "\n" << history.story();
    EXPECT_EQ(rig.home(instance.value), rig.drc->plannedHome(instance)) << "instance " << instance.value << "\n" << history.story();
    EXPECT_GE(rig.allowed(instance.value).ownLanes, 1);
    EXPECT_EQ(rig.allowed(instance.value).loanLanes, 0);
  }
  static_cast<void>(rig.kernel.takeOperations());
  rig.drc->setLending(true);  // one more plan
  rig.loop.advance(5s);
  const auto more = rig.kernel.takeOperations();
  EXPECT_TRUE(more.empty()) << more.front() << "\n" << history.story();
}

RC_GTEST_PROP(DrcHistories, NoCpuHasTwoOwnersAndEverythingSettles, (std::uint32_t seed)) {
  Rng rng(seed);
  const char* names[] = {"flat2", "flat4", "smt", "nodes"};
  const int shape = static_cast<int>(rng.between(0, 3));
  const testing::MachineShape shapes[] = {{1, 1, 0, 2, 1}, {1, 1, 0, 4, 1}, {1, 1, 0, 4, 2}, {2, 2, 0, 2, 1}};
  runHistory(testing::regularMachine(names[shape], shapes[shape]), seed, 25);
  RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
}  // namespace coterie::agent
