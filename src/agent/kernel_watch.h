// H1-H7 by what the fake kernel holds, before and after every write that an agent makes: for its histories, and for plans that are cut at each step.
// Tests only. A breach is a sentence in DrcRig::breaches.
//
// H1 one owner per CPU (DrcRig::checkHomes).  H2 lanes are given when their CPUs are there, and loan lanes stay off the group's own CPUs.  H3
// reserved CPUs are in no set.  H4 who has a home is not left without.  H5 no other tenant comes into a unit of an isolated group.  H6 the memory
// nodes cover what is nearest to the home.  H7 no field is written while a write of it hangs. And lanes are spread when the home is there. What is
// done by others (a machine that changes, a foreign write, a specification that is told) is no breach: accept() takes what is there then, and what
// writes under way may still make, for given.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "agent/drc_rig.h"
#include "allocation/isolation.h"
#include "allocation/memory_map.h"

namespace coterie::agent {

// Who stands where he must not: (isolated group, other group, CPU).
using Trespass = std::tuple<GroupId, GroupId, int>;

// By these homes on this machine, a CPU of another tenant's group in a unit of an isolated one.
[[nodiscard]] inline std::set<Trespass> trespassesOf(const DrcRig& rig, const Machine& machine, const std::map<GroupId, CpuSet>& homes) {
  std::set<Trespass> found;
  const std::vector<GroupView> groups = rig.drc->groups();
  for (const GroupView& isolated : groups) {
    const auto own = homes.find(isolated.spec.id);
    if (isolated.spec.isolation == Isolation::None || own == homes.end()) continue;
    const CpuSet units = allocation::unitsOf(machine, own->second, isolated.spec.isolation);
    for (const GroupView& other : groups) {
      const auto theirs = homes.find(other.spec.id);
      if (theirs == homes.end() || other.spec.tenant == isolated.spec.tenant) continue;
      for (const int cpu : theirs->second& units) found.emplace(isolated.spec.id, other.spec.id, cpu);
    }
  }
  return found;
}

class KernelWatch {
 public:
  explicit KernelWatch(DrcRig& rig) : rig_(rig), whole_(*rig.machine.read()) {
    rig_.applier.setBeforeStep([this](const ApplyStep& step) {
      if (step.change.writes.empty()) return ManualApplier::Fate::Made;
      beforeWrite(step);
      if (--left_ != 0) return ManualApplier::Fate::Made;
      hit_ = Hit{writtenBy(step), rig_.loop.now()};
      return fate_;
    });
    rig_.applier.setAfterStep([this] { check(); });
    rig_.lanes.onChange = [this](const LaneAllowance& before, const LaneAllowance& now) { lanesGiven(before, now); };
    accept();
  }
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  struct Hit {
    Written step;
    Instant at;
  };
  // The n-th step from now, counted from 1, meets this fate.
  void cutAt(int step, ManualApplier::Fate fate) {
    left_ = step;
    fate_ = fate;
    hit_.reset();
  }
  void cutNone() { cutAt(-1, ManualApplier::Fate::Made); }
  [[nodiscard]] const std::optional<Hit>& hit() const { return hit_; }
  [[nodiscard]] int writes() const { return writes_; }  // steps that were begun

  void accept() {
    rig_.acceptAstray();
    std::map<GroupId, CpuSet> homes = homesNow();
    for (const InstanceId one : rig_.astray) {  // it goes back there
      if (rig_.groupOf.count(one) > 0) homes[rig_.groupOf.at(one)] |= rig_.home(one.value) | rig_.drc->plannedHome(one);
    }
    for (const ApplyStep* step : rig_.applier.open()) {
      const Written written = writtenBy(*step);
      if (written.field == "home" && rig_.groupOf.count(written.container) > 0) homes[rig_.groupOf.at(written.container)] |= written.set;
    }
    known_ = trespasses(homes);
    online_ = rig_.drc->machine().online;
    for (const auto& [instance, group] : rig_.groupOf) {
      if (farMemory(instance)) far_.insert(instance);
      placed_[instance] = !rig_.home(instance.value).empty();
    }
  }

  void check() {
    lookAtMachine();
    rig_.checkHomes();
    checkIsolation();
    const CpuSet reserved = *rig_.settings.reserved;
    const allocation::MemoryMap memory(rig_.drc->machine());
    for (const auto& [instance, group] : rig_.groupOf) {
      const auto seen = rig_.kernel.observe(instance);
      if (!seen.ok() || seen->vanished) continue;
      const std::string who = "instance " + std::to_string(instance.value);
      if (rig_.astray.count(instance) == 0 && (seen->home | seen->loans).intersects(reserved)) breach("H3: " + who + " is on reserved CPUs");
      if (placed_[instance] && seen->home.empty()) breach("H4: " + who + " has lost its home");
      placed_[instance] = !seen->home.empty();
      if (!seen->memoryNodes.empty() && seen->memoryNodes != CpuSet{0}) memoryWritten_.insert(instance);
      if (memoryWritten_.count(instance) == 0) far_.insert(instance);  // what the fake gives where nothing was written
      if (!farMemory(instance)) {
        far_.erase(instance);
      } else if (far_.count(instance) == 0) {
        breach("H6: " + who + " on " + seen->home.toString() + " has the memory nodes " + seen->memoryNodes.toString());
      }
    }
  }

