#include "plan_node/node_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "allocation/invariants.h"
#include "plan_node/plan_json.h"
#include "plan_node/plan_map.h"
#include "plan_node/plan_rig.h"
#include "plan_node/plan_table.h"
#include "testing/machine_generator.h"
#include "text/text.h"

namespace coterie::plan_node {
namespace {

std::vector<Machine> allMachines() {
  std::vector<Machine> machines;
  for (const std::string_view name : testing::machineNames()) machines.push_back(testing::machineNamed(name));
  for (const int cpus : {8, 64, 128, 256, 512}) machines.push_back(testing::bigMachine(cpus));
  return machines;
}

const Value& at(const Value& value, std::string_view key) {
  static const Value nothing;
  const Value* member = value.find(key);
  EXPECT_NE(member, nullptr) << key;
  return member != nullptr ? *member : nothing;
}
std::string textAt(const Value& value, std::string_view key) {
  const std::string* text = at(value, key).asString();
  return text != nullptr ? *text : "no text";
}
std::int64_t intAt(const Value& value, std::string_view key) {
  const std::int64_t* number = at(value, key).asInt();
  return number != nullptr ? *number : -1;
}
const Value::List& listAt(const Value& value, std::string_view key) {
  static const Value::List nothing;
  const Value::List* list = at(value, key).asList();
  EXPECT_NE(list, nullptr) << key;
  return list != nullptr ? *list : nothing;
}

TEST(NodePlan, IsSoundOnEveryMachineUnderEveryPolicy) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    for (const std::string& name : policyNames()) {
      const NodePlan plan = planNode(machine, file, {*policyNamed(name), {}});
      allocation::Config config;
      config.policy = plan.request.policy;
      for (const allocation::Violation& violation : allocation::checkPlan(plan.snapshot, plan.plan, config))
        ADD_FAILURE() << machine.name << " " << name << " H" << violation.rule << " group " << violation.group.value << " " << violation.what;
      ASSERT_EQ(plan.plan.groups.size(), file.groups.size()) << machine.name;
      for (std::size_t g = 0; g < file.groups.size(); ++g) EXPECT_EQ(plan.plan.groups[g].id.value, static_cast<int>(g));
      EXPECT_TRUE(plan.moves.empty()) << "nobody ran";
      EXPECT_FALSE(plan.costNow) << "nobody ran";
    }
  }
}

TEST(NodePlan, TheGroupThatCannotFitIsPendingAndNamed) {
  const Machine machine = testing::machineNamed("2x2-nodes");
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {});
  EXPECT_EQ(plan.pending, std::vector<std::size_t>{5});
  EXPECT_EQ(pendingText(plan), "1 group is pending: video/greedy");
  EXPECT_EQ(planText(plan).places.rows.back()[4], "pending");
}

// It was told that its floor does not fit; it has none.
TEST(NodePlan, IsolationThatCannotBeHadIsSaidInEveryForm) {
  const Machine machine = testing::machineNamed("2x2-nodes");
  std::string yaml = "tenants:\n  - {name: a}\n  - {name: b}\ngroups:\n";
  for (int g = 0; g < 5; ++g) yaml += "  - {name: n" + std::to_string(g) + ", tenant: " + (g % 2 == 0 ? "a" : "b") + ", isolation: node}\n";
  const GroupsFile file = groupsFrom(yaml);
  const NodePlan plan = planNode(machine, file, {});
  ASSERT_EQ(plan.pending, std::vector<std::size_t>{4});
  EXPECT_EQ(waitsForIsolation(plan, 4), Isolation::Node);
  EXPECT_EQ(waitsForIsolation(plan, 3), Isolation::None);
  EXPECT_EQ(pendingText(plan), "1 group is pending: n4 (isolation node)");
  const PlanText text = planText(plan);
  EXPECT_EQ(text.places.rows.back()[4], "pending (isolation node)");
  ASSERT_GE(text.reasons[4].lines.size(), 6U) << "what, four who have it, what would help";
  EXPECT_EQ(text.reasons[4].lines[0].reason, "IsolationImpossible");
  EXPECT_NE(text.reasons[4].lines[0].sentence.find("it needs 1 NUMA node to itself, and of the 4 here"), std::string::npos);
  EXPECT_EQ(text.reasons[4].lines[1].sentence.rfind("n0 is guaranteed ", 0), 0U) << text.reasons[4].lines[1].sentence;
  const Value json = planValue(plan);
  const Value& group = json.find("groups")->asList()->at(4);
  EXPECT_EQ(*group.find("waitsForIsolation")->asString(), "node");
  const Value& holder = group.find("reasons")->asList()->at(1);
  EXPECT_EQ(*holder.find("other")->asString(), "n0");
  EXPECT_EQ(*holder.find("isolation")->asString(), "node");
  const std::string svg = planMap(plan);
  EXPECT_NE(svg.find("5 n4: pending (isolation node)"), std::string::npos);
  EXPECT_NE(svg.find("isolation node cannot be had"), std::string::npos) << "the tooltip";
}

