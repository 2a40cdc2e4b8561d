// What Drc's tests stand on: a clock moved by hand, the fake kernel, an applier that runs on the loop and can be told to hang, a listener that
// remembers. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/drc.h"
#include "linux/execute_write.h"
#include "testing/fake_cache_classes.h"
#include "testing/fake_cpu_controller.h"
#include "testing/machine_generator.h"
#include "testing/manual_loop.h"

namespace coterie::agent {

// What a step asks of the fake kernel, by its first write: "home 7 0-1".
struct Written {
  std::string field;
  InstanceId container;
  CpuSet set;
};
[[nodiscard]] inline Written writtenBy(const ApplyStep& step) {
  Written written;
  if (step.change.writes.empty()) return written;
  std::istringstream words(step.change.writes.front().payload);
  std::string set;
  words >> written.field >> written.container.value >> set;
  if (written.field != "home" && written.field != "spread") return written;
  if (const auto parsed = CpuSet::parse(set == "-" ? "" : set)) written.set = *parsed;
  return written;
}

// Executes batches on the loop. A write that answers FakeCpuController::kHangs keeps its step running until release(); what does not wait for it goes
// on only after helpOut(), as with one real thread.
class ManualApplier final : public StepApplier {
 public:
  explicit ManualApplier(EventLoop& loop) : loop_(loop) {}
  void setProgress(std::function<void()> progress) override { progress_ = std::move(progress); }
  void submit(std::shared_ptr<ApplyBatch> batch) override {
    std::erase_if(given_, [](const auto& one) { return one.expired() || one.lock()->allFinal(); });
    given_.push_back(batch);
    batches_.push_back(std::move(batch));
    if (!occupied_) wake();
  }
  void helpOut(std::shared_ptr<ApplyBatch> batch) override {
    ++helped_;
    run(batch);
  }
  void hurry(bool wanted) override { hurries_ = wanted; }
  [[nodiscard]] bool hurries() const { return hurries_; }
  // Hung writes return, the last that hung first: with this error, or having been made now.
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();
  void release(int error = 0, std::size_t most = kAll) {
    std::vector<std::pair<std::shared_ptr<ApplyBatch>, std::size_t>> returning;
    for (; !hung_.empty() && returning.size() < most; hung_.pop_back()) returning.push_back(hung_.back());
    occupied_ = !hung_.empty();
    for (auto& [batch, step] : returning) {
      batch->finish(step, error != 0 ? error : std::max(0, linux::executeChange(batch->step(step).change)));
      if (error == 0 && afterStep_) afterStep_();
      batches_.insert(batches_.begin(), batch);
    }
    wake();
  }
  // The agent was killed: nothing that waits is ever made. What the kernel is at may still be made.
  enum class InFlight : std::uint8_t { Lost, Made };
  void killed(InFlight inFlight) {
    for (auto& [batch, step] : std::exchange(hung_, {})) {
      if (inFlight == InFlight::Made) static_cast<void>(linux::executeChange(batch->step(step).change));
    }
    batches_.clear();
    given_.clear();
    progress_ = nullptr;
    occupied_ = false;
    cut_ = false;
  }
  // What becomes of a step. Killed: the agent is, before this step, and nothing is made any more until killed() is told.
  enum class Fate { Made, Failed, Hung, Killed };
  void setBeforeStep(std::function<Fate(const ApplyStep& step)> hook) { beforeStep_ = std::move(hook); }
  void setAfterStep(std::function<void()> check) { afterStep_ = std::move(check); }
  [[nodiscard]] int helped() const { return helped_; }
  // Steps of all batches that may still be made, with those that hang.
  [[nodiscard]] std::vector<const ApplyStep*> open() const {
    std::vector<const ApplyStep*> steps;
    for (const auto& one : given_) {
      const auto batch = one.lock();
      for (std::size_t i = 0; batch && i < batch->size(); ++i) {
        if (batch->state(i) == ApplyState::Waiting || batch->state(i) == ApplyState::Running) steps.push_back(&batch->step(i));
      }
    }
    return steps;
  }
  [[nodiscard]] std::vector<const ApplyStep*> hanging() const {
    std::vector<const ApplyStep*> steps;
    for (const auto& [batch, step] : hung_) steps.push_back(&batch->step(step));
    return steps;
  }