 private:
  void breach(const std::string& what) { rig_.breaches.push_back(what); }

  [[nodiscard]] std::map<GroupId, CpuSet> homesNow() const {
    std::map<GroupId, CpuSet> homes;
    for (const auto& [instance, group] : rig_.groupOf) {
      if (rig_.astray.count(instance) == 0) homes[group] |= rig_.home(instance.value);
    }
    return homes;
  }

  [[nodiscard]] bool farMemory(InstanceId instance) const {
    const auto seen = rig_.kernel.observe(instance);
    if (!seen.ok() || seen->vanished || seen->home.empty() || rig_.astray.count(instance) > 0) return false;
    const CpuSet needed = allocation::MemoryMap(rig_.drc->machine()).nearest(seen->home);
    return !needed.isSubsetOf(seen->memoryNodes);
  }

  // What the agent does not know of a CPU that has come, and who stands there when it learns of it, is not its doing.
  void lookAtMachine() {
    if (rig_.drc->machine().online == online_) return;
    online_ = rig_.drc->machine().online;
    known_.merge(trespasses(homesNow()));
  }

  // Units are those of the whole machine, so that they are the same whatever goes offline and whenever the agent sees it.
  [[nodiscard]] std::set<Trespass> trespasses(std::map<GroupId, CpuSet> homes) const {
    for (auto& [group, home] : homes) home &= rig_.machine.read()->online & rig_.drc->machine().online;
    return trespassesOf(rig_, whole_, homes);
  }

  void checkIsolation() {
    for (const Trespass& one : trespasses(homesNow())) {
      if (known_.count(one) > 0) continue;
      breach("H5: group " + std::to_string(std::get<1>(one).value) + " on CPU " + std::to_string(std::get<2>(one)) + " in a unit of group " +
             std::to_string(std::get<0>(one).value));
    }
  }

  void beforeWrite(const ApplyStep& step) {
    ++writes_;
    lookAtMachine();
    const Written written = writtenBy(step);
    for (const ApplyStep* other : rig_.applier.hanging()) {
      const Written hanging = writtenBy(*other);
      if (hanging.field != written.field || hanging.container != written.container || written.field.empty()) continue;
      breach("H7: " + written.field + " of instance " + std::to_string(written.container.value) + " is written while such a write hangs");
    }
    if (written.field == "home" && rig_.groupOf.count(written.container) > 0) noteVisit(written);
    if (written.field != "spread") return;
    for (const ApplyStep* other : rig_.applier.open()) {
      const Written home = writtenBy(*other);
      if (home.field == "home" && home.container == written.container)
        breach("lanes of instance " + std::to_string(written.container.value) + " are spread before its home is there");
    }
  }

  // Who is in another's way may step aside onto a CPU of the pool, where he does not stay.
  void noteVisit(const Written& home) {
    const GroupId group = rig_.groupOf.at(home.container);
    for (const int cpu : home.set - rig_.home(home.container.value) - rig_.drc->plannedHome(home.container)) {
      for (const auto& [member, cpus] : rig_.pooled) {
        if (member != group && cpus.contains(cpu)) rig_.visiting.emplace(cpu, group);
      }
    }
  }

  void lanesGiven(const LaneAllowance& before, const LaneAllowance& now) {
    const auto seen = rig_.kernel.observe(now.instance);
    if (!seen.ok()) return;
    const std::string who = "H2: instance " + std::to_string(now.instance.value) + " is given ";
    if (now.ownLanes > before.ownLanes && now.ownLanes > std::max(1, seen->home.count()))
      breach(who + std::to_string(now.ownLanes) + " lanes on " + std::to_string(seen->home.count()) + " CPUs");
    if (now.loanLanes > before.loanLanes && seen->loans.intersects(seen->home) && rig_.astray.count(now.instance) == 0)
      breach(who + "loan lanes on its own CPUs");
  }

  DrcRig& rig_;
  Machine whole_;
  std::set<Trespass> known_;
  CpuSet online_;             // as the agent knew it when that was accepted
  std::set<InstanceId> far_;  // whose memory was not near when that was accepted
  std::set<InstanceId> memoryWritten_;
  std::map<InstanceId, bool> placed_;
  int left_{-1};
  ManualApplier::Fate fate_{ManualApplier::Fate::Made};
  std::optional<Hit> hit_;
  int writes_{0};
};

}  // namespace coterie::agent