TEST(NodePlan, WhatIsolationDoesNotGiveIsSaidInEveryForm) {
  const std::string yaml =
      "tenants:\n  - {name: a}\n  - {name: b}\ngroups:\n  - {name: alone, tenant: a, isolation: core}\n  - {name: open, tenant: b}\n";
  Machine machine = testing::machineNamed("2x2-nodes");
  machine.virtualMachine = true;
  const GroupsFile file = groupsFrom(yaml);
  const NodePlan plan = planNode(machine, file, {});
  const std::vector<std::string> gaps = isolationGaps(plan, 0);
  ASSERT_EQ(gaps.size(), 3U);
  EXPECT_NE(gaps[0].find("memory bandwidth"), std::string::npos) << gaps[0];
  EXPECT_NE(gaps[1].find("programs that belong to no group"), std::string::npos) << gaps[1];
  EXPECT_NE(gaps[2].find("virtual machine"), std::string::npos) << gaps[2];
  EXPECT_TRUE(isolationGaps(plan, 1).empty());

  const PlanText text = planText(plan);
  const GroupReasons::Line& line = text.reasons[0].lines.back();
  EXPECT_EQ(line.reason, "Isolated");
  EXPECT_EQ(line.sentence.rfind("isolation core keeps other tenants off its cores. Shared all the same: ", 0), 0U) << line.sentence;
  for (const std::string& gap : gaps) EXPECT_NE(line.sentence.find(gap), std::string::npos) << gap;
  for (const GroupReasons::Line& other : text.reasons[1].lines) EXPECT_NE(other.reason, "Isolated");

  const Value json = planValue(plan);
  EXPECT_EQ(json.find("groups")->asList()->at(0).find("isolationGaps")->asList()->size(), 3U);
  EXPECT_TRUE(json.find("groups")->asList()->at(1).find("isolationGaps")->asList()->empty());
  const std::string svg = planMap(plan);
  EXPECT_NE(svg.find(", isolation core</text>"), std::string::npos) << "the legend";
  EXPECT_NE(svg.find("keeps other tenants off its cores"), std::string::npos) << "its tooltip";
}

TEST(NodePlan, APolicyThatKnowsNoIsolationIsSaidToKeepNobodyAway) {
  const Machine machine = testing::machineNamed("2x2-nodes");
  const GroupsFile file = groupsFrom("tenants:\n  - {name: a}\ngroups:\n  - {name: alone, tenant: a, isolation: core}\n");
  PlanRequest request;
  request.policy = allocation::PolicyName::Balloons;
  const NodePlan plan = planNode(machine, file, request);
  EXPECT_EQ(isolationGaps(plan, 0), std::vector<std::string>{"policy balloons knows no isolation: isolation core keeps nobody away"});
  EXPECT_EQ(isolationReason(plan, 0), isolationGaps(plan, 0).front());
}

TEST(NodePlan, OnceInForceNothingIsWrittenAndNobodyMoves) {
  for (const Machine& machine : allMachines()) {
    GroupsFile file = groupsFor(machine);
    file.groups.pop_back();  // the one that waits
    const NodePlan first = planNode(machine, file, {});
    const GroupsFile running = after(first);
    const NodePlan second = planNode(machine, running, {});
    EXPECT_TRUE(second.plan.steps.empty()) << machine.name << ": " << (second.plan.steps.empty() ? "" : stepName(second.plan.steps.front().kind));
    EXPECT_TRUE(second.moves.empty()) << machine.name;
    ASSERT_TRUE(second.costNow) << machine.name;
    EXPECT_EQ(*second.costNow, second.cost) << machine.name;
    EXPECT_EQ(second.cost, first.cost) << machine.name;
  }
}

