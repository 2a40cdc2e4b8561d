// What Drc's tests stand on: a clock moved by hand, the fake kernel, an applier that runs on the loop and can be told to hang, a listener that
// remembers. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/drc.h"
#include "linux/execute_write.h"
#include "testing/fake_cpu_controller.h"
#include "testing/machine_generator.h"
#include "testing/manual_loop.h"

namespace coterie::agent {

// Executes batches on the loop. A write that answers FakeCpuController::kHangs keeps its step running until release(); what does not wait for it goes
// on only after helpOut(), as with one real thread.
class ManualApplier final : public StepApplier {
 public:
  explicit ManualApplier(EventLoop& loop) : loop_(loop) {}
  void setProgress(std::function<void()> progress) override { progress_ = std::move(progress); }
  void submit(std::shared_ptr<ApplyBatch> batch) override {
    batches_.push_back(std::move(batch));
    if (!occupied_) wake();
  }
  void helpOut(std::shared_ptr<ApplyBatch> batch) override {
    ++helped_;
    run(batch);
  }
  // Hung writes return: with this error, or having been made now.
  void release(int error = 0) {
    occupied_ = false;
    for (auto& [batch, step] : std::exchange(hung_, {})) {
      batch->finish(step, error != 0 ? error : std::max(0, linux::executeChange(batch->step(step).change)));
      batches_.insert(batches_.begin(), batch);
    }
    wake();
  }
  void setAfterStep(std::function<void()> check) { afterStep_ = std::move(check); }
  [[nodiscard]] int helped() const { return helped_; }

 private:
  void wake() {
    loop_.post([this] {
      for (const auto& batch : std::exchange(batches_, {})) run(batch);
    });
  }
  void run(const std::shared_ptr<ApplyBatch>& batch) {
    for (int index = batch->claim(); index >= 0; index = batch->claim()) {
      const auto step = static_cast<std::size_t>(index);
      const int error = linux::executeChange(batch->step(step).change);
      if (error == testing::FakeCpuController::kHangs) {
        hung_.emplace_back(batch, step);
        occupied_ = true;
        break;  // this thread is stuck; another comes with helpOut()
      }
      batch->finish(step, error);
      if (afterStep_) afterStep_();
    }
    if (progress_) progress_();
  }
  EventLoop& loop_;
  std::function<void()> progress_, afterStep_;
  std::vector<std::shared_ptr<ApplyBatch>> batches_;
  std::vector<std::pair<std::shared_ptr<ApplyBatch>, std::size_t>> hung_;
  bool occupied_{false};
  int helped_{0};
};

class MachineStub final : public MachineSource {
 public:
  explicit MachineStub(Machine machine) : machine_(std::move(machine)) {}
  [[nodiscard]] Result<Machine> read() override { return machine_; }
  [[nodiscard]] Result<MachineSets> poll() override { return MachineSets{machine_.online, machine_.allowed}; }
  void set(Machine machine) { machine_ = std::move(machine); }

 private:
  Machine machine_;
};

struct LaneLog final : Drc::Listener {
  std::map<InstanceId, LaneAllowance> lanes;
  std::vector<std::string> events;  // "lanes 1: 2+0", "pending 3"
  std::vector<std::string>* shared{nullptr};
  std::map<GroupId, int> told;
  void lanesChanged(GroupId group, const std::vector<LaneAllowance>& changed) override {
    ++told[group];
    for (const LaneAllowance& lane : changed) {
      if (lanes.count(lane.instance) > 0 && lanes[lane.instance] == lane) continue;
      lanes[lane.instance] = lane;
      events.push_back("lanes " + std::to_string(lane.instance.value) + ": " + std::to_string(lane.ownLanes) + "+" + std::to_string(lane.loanLanes));
    }
  }
  void pendingChanged(GroupId group, bool pending) override { events.push_back((pending ? "pending " : "fits ") + std::to_string(group.value)); }
};

[[nodiscard]] inline Machine flatMachine(int cpus) { return testing::regularMachine("flat", {1, 1, 0, cpus, 1}); }

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
  std::unique_ptr<Drc> drc;