 private:
  void wake() {
    loop_.post([this] {
      if (cut_) return;
      for (const auto& batch : std::exchange(batches_, {})) run(batch);
    });
  }
  void run(const std::shared_ptr<ApplyBatch>& batch) {
    if (cut_) return;
    for (int index = batch->claim(); index >= 0; index = batch->claim()) {
      const auto step = static_cast<std::size_t>(index);
      const Fate fate = beforeStep_ ? beforeStep_(batch->step(step)) : Fate::Made;
      cut_ = fate == Fate::Killed;
      if (cut_) return;
      int error = fate == Fate::Failed ? EIO : testing::FakeCpuController::kHangs;
      if (fate == Fate::Made) error = linux::executeChange(batch->step(step).change);
      if (error == testing::FakeCpuController::kHangs) {
        hung_.emplace_back(batch, step);
        occupied_ = true;
        if (afterStep_) afterStep_();
        break;  // this thread is stuck; another comes with helpOut()
      }
      batch->finish(step, error);
      if (afterStep_) afterStep_();
    }
    if (progress_) progress_();
  }
  EventLoop& loop_;
  std::function<void()> progress_, afterStep_;
  std::function<Fate(const ApplyStep&)> beforeStep_;
  std::vector<std::shared_ptr<ApplyBatch>> batches_;
  std::vector<std::weak_ptr<ApplyBatch>> given_;
  std::vector<std::pair<std::shared_ptr<ApplyBatch>, std::size_t>> hung_;
  bool occupied_{false};
  bool cut_{false};
  int helped_{0};
  bool hurries_{false};
};

class MachineStub final : public MachineSource {
 public:
  explicit MachineStub(Machine machine) : machine_(std::move(machine)) {}
  [[nodiscard]] Result<Machine> read() override { return machine_; }
  [[nodiscard]] Result<MachineSets> poll() override { return MachineSets{machine_.online, machine_.allowed}; }
  // All of it, unless told otherwise.
  [[nodiscard]] std::vector<NodeFree> memoryFree() override {
    std::vector<NodeFree> free;
    for (const MemoryNode& node : machine_.memoryNodes) {
      const auto told = free_.find(node.id);
      free.push_back({node.id, told != free_.end() ? told->second : node.size});
    }
    return free;
  }
  void set(Machine machine) { machine_ = std::move(machine); }
  void setFree(int node, Bytes free) { free_[node] = free; }

 private:
  Machine machine_;
  std::map<int, Bytes> free_;
};

struct LaneLog final : Drc::Listener {
  std::map<InstanceId, LaneAllowance> lanes;
  std::vector<std::string> events;  // "lanes 1: 2+0", "pending 3"
  std::vector<std::string>* shared{nullptr};
  std::map<GroupId, int> told;
  std::function<void(const LaneAllowance& before, const LaneAllowance& now)> onChange;
  void lanesChanged(GroupId group, const std::vector<LaneAllowance>& changed) override {
    ++told[group];
    for (const LaneAllowance& lane : changed) {
      if (onChange) onChange(lanes[lane.instance], lane);
      if (lanes.count(lane.instance) > 0 && lanes[lane.instance] == lane) continue;
      lanes[lane.instance] = lane;
      events.push_back("lanes " + std::to_string(lane.instance.value) + ": " + std::to_string(lane.ownLanes) + "+" + std::to_string(lane.loanLanes));
    }
  }
  void pendingChanged(GroupId group, bool pending) override { events.push_back((pending ? "pending " : "fits ") + std::to_string(group.value)); }
};

[[nodiscard]] inline Machine flatMachine(int cpus) { return testing::regularMachine("flat", {1, 1, 0, cpus, 1}); }

// The clock stands still between most tests' events: by the product's rule each would be of one burst with the one before.
enum class Bursts : std::uint8_t { Never, AsInTheProduct };

struct DrcRig {
  testing::ManualLoop loop;
  MachineStub machine;
  testing::FakeCpuController kernel;
  ManualApplier applier{loop};
  MemoryHomeJournal ownJournal;
  LaneLog lanes;
  std::map<GroupId, DemandSample> demand;
  std::map<InstanceId, ContainerRegistration> processes;
  std::map<InstanceId, GroupId> groupOf;
  std::vector<std::string> breaches;
  DrcConfig settings;
  HomeJournal* journal;
  std::unique_ptr<testing::FakeCacheClasses> classes;    // none: the kernel's are not looked for
  std::map<InstanceId, std::vector<int>> moreProcesses;  // beside the one that was told
  std::unique_ptr<Drc> drc;