TEST(NodePlan, AGroupScatteredOverTheNodesIsGathered) {
  const Machine machine = testing::regularMachine("2 nodes", {2, 1, 1, 4, 1});
  const GroupsFile file = groupsFrom(
      "tenants: [{name: a}, {name: b}]\ngroups:\n  - {name: x, tenant: a, instances: [{home: \"0,2,4,6\"}]}\n"
      "  - {name: y, tenant: b, instances: [{home: \"1,3,5,7\"}]}\n");
  const NodePlan plan = planNode(machine, file, {});
  ASSERT_TRUE(plan.costNow);
  EXPECT_LT(plan.cost, *plan.costNow);
  EXPECT_FALSE(plan.moves.empty());
  for (const ContainerMove& move : plan.moves) {
    EXPECT_EQ(move.from, file.groups[move.group].containers[move.container].home);
    EXPECT_EQ(move.to, plan.plan.groups[move.group].containers[move.container].home);
  }
  const PlanText text = planText(plan);
  EXPECT_EQ(text.moves.rows.size(), plan.moves.size());
  EXPECT_EQ(text.steps.rows.size(), plan.plan.steps.size());
}

TEST(NodePlan, ReservedCpusAreNobodys) {
  const Machine machine = testing::machineNamed("smt-8");
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {allocation::PolicyName::Drc, CpuSet{0, 4}});
  EXPECT_FALSE(plan.usable.intersects(CpuSet{0, 4}));
  for (const allocation::GroupTarget& target : plan.plan.groups) {
    for (const allocation::ContainerTarget& container : target.containers) EXPECT_TRUE((container.home | container.loans).isSubsetOf(plan.usable));
  }
}

TEST(NodePlan, AMachineOfWhichNothingMayBeUsedLeavesEverybodyPending) {
  const Machine machine = testing::machineNamed("flat-2");
  const GroupsFile file = groupsFor(machine);
  const NodePlan plan = planNode(machine, file, {allocation::PolicyName::Drc, machine.online});
  EXPECT_EQ(plan.pending.size(), file.groups.size());
  EXPECT_EQ(plan.cost, 0);
  EXPECT_FALSE(planText(plan).summary.empty());
}

TEST(NodePlan, LoanLanesAreAsManyAsTheCeilingOrTheMachine) {
  const Machine machine = testing::machineNamed("smt-8");
  const GroupsFile file = groupsFrom(
      "tenants: [{name: a}]\ngroups:\n  - {name: open, tenant: a}\n  - {name: ends, tenant: a, maxCpus: 2500m}\n  - {name: says, tenant: a, "
      "loanLanes: 1}\n");
  const NodePlan plan = planNode(machine, file, {});
  EXPECT_EQ(plan.snapshot.groups[0].loanLanes, 8);
  EXPECT_EQ(plan.snapshot.groups[1].loanLanes, 3);
  EXPECT_EQ(plan.snapshot.groups[2].loanLanes, 1);
}

// An init, a sidecar and pauses of two pods: who has what, in all forms, and steady once it is in force. A pause may be found on anybody's CPUs.
TEST(NodePlan, RolesAreShownAndTheirPlanIsSteady) {
  const Machine machine = testing::regularMachine("8", {1, 1, 0, 8, 1});
  const GroupsFile file = groupsFrom(
      "tenants: [{name: a}, {name: b}]\ngroups:\n"
      "  - {name: x, tenant: a, minCpus: 2, maxCpus: 2, instances: [{}, {role: init, minCpus: 3}, {role: sidecar}, {role: pause, home: 0-7}]}\n"
      "  - {name: y, tenant: b, maxCpus: 500m, instances: [{}, {role: pause, home: 0-7}]}\n");
  const NodePlan first = planNode(machine, file, {});
  const auto home = [&](std::size_t group, std::size_t container) { return first.plan.groups[group].containers[container].home; };
  EXPECT_EQ(home(0, 0).count(), 3) << "the app has what its init needs, until it has gone";
  EXPECT_EQ(home(0, 1), home(0, 0));
  EXPECT_EQ(home(0, 2).count(), 1);
  EXPECT_FALSE(home(0, 2).intersects(home(0, 0)));
  EXPECT_EQ(home(0, 3), first.plan.pool);
  EXPECT_EQ(home(1, 1), first.plan.pool);
  const PlanText text = planText(first);
  EXPECT_EQ(text.places.rows[1][3], "1 (init)");
  EXPECT_EQ(text.places.rows[3][4], "pool " + first.plan.pool.toString());
  const GroupsFile running = after(first);
  const NodePlan second = planNode(machine, running, {});
  EXPECT_TRUE(second.plan.steps.empty());
  EXPECT_EQ(second.cost, first.cost);
  EXPECT_EQ(second.costNow.value_or(-1), first.cost);
}

