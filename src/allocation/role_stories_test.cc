// Failures that others shipped around init, sidecar and pause containers: see stories.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "allocation/stories.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

InstanceId add(SnapshotBuilder& builder, GroupState& group, ContainerRole role, int milliCpus = 0) {
  ContainerState& made = builder.addContainer(group);
  made.role = role;
  made.floor = MilliCpu(milliCpus);
  return made.id;
}

CpuSet homeOf(const Plan& plan, std::size_t group, InstanceId id) {
  for (const ContainerTarget& container : plan.groups[group].containers) {
    if (container.id == id) return container.home;
  }
  return {};
}

void end(GroupState& group, InstanceId id) {
  std::erase_if(group.containers, [&](const ContainerState& container) { return container.id == id; });
}

Plan applied(Snapshot& snapshot, PolicyName policy) {
  Plan plan = decide(snapshot, under(policy));
  applyAll(snapshot, plan);
  return plan;
}

// k#105114, k#107906: removing the init container freed CPUs that the app still held, and they were given out a second time.
TEST(Stories, AnInitThatEndsFreesOnlyWhatNobodyElseHolds) {
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
    SnapshotBuilder builder(machine);
    GroupState& pod = asking(builder, 1, 2);
    const InstanceId app = pod.containers.front().id;
    const InstanceId init = add(builder, pod, ContainerRole::Init, 1000);
    const Plan first = applied(builder.snapshot, policy);
    if (!homeOf(first, 0, init).intersects(homeOf(first, 0, app))) return "the app does not take over what the init had";
    end(pod, init);
    asking(builder, 2, 6);
    const Plan plan = applied(builder.snapshot, policy);
    if (homeOf(plan, 0) != homeOf(first, 0, app)) return "the app was moved to " + homeOf(plan, 0).toString();
    if (plan.groups[1].pending || homeOf(plan, 1).count() != 6) return "what the init left is not to be had";
    return homeOf(plan, 1).intersects(homeOf(plan, 0)) ? "a CPU of the app was given out" : "";
  });
}

// The same where the app is not there yet: it begins on what its init held.
TEST(Stories, AnAppBeginsWhereItsInitRan) {
  rightUnderDrcAndWrongUnder(PolicyName::NoneSingle, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("2x4", {2, 1, 0, 4, 1});
    SnapshotBuilder builder(machine);
    asking(builder, 1, 3);
    GroupState& pod = asking(builder, 2, 2);
    pod.containers.front().role = ContainerRole::Init;
    pod.containers.front().floor = MilliCpu(2000);
    const InstanceId init = pod.containers.front().id;
    const CpuSet before = homeOf(applied(builder.snapshot, policy), 1, init);
    if (before.count() != 2) return "the init runs on " + before.toString();
    const InstanceId app = add(builder, pod, ContainerRole::App);
    if (homeOf(applied(builder.snapshot, policy), 1, app) != before) return "the app begins elsewhere";
    end(pod, init);
    return homeOf(applied(builder.snapshot, policy), 1, app) == before ? "" : "the app was moved";
  });
}

// k#112228, k#124797: an init larger than its app kept CPUs that nobody used from then on.
TEST(Stories, AnInitLargerThanTheAppGivesBackWhatTheAppDoesNotNeed) {
  rightUnderDrcAndWrongUnder(PolicyName::Balloons, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
    SnapshotBuilder builder(machine);
    GroupState& pod = asking(builder, 1, 2);
    const InstanceId app = pod.containers.front().id;
    const InstanceId init = add(builder, pod, ContainerRole::Init, 4000);
    asking(builder, 2, 4);
    const CpuSet large = homeOf(applied(builder.snapshot, policy), 0, init);
    if (large.count() != 4) return "the init has " + large.toString();
    end(pod, init);
    const CpuSet small = homeOf(applied(builder.snapshot, policy), 0, app);
    if (small.count() != 2 || !small.isSubsetOf(large)) return "the app has " + small.toString();
    asking(builder, 3, 2);
    const Plan plan = applied(builder.snapshot, policy);
    return homeOf(plan, 2) == large - small ? "" : "what the init needed is stranded";
  });
}