  explicit DrcRig(int cpus, HomeJournal* journal = nullptr, DrcConfig config = {}) : DrcRig(flatMachine(cpus), journal, std::move(config)) {}
  explicit DrcRig(const Machine& shape, HomeJournal* journal = nullptr, DrcConfig config = {},
                  testing::KernelRules rules = testing::KernelRules::CgroupV1)
      : machine(shape), kernel(shape.online, rules) {
    if (!config.reserved) config.reserved = CpuSet{};
    drc = std::make_unique<Drc>(Drc::Ports{loop, kernel, machine, applier, journal != nullptr ? *journal : ownJournal, lanes,
                                           [this](GroupId group) { return demand[group]; }, [] { return std::string("kubelet"); }},
                                config);
    applier.setAfterStep([this] { checkHomes(); });
    EXPECT_TRUE(drc->start().ok());
  }
  GroupSpec spec(int id, std::int64_t weight = 100) {
    GroupSpec group;
    group.id = GroupId(id);
    group.service = {"ns", "service" + std::to_string(id)};
    group.tenant = TenantId(id);
    group.tenantWeight = weight;
    return group;
  }
  void starting(int group, int instance) { drc->instanceStarting(GroupId(group), InstanceId(instance)); }
  void ready(int group, int instance, int ownLanes = 4, int loanLanes = 2, int width = 1) {
    const ContainerRegistration container = kernel.spawn(InstanceId(instance), ownLanes, loanLanes);
    processes[InstanceId(instance)] = container;
    groupOf[InstanceId(instance)] = GroupId(group);
    InstanceReady said;
    said.pid = container.pid;
    said.width = width;
    said.ownLaneThreads = container.ownLaneThreads;
    said.loanLaneThreads = container.loanLaneThreads;
    said.serviceThreads = container.serviceThreads;
    drc->instanceReady(GroupId(group), InstanceId(instance), said);
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
  // H1 by what the kernel holds, after every write: one owner per CPU, unless both came to it as members of the pool.
  void checkHomes() {
    std::set<GroupId> pool;
    for (const GroupView& view : drc->groups()) {
      if (view.inPool) pool.insert(view.spec.id);
      // A write that was right when the group was in the pool may land much later: it counts as the pool's until it has been set right.
      bool stuck = false;
      bool astray = false;
      for (const ContainerView& container : view.containers) {
        stuck = stuck || container.stuck;
        astray = astray || home(container.instance.value) != container.home;
      }
      if (view.inPool && stuck) late.insert(view.spec.id);
      if (!stuck && !astray) late.erase(view.spec.id);
    }
    pool.insert(late.begin(), late.end());
    std::map<GroupId, CpuSet> held, wanted;
    for (const auto& [instance, group] : groupOf) {
      const auto seen = kernel.observe(instance);
      if (seen.ok() && !seen->vanished) held[group] |= seen->home;
      wanted[group] |= drc->plannedHome(instance);
    }
    std::map<int, GroupId> owner;
    for (const auto& [group, cpus] : held) {
      const CpuSet claimed = cpus | wanted[group];
      pooled[group] = pool.count(group) > 0 ? claimed : pooled[group] & claimed;
      for (const int cpu : cpus) {
        const auto [found, fresh] = owner.try_emplace(cpu, group);
        if (fresh || mayOverlap || (pooled[group].contains(cpu) && pooled[found->second].contains(cpu))) continue;
        breaches.push_back("cpu " + std::to_string(cpu) + ": groups " + std::to_string(group.value) + " and " + std::to_string(found->second.value));
      }
    }
  }
  std::set<GroupId> late;
  std::map<GroupId, CpuSet> pooled;  // CPUs a group still has, or has a place on, from when it was in the pool
  bool mayOverlap{false};
};

}  // namespace coterie::agent
