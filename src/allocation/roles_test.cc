// Shapes of groups with roles, and what their containers get of a group's CPUs.
#include "allocation/roles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "allocation/assignment.h"
#include "allocation/stories.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

struct Member {
  ContainerRole role;
  int floor;
  const char* home;
};
constexpr ContainerRole kApp = ContainerRole::App;
constexpr ContainerRole kInit = ContainerRole::Init;
constexpr ContainerRole kSidecar = ContainerRole::Sidecar;
constexpr ContainerRole kPause = ContainerRole::Pause;

GroupState groupOf(std::int64_t floor, const std::vector<Member>& members, Isolation isolation = Isolation::None) {
  GroupState group;
  group.id = GroupId(1);
  group.floor = MilliCpu(floor);
  group.ceiling = MilliCpu(std::max<std::int64_t>(1, floor));
  group.isolation = isolation;
  for (const Member& member : members) {
    ContainerState& made = group.containers.emplace_back();
    made.id = InstanceId(static_cast<std::int32_t>(group.containers.size()));
    made.role = member.role;
    made.floor = MilliCpu(member.floor);
    made.home = set(member.home);
  }
  return group;
}

TEST(Roles, TheShapeIsTheLargestNeed) {
  struct Case {
    const char* what;
    std::int64_t floor;
    std::vector<Member> members;
    int shapeFloor;
    int least;
    std::string shown;  // "app 0-1, sidecar 2"
    Isolation isolation{Isolation::None};
  };
  const Case cases[] = {
      {"apps alone", 1500, {{kApp, 0, "0"}, {kApp, 0, "1"}}, 1500, 1, "app 0, app 1"},
      {"a small init", 2000, {{kApp, 0, "0-1"}, {kInit, 1000, "0"}}, 2000, 1, "app 0-1"},
      {"a large init", 2000, {{kApp, 0, "0-1"}, {kInit, 5000, "0-4"}}, 5000, 1, "app 0-4"},
      {"of two inits the larger", 0, {{kApp, 0, ""}, {kInit, 500, "0"}, {kInit, 700, "0"}}, 700, 1, "app 0"},
      {"an init alone", 2000, {{kInit, 1000, "3"}}, 2000, 1, "app 3"},
      {"a sidecar beside an app", 2000, {{kSidecar, 500, "0"}, {kApp, 0, "1-2"}}, 3000, 2, "app 1-2, sidecar 0"},
      {"a sidecar that asks for nothing", 2000, {{kApp, 0, "1"}, {kSidecar, 0, "0"}}, 3000, 2, "app 1, sidecar 0"},
      {"one CPU does not keep two apart", 1000, {{kApp, 0, "1"}, {kSidecar, 0, "0"}}, 2000, 2, "app 1, sidecar 0"},
      {"small ones in the pool", 300, {{kApp, 0, ""}, {kSidecar, 200, ""}}, 500, 2, "app , sidecar "},
      {"small ones that are isolated", 300, {{kApp, 0, ""}, {kSidecar, 200, ""}}, 2000, 2, "app , sidecar ", Isolation::Core},
      {"sidecars beside an init", 1000, {{kInit, 3000, "0-2"}, {kSidecar, 1000, "3"}}, 4000, 2, "app 0-2, sidecar 3"},
      {"sidecars alone", 0, {{kSidecar, 1000, "3"}, {kSidecar, 1000, "4"}}, 2000, 1, "app 3, app 4"},
      {"pauses do not count", 1000, {{kPause, 0, "0-7"}, {kApp, 0, "2"}}, 1000, 1, "app 2"},
      {"pauses alone", 3000, {{kPause, 0, "0-7"}, {kPause, 0, "0-7"}}, 0, 1, "app ", Isolation::Node},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const GroupState shape = shapeOf(groupOf(one.floor, one.members, one.isolation));
    EXPECT_EQ(shape.floor.value, one.shapeFloor);
    EXPECT_GE(shape.ceiling, shape.floor);
    EXPECT_EQ(leastCpus(shape), one.least);
    std::string text;
    for (const ContainerState& container : shape.containers)
      text += (text.empty() ? "" : ", ") + std::string(containerRoleName(container.role)) + " " + container.home.toString();
    EXPECT_EQ(text, one.shown);
  }
}