// k#119442: a sidecar is an init container that goes on, so its CPUs are not the app's.
TEST(Stories, ASidecarNeverSharesWithTheApp) {
  for (const int sidecarNeeds : {0, 250, 2000}) {
    rightUnderDrcAndWrongUnder(PolicyName::Balloons, [&](PolicyName policy) -> std::string {
      const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
      SnapshotBuilder builder(machine);
      GroupState& pod = asking(builder, 1, 3);
      const InstanceId app = pod.containers.front().id;
      const InstanceId init = add(builder, pod, ContainerRole::Init, 1000);
      const InstanceId sidecar = add(builder, pod, ContainerRole::Sidecar, sidecarNeeds);
      for (const bool initEnded : {false, true}) {
        if (initEnded) end(pod, init);
        const Plan plan = applied(builder.snapshot, policy);
        const CpuSet apart = homeOf(plan, 0, sidecar);
        if (apart.count() != std::max(1, sidecarNeeds / 1000)) return "the sidecar has " + apart.toString();
        if (apart.intersects(homeOf(plan, 0, app)) || apart.intersects(homeOf(plan, 0, init))) return "they share " + apart.toString();
        if (homeOf(plan, 0, app).count() < 3) return "the app pays for its sidecar";
      }
      return "";
    });
  }
}

// k#123816: 2 x 32 CPUs; a pod whose init needs 1 and whose app needs 26 was placed by its init, so that the second such pod had no node to fit in.
TEST(Stories, AGroupIsPlacedByItsLargestShapeSoTheSecondFitsTheOtherNode) {
  rightUnderDrcAndWrongUnder(PolicyName::KubeletStatic, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("2x32", {2, 1, 0, 32, 1});
    SnapshotBuilder builder(machine);
    for (const std::size_t pod : {std::size_t{0}, std::size_t{1}}) {
      GroupState& group = asking(builder, static_cast<int>(pod), 26);
      const InstanceId init = add(builder, group, ContainerRole::Init, 1000);
      const Plan plan = applied(builder.snapshot, policy);
      std::set<int> nodes;
      for (const int cpu : homeOf(plan, pod)) nodes.insert(machine.findCpu(cpu)->node);
      if (plan.groups[pod].pending || nodes.size() != 1) return "pod " + std::to_string(pod) + " is on " + homeOf(plan, pod).toString();
      if (homeOf(plan, pod).count() != 26 || !homeOf(plan, pod, init).isSubsetOf(homeOf(plan, pod, group.containers.front().id)))
        return "the init is not where the app is";
      if (pod == 1 && homeOf(plan, 1).intersects(machine.domains[static_cast<std::size_t>(machine.findCpu(0)->node)].cpus)) return "both on node 0";
    }
    return "";
  });
}

// containerd#10155: pause containers kept the CPUs that they were begun on, and so stood on what others own alone.
TEST(Stories, PauseContainersFollowThePoolAndStandOnNobodysOwnCpus) {
  rightUnderDrcAndWrongUnder(PolicyName::KubeletStatic, [](PolicyName policy) -> std::string {
    const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
    SnapshotBuilder builder(machine);
    GroupState& owner = asking(builder, 1, 3);
    const InstanceId app = owner.containers.front().id;
    const InstanceId pause = add(builder, owner, ContainerRole::Pause);
    owner.containers.back().home = machine.online;  // as it was begun
    GroupState& shares = builder.group(2);
    shares.ceiling = MilliCpu(500);
    const InstanceId other = add(builder, shares, ContainerRole::Pause);
    const Plan plan = applied(builder.snapshot, policy);
    for (const auto& [group, id] : {std::pair(std::size_t{0}, pause), std::pair(std::size_t{1}, other)}) {
      const CpuSet home = homeOf(plan, group, id);
      if (home.empty() || home != plan.pool) return "a pause is on " + home.toString() + ", the pool is " + plan.pool.toString();
      if (home.intersects(homeOf(plan, 0, app))) return "a pause is on CPUs that somebody owns";
    }
    // The pool has gone: each stands on its own group's CPUs, which disturbs nobody.
    shares.ceiling = MilliCpu(100'000);
    shares.floor = MilliCpu(5000);
    const Plan without = applied(builder.snapshot, policy);
    if (homeOf(without, 0, pause).intersects(homeOf(without, 1, shares.containers.front().id))) return "a pause is on another group's CPUs";
    return homeOf(without, 0, pause).empty() ? "a pause has no CPU" : "";
  });
}

}  // namespace
}  // namespace coterie::allocation