  explicit DrcRig(int cpus, HomeJournal* kept = nullptr, DrcConfig config = {}) : DrcRig(flatMachine(cpus), kept, std::move(config)) {}
  explicit DrcRig(const Machine& shape, HomeJournal* kept = nullptr, DrcConfig config = {},
                  testing::KernelRules rules = testing::KernelRules::CgroupV1, Bursts bursts = Bursts::Never)
      : machine(shape), kernel(shape.online, rules), settings(std::move(config)), journal(kept != nullptr ? kept : &ownJournal) {
    if (!settings.reserved) settings.reserved = CpuSet{};
    if (bursts == Bursts::Never) settings.burstQuiet = Nanos{0};
    applier.setAfterStep([this] { checkHomes(); });
    begin();
  }
  void begin() {
    drc = std::make_unique<Drc>(Drc::Ports{loop, kernel, machine, applier, *journal, lanes, [this](GroupId group) { return demand[group]; },
                                           [] { return std::string("kubelet"); }, classes.get(), [this](InstanceId id) { return processesOf(id); }},
                                settings);
    EXPECT_TRUE(drc->start().ok());
  }
  // Anew, on a kernel with these cache classes; before anything is told.
  void useClasses(std::unique_ptr<testing::FakeCacheClasses> kernelsClasses) {
    drc.reset();
    classes = std::move(kernelsClasses);
    begin();
  }
  [[nodiscard]] std::vector<int> processesOf(InstanceId id) const {
    std::vector<int> all;
    if (const auto first = processes.find(id); first != processes.end()) all.push_back(first->second.pid);
    if (const auto more = moreProcesses.find(id); more != moreProcesses.end()) all.insert(all.end(), more->second.begin(), more->second.end());
    return all;
  }
  // The agent was killed, its containers live on, and another one finds them: all are told in one turn, as at start.
  void restart(ManualApplier::InFlight inFlight, HomeJournal& with, const std::vector<GroupSpec>& specs) {
    static_cast<void>(noteHeld());  // who was in the pool by the last plan: what hangs may be made by it
    drc.reset();
    applier.killed(inFlight);
    kernel.agentKilled();
    lanes.lanes.clear();
    late.clear();
    journal = &with;
    begin();
    for (const GroupSpec& group : specs) drc->setGroup(group);
    for (const auto& [instance, group] : groupOf) drc->instanceStarting(group, instance);
    for (const auto& [instance, group] : groupOf) tellReady(group, processes.at(instance));
    static_cast<void>(noteHeld());  // who is in the pool by a hint
  }
  GroupSpec spec(int id, std::int64_t weight = 100) {
    GroupSpec group;
    group.id = GroupId(id);
    group.service = {"ns", "service" + std::to_string(id)};
    group.tenant = TenantId(id);
    group.tenantWeight = weight;
    return group;
  }
  void starting(int group, int instance, Bytes expected = {}) { drc->instanceStarting(GroupId(group), InstanceId(instance), expected); }
  void ready(int group, int instance, int ownLanes = 4, int loanLanes = 2, Bytes resident = {}, int width = 1) {
    const ContainerRegistration container = kernel.spawn(InstanceId(instance), ownLanes, loanLanes);
    processes[InstanceId(instance)] = container;
    groupOf[InstanceId(instance)] = GroupId(group);
    tellReady(GroupId(group), container, resident, width);
  }
  void tellReady(GroupId group, const ContainerRegistration& container, Bytes resident = {}, int width = 1) {
    InstanceReady said;
    said.pid = container.pid;
    said.width = width;
    said.ownLaneThreads = container.ownLaneThreads;
    said.loanLaneThreads = container.loanLaneThreads;
    said.serviceThreads = container.serviceThreads;
    said.steadyMemory = said.peakMemory = resident;
    drc->instanceReady(group, container.id, said);
    if (resident.value > 0) kernel.setMemory(container.id, {resident, 0});
  }
  void ended(int instance) {
    kernel.endProcess(processes.at(InstanceId(instance)).pid);
    groupOf.erase(InstanceId(instance));
    drc->instanceEnded(InstanceId(instance));
  }
  void add(int group, int instance, int ownLanes = 4, int loanLanes = 2) {
    drc->setGroup(spec(group));
    ready(group, instance, ownLanes, loanLanes);
  }
  void settle() { loop.runUntilIdle(); }
  [[nodiscard]] CpuSet home(int instance) const {
    const auto seen = kernel.observe(InstanceId(instance));
    return seen.ok() ? seen->home : CpuSet{};
  }
  [[nodiscard]] CpuSet loans(int instance) const { return kernel.observe(InstanceId(instance))->loans; }
  [[nodiscard]] LaneAllowance allowed(int instance) const {
    const auto found = lanes.lanes.find(InstanceId(instance));
    return found == lanes.lanes.end() ? LaneAllowance{} : found->second;
  }
  void queue(int group, std::int64_t queued, Millis run) {
    demand[GroupId(group)] = {MilliRps(queued * 1000), run, queued, queued > 0};
    if (queued > 0) drc->demandChanged(GroupId(group));
  }
  // What every group holds; what it has, or has a place on, from when it was in the pool is noted.
  std::map<GroupId, CpuSet> noteHeld() {
    std::set<InstanceId> hangs;  // also before it is found to
    for (const ApplyStep* step : applier.hanging()) {
      if (const Written written = writtenBy(*step); written.field == "home") hangs.insert(written.container);
    }
    std::set<GroupId> pool;
    for (const GroupView& view : drc->groups()) {
      if (view.inPool) pool.insert(view.spec.id);
      // A write that was right when the group was in the pool may land much later: it counts as the pool's until it has been set right.
      bool stuck = false;
      bool moving = false;
      for (const ContainerView& container : view.containers) {
        stuck = stuck || container.stuck || hangs.count(container.instance) > 0;
        moving = moving || home(container.instance.value) != container.home;
      }
      if (view.inPool && stuck) late.insert(view.spec.id);
      if (!stuck && !moving) late.erase(view.spec.id);
    }
    pool.insert(late.begin(), late.end());
    // An agent that starts anew takes what it finds for planned, and moves it if it may not be there.
    std::erase_if(astray, [this](InstanceId one) {
      if (groupOf.count(one) == 0) return true;
      const CpuSet now = home(one.value);
      return now == drc->plannedHome(one) && !(now | loans(one.value)).intersects(*settings.reserved);
    });
    std::map<GroupId, CpuSet> held, wanted;
    for (const auto& [instance, group] : groupOf) {
      const auto seen = kernel.observe(instance);
      if (seen.ok() && !seen->vanished && astray.count(instance) == 0) held[group] |= seen->home;
      wanted[group] |= drc->plannedHome(instance);
    }
    for (const auto& [group, cpus] : held) {
      const CpuSet claimed = cpus | wanted[group];
      pooled[group] = pool.count(group) > 0 ? claimed : pooled[group] & claimed;
    }
    return held;
  }
  // H1 by what the kernel holds, after every write: one owner per CPU, unless both came to it as members of the pool.
  void checkHomes() {
    std::map<GroupId, CpuSet> held = noteHeld();
    if (applier.open().empty()) std::erase_if(visiting, [&](const auto& one) { return !held[one.second].contains(one.first); });
    std::map<int, GroupId> owner;
    for (const auto& [group, cpus] : held) {
      for (const int cpu : cpus) {
        const auto [found, fresh] = owner.try_emplace(cpu, group);
        if (!fresh && shared.count({cpu, found->second, group}) > 0) continue;
        if (!fresh && ((visiting.count({cpu, group}) > 0 && pooled[found->second].contains(cpu)) ||
                       (visiting.count({cpu, found->second}) > 0 && pooled[group].contains(cpu))))
          continue;
        if (fresh || mayOverlap || (pooled[group].contains(cpu) && pooled[found->second].contains(cpu))) continue;
        breaches.push_back("cpu " + std::to_string(cpu) + ": groups " + std::to_string(group.value) + " and " + std::to_string(found->second.value));
      }
    }
  }
  // Groups that share CPUs since such a write do so until one of them has left.
  void acceptAstray() {
    std::map<GroupId, CpuSet> held;
    for (const auto& [instance, group] : groupOf) held[group] |= home(instance.value);
    std::erase_if(shared, [&](const auto& one) { return !(held[std::get<1>(one)] & held[std::get<2>(one)]).contains(std::get<0>(one)); });
    for (const InstanceId one : astray) {
      if (groupOf.count(one) == 0) continue;
      for (const auto& [group, cpus] : held) {
        const auto pair = std::minmax(group, groupOf.at(one));
        for (const int cpu : home(one.value) & cpus) shared.emplace(cpu, pair.first, pair.second);
      }
    }
  }
  std::set<InstanceId> astray;                         // somebody else set their CPUs, and that is not put right yet
  std::set<std::pair<int, GroupId>> visiting;          // CPUs of the pool onto which somebody steps aside
  std::set<std::tuple<int, GroupId, GroupId>> shared;  // CPUs that are, since somebody else's write
  std::set<GroupId> late;
  std::map<GroupId, CpuSet> pooled;  // CPUs a group still has, or has a place on, from when it was in the pool
  bool mayOverlap{false};
};

}  // namespace coterie::agent