// J as the quality tests compute it, from sets: here only what can be told at a glance.
TEST(NodePlan, CostIsJ) {
  const Machine machine = testing::regularMachine("2 nodes", {2, 1, 1, 2, 1});  // 0-1 | 2-3
  const auto costNow = [&](const std::string& x, const std::string& y) {
    const GroupsFile file = groupsFrom("tenants: [{name: a}, {name: b}]\ngroups:\n  - {name: x, tenant: a, instances: [{home: \"" + x +
                                       "\"}]}\n  - {name: y, tenant: b, instances: [{home: \"" + y + "\"}]}\n");
    return *planNode(machine, file, {}).costNow;
  };
  EXPECT_EQ(costNow("0-1", "2-3"), 0);
  // Each has two CPUs that span the machine: 2*16 + 2*16/4, and two tenants share either cache.
  EXPECT_EQ(costNow("0,2", "1,3"), 4 * (2 * (32 + 8) + 2));
  EXPECT_EQ(costNow("0", "2-3"), 4) << "a cache partly free";
  EXPECT_EQ(costText(0), "0");
  EXPECT_EQ(costText(49), "12.25");
  EXPECT_EQ(costText(6), "1.5");
}

TEST(NodePlan, PoliciesHaveNames) {
  std::set<std::string> seen;
  for (const std::string& name : policyNames()) {
    EXPECT_TRUE(seen.insert(name).second);
    ASSERT_TRUE(policyNamed(name));
    EXPECT_EQ(policyText(*policyNamed(name)), name);
  }
  EXPECT_EQ(policyNames().front(), "drc");
  EXPECT_FALSE(policyNamed("best"));
}

TEST(NodePlan, KubeletsOptionsReachItsPolicy) {
  EXPECT_FALSE(kubeletOptions("full-pcpus"));
  ASSERT_TRUE(kubeletOptions(""));
  const auto options = kubeletOptions("full-pcpus-only,align-by-socket");
  ASSERT_TRUE(options);
  EXPECT_TRUE(options->fullPhysicalCpusOnly && options->alignBySocket);
  EXPECT_FALSE(options->distributeAcrossNuma || options->preferUncoreCache);
}

TEST(PlanTable, HasARowForEveryContainerAndAReasonForEveryGroup) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    const NodePlan plan = planNode(machine, file, {});
    const PlanText text = planText(plan);
    std::size_t containers = 0;
    for (const GroupEntry& group : file.groups) containers += group.containers.size();
    EXPECT_EQ(text.places.rows.size(), containers);
    for (const auto& row : text.places.rows) EXPECT_EQ(row.size(), text.places.header.size());
    for (const auto& row : text.steps.rows) EXPECT_EQ(row.size(), text.steps.header.size());
    ASSERT_EQ(text.reasons.size(), file.groups.size());
    for (const GroupReasons& group : text.reasons) EXPECT_FALSE(group.lines.empty()) << machine.name << " " << group.group;
  }
}