TEST(Roles, SidecarsHaveTheirPartAndAppsShareTheRest) {
  const Machine machine = testing::regularMachine("2x4", {2, 1, 0, 4, 1});
  const Layout layout = makeLayout(machine, {});
  struct Case {
    const char* what;
    std::vector<int> cpus;
    std::vector<Positions> held;
    std::vector<int> sizes;
    std::vector<Positions> wanted;
  };
  const Case cases[] = {
      {"fresh", {0, 1, 2, 3}, {{}, {}}, {0, 1}, {{0, 1, 2}, {3}}},
      {"what is held stays", {0, 1, 2, 3}, {{1, 2, 3}, {0}}, {0, 1}, {{1, 2, 3}, {0}}},
      {"a sidecar grows", {0, 1, 2, 3}, {{1, 2, 3}, {0}}, {0, 2}, {{1, 2}, {0, 3}}},
      {"two apps share what is left evenly", {0, 1, 2, 3, 4}, {{}, {}, {}}, {0, 0, 1}, {{0, 1}, {2, 3}, {4}}},
      {"two apps on one CPU", {0, 1}, {{0}, {1}, {}}, {0, 0, 1}, {{0}, {0}, {1}}},
      {"both held one CPU", {0, 1}, {{0}, {0}}, {0, 1}, {{0}, {1}}},
      {"too few for that", {0}, {{}, {}}, {0, 1}, {{0}, {0}}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const std::vector<Positions> parts = assignContainers(layout, one.cpus, one.held, one.sizes);
    EXPECT_EQ(parts, one.wanted);
    EXPECT_EQ(assignContainers(layout, one.cpus, parts, one.sizes), parts) << "what is held is kept";
  }
}

// A group with a sidecar owns CPUs only where they keep the two apart; else both are in the pool.
TEST(Roles, AGroupThatIsEntitledToTooFewIsInThePoolWithItsSidecar) {
  const Machine machine = testing::regularMachine("3", {1, 1, 0, 3, 1});
  SnapshotBuilder builder(machine);
  builder.group(1);
  builder.addContainer(builder.group(2)).role = ContainerRole::Sidecar;
  const Plan plan = decide(builder.snapshot, {});  // 1.5 CPUs each
  EXPECT_FALSE(plan.groups[0].inPool);
  EXPECT_TRUE(plan.groups[1].inPool);
  for (const ContainerTarget& container : plan.groups[1].containers) EXPECT_EQ(container.home, plan.pool);
  builder.snapshot.groups[1].tenantWeight = 300;  // 2.25
  const Plan later = decide(builder.snapshot, {});
  EXPECT_FALSE(later.groups[1].inPool);
  EXPECT_FALSE(later.groups[1].containers[0].home.intersects(later.groups[1].containers[1].home));
}

TEST(Roles, OnlyAppsBorrowAndPausesWeighNothing) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  builder.group(1);
  GroupState& busy = builder.group(2);
  for (const ContainerRole role : {kSidecar, kPause, kInit}) builder.addContainer(busy).role = role;
  for (ContainerState& container : busy.containers) container.cpuWeight = 100;
  busy.loanLanes = 2;
  busy.demand = MilliCpu(8000);
  busy.queuedBeyondOwnLanes = true;
  const Plan plan = decide(builder.snapshot, {});
  const auto& targets = plan.groups[1].containers;
  EXPECT_EQ(targets[0].awakeLoanLanes, 2);
  for (std::size_t c = 1; c < targets.size(); ++c) EXPECT_EQ(targets[c].awakeLoanLanes, 0);
  for (const Step& step : plan.steps) {
    if (step.kind == StepKind::SetWeight) {
      EXPECT_EQ(step.weight, step.container == targets[2].id ? 1 : 100);
    }
  }
}

TEST(Roles, WhatTheyAddIsSaid) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  SnapshotBuilder builder(machine);
  GroupState& group = asking(builder, 1, 2);
  builder.addContainer(group).role = kInit;
  group.containers.back().floor = MilliCpu(3000);
  builder.addContainer(group).role = kSidecar;
  const Plan plan = decide(builder.snapshot, {});
  const auto says = [&](ReasonCode code, std::int64_t a, std::int64_t b) {
    return std::find(plan.reasons.begin(), plan.reasons.end(), Reason{group.id, code, a, b, {}}) != plan.reasons.end();
  };
  EXPECT_TRUE(says(ReasonCode::SizedByInit, 3000, 2000));
  EXPECT_TRUE(says(ReasonCode::SidecarsApart, 1, 0));
}

}  // namespace
}  // namespace coterie::allocation