TEST(PlanJson, ParsesAndEqualsThePlan) {
  for (const Machine& machine : allMachines()) {
    const GroupsFile file = groupsFor(machine);
    const NodePlan plan = planNode(machine, file, {});
    const Value made = planValue(plan);
    const auto parsed = text::parseJson(text::printJson(made, text::JsonStyle::Indented));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_TRUE(*parsed == made) << machine.name;
    EXPECT_EQ(textAt(*parsed, "policy"), "drc");
    EXPECT_EQ(textAt(*parsed, "poolCpus"), plan.plan.pool.toString());
    EXPECT_EQ(textAt(at(*parsed, "machine"), "onlineCpus"), machine.online.toString());
    const Value::List& groups = listAt(*parsed, "groups");
    ASSERT_EQ(groups.size(), plan.plan.groups.size());
    std::size_t reasons = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      EXPECT_EQ(textAt(groups[g], "name"), file.groups[g].name);
      EXPECT_EQ(intAt(groups[g], "entitlementMilliCpu"), plan.plan.groups[g].entitlement.value);
      const Value::List& containers = listAt(groups[g], "containers");
      ASSERT_EQ(containers.size(), plan.plan.groups[g].containers.size());
      for (std::size_t c = 0; c < containers.size(); ++c) {
        const allocation::ContainerTarget& target = plan.plan.groups[g].containers[c];
        EXPECT_EQ(textAt(containers[c], "homeCpus"), target.home.toString());
        EXPECT_EQ(textAt(containers[c], "memoryNodes"), target.memoryNodes.toString());
        EXPECT_EQ(textAt(containers[c], "loanCpus"), target.loans.toString());
        EXPECT_EQ(intAt(containers[c], "ownLanes"), target.ownLanes);
        EXPECT_EQ(intAt(containers[c], "loanLanes"), target.awakeLoanLanes);
      }
      reasons += listAt(groups[g], "reasons").size();
    }
    EXPECT_EQ(reasons, plan.plan.reasons.size());
    const Value::List& steps = listAt(*parsed, "steps");
    ASSERT_EQ(steps.size(), plan.plan.steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(textAt(steps[i], "write"), stepName(plan.plan.steps[i].kind));
      EXPECT_EQ(textAt(steps[i], "cpus"), plan.plan.steps[i].cpus.toString());
      EXPECT_EQ(listAt(steps[i], "waitsFor").size(), plan.plan.steps[i].waitsFor.size());
    }
    EXPECT_EQ(listAt(*parsed, "pending").size(), plan.pending.size());
  }
}

TEST(PlanJson, TheSameQuestionHasTheSameAnswerToTheByte) {
  const Machine machine = testing::bigMachine(64);
  const GroupsFile file = groupsFor(machine);
  EXPECT_EQ(text::printJson(planValue(planNode(machine, file, {}))), text::printJson(planValue(planNode(machine, file, {}))));
}

TEST(NodePlan, AWidthIsProposedWhereRunTimesAreGiven) {
  const Machine machine = testing::regularMachine("flat", {1, 1, 0, 4, 1});
  const std::string head = "tenants:\n  - name: a\ngroups:\n  - {name: a/slow, tenant: a, maxInstances: 2, atOnce: 1, arrivals: 12.5, ";
  const std::string curve = "runTimes: [{threads: 1, meanMs: 80, p99Ms: 82}, {threads: 2, meanMs: 45}, {threads: 4, meanMs: 44}]";
  const auto planned = [&](const std::string& yaml) {
    const GroupsFile file = groupsFrom(yaml);
    const NodePlan plan = planNode(machine, file, {});
    const PlanText text = planText(plan);
    EXPECT_EQ(text.widths.rows.size(), 3U);
    EXPECT_EQ(text.reasons[0].lines.back().reason, textAt(at(listAt(planValue(plan), "groups")[0], "width"), "reason"));
    return planValue(plan);
  };
  const Value wide = planned(head + "objective: {latencyMs: 60}, " + curve + "}\n");
  EXPECT_EQ(intAt(at(listAt(wide, "groups")[0], "width"), "threads"), 2);
  EXPECT_EQ(intAt(at(listAt(wide, "groups")[0], "width"), "containers"), 2) << "two servers of two threads";
  const Value narrow = planned(head + curve + "}\n");
  EXPECT_EQ(intAt(at(listAt(narrow, "groups")[0], "width"), "threads"), 1);
  EXPECT_EQ(textAt(at(listAt(narrow, "groups")[0], "width"), "reason"), "MostCapacity");
  const GroupsFile none = groupsFor(machine);
  EXPECT_TRUE(planText(planNode(machine, none, {})).widths.rows.empty());
}

// hwloc 16em64t-4s2c2t: four sockets, one node.
TEST(NodePlan, ANodeOverSeveralSocketsIsOne) {
  Machine machine;
  machine.domains = {
      {DomainLevel::Machine, -1, 0, {0, 1, 2}}, {DomainLevel::Socket, 0, 0, {0}}, {DomainLevel::Node, 1, 0, {0}}, {DomainLevel::Socket, 0, 1, {1}},
      {DomainLevel::Node, 3, 0, {1}},           {DomainLevel::Socket, 0, 2, {2}}, {DomainLevel::Node, 5, 1, {2}}};
  EXPECT_EQ(domainCount(machine, DomainLevel::Node), 2);
  EXPECT_EQ(domainCount(machine, DomainLevel::Socket), 3);
}

}  // namespace
}  // namespace coterie::plan_node
