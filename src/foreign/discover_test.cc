// Scans of processes and what is found in them: tables, then stories.
#include "foreign/discover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "foreign/pattern.h"
#include "foreign/roster.h"

namespace coterie::foreign {
namespace {

const std::string kId = "3f2a9c0d1e4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeef";
const std::string kOther = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const std::string kPod = "8d4c0a8e-5b7f-4d6c-9e1a-2f3b4c5d6e7f";

MemberRule byCommand(std::string pattern) {
  MemberRule rule;
  rule.command = std::move(pattern);
  return rule;
}
MemberRule byPids(std::vector<int> pids) {
  MemberRule rule;
  rule.pids = std::move(pids);
  return rule;
}

// "group: pid+pid, pid; group: ..." of what was found.
std::string shown(const Discovery& found) {
  std::string text;
  for (const FoundContainer& container : found.containers) {
    text += (text.empty() ? "" : "; ") + std::to_string(container.group) + ":";
    for (const SeenProcess& process : container.processes) text += " " + std::to_string(process.pid);
  }
  return text;
}

TEST(Pattern, StarsAndMarks) {
  struct Case {
    const char* pattern;
    const char* text;
    bool match;
  };
  for (const Case& one : {Case{"", "", true},
                          {"", "a", false},
                          {"*", "", true},
                          {"*", "a/b", true},
                          {"a*", "ab", true},
                          {"a*", "ba", false},
                          {"*b", "aab", true},
                          {"a*b*c", "axxbyyc", true},
                          {"a*b*c", "axxbyy", false},
                          {"?", "", false},
                          {"??", "ab", true},
                          {"a?c", "abc", true},
                          {"**", "x", true},
                          {"*ab*ab", "abab", true},
                          {"*aab", "aaab", true},
                          {"[a]", "a", false}})
    EXPECT_EQ(matches(one.pattern, one.text), one.match) << one.pattern << " on " << one.text;
}

TEST(Discover, PlainProcessesAndWhatTheyBegan) {
  const std::vector<SeenProcess> processes = {
      {1, 0, 1, "/sbin/init", "/"},
      {10, 1, 5, "/opt/triton/bin/tritonserver --port 1", "/"},
      {11, 10, 6, "python worker.py", "/"},  // begun by 10
      {12, 11, 7, "python helper.py", "/"},  // and by that
      {20, 1, 8, "/opt/triton/bin/tritonserver --port 2", "/"},
      {30, 10, 9, "ovms --port 3", "/"},  // of another group, although begun by 10
      {31, 30, 10, "sh", "/"},
      {40, 2, 2, "", "/"},  // the kernel's
      {50, 1, 11, "bash", "/"},
  };
  const std::vector<GroupRules> groups = {{"triton", {byCommand("tritonserver *")}}, {"ovms", {byCommand("ovms*")}}};
  const Discovery found = discover(groups, processes, 99);
  EXPECT_EQ(shown(found), "0: 10 11 12; 0: 20; 1: 30 31");
  EXPECT_EQ(found.containers[0].key, "10@5");
  EXPECT_TRUE(found.remarks.empty());
  EXPECT_EQ(shown(discover(groups, processes, 20)), "0: 10 11 12; 1: 30 31") << "the caller itself is nobody's";
}

// A rule for everything took the init, whose set all that it begins later would have inherited, and the shell that the agent was started from.
TEST(Discover, TheInitKernelThreadsTheCallerAndAllAboveItAreNobodys) {
  const std::vector<SeenProcess> processes = {
      {1, 0, 1, "/sbin/init", "/"}, {2, 0, 1, "", "/"},         {3, 2, 1, "", "/"},
      {10, 1, 2, "sshd", "/"},      {11, 10, 3, "bash", "/"},   {12, 11, 4, "coterie agent", "/"},
      {13, 11, 5, "serve 1", "/"},  {20, 1, 6, "serve 2", "/"}, {21, 20, 7, "worker", "/"},
  };
  const std::vector<GroupRules> everything = {{"all", {byCommand("*")}}};
  EXPECT_EQ(shown(discover(everything, processes, 12)), "0: 13; 0: 20 21");
  EXPECT_EQ(shown(discover({{"init", {byPids({1, 11, 20})}}}, processes, 12)), "0: 20 21") << "nor where they are named";
  const std::vector<SeenProcess> circle = {{5, 6, 1, "a", "/"}, {6, 5, 1, "b", "/"}, {7, 1, 1, "c", "/"}};
  EXPECT_EQ(shown(discover(everything, circle, 5)), "0: 7") << "a scan across a reused pid";
}

TEST(Discover, ForkedServersOfOneCommandAreOneContainer) {
  const std::vector<SeenProcess> processes = {{7, 1, 5, "gunicorn app", "/"}, {8, 7, 6, "gunicorn app", "/"}, {9, 7, 6, "gunicorn app", "/"}};
  EXPECT_EQ(shown(discover({{"web", {byCommand("gunicorn*")}}}, processes, 0)), "0: 7 8 9");
}

TEST(Discover, RulesOfAContainer) {
  const std::string cgroup = "/kubepods/burstable/pod" + kPod + "/" + kId;
  const std::vector<SeenProcess> processes = {{10, 1, 5, "sh -c serve", cgroup}, {11, 10, 6, "serve", cgroup}, {12, 1, 7, "serve", "/"}};
  const auto with = [&](auto set) {
    MemberRule rule;
    set(rule);
    return shown(discover({{"g", {rule}}}, processes, 0));
  };
  EXPECT_EQ(with([](MemberRule& rule) { rule.pod = kPod; }), "0: 10 11");
  EXPECT_EQ(with([](MemberRule& rule) { rule.container = kId.substr(0, 12) + "*"; }), "0: 10 11");
  EXPECT_EQ(with([](MemberRule& rule) { rule.cgroup = "/kubepods/*"; }), "0: 10 11");
  EXPECT_EQ(with([](MemberRule& rule) { rule.runtime = Runtime::Kubernetes; }), "0: 10 11");
  EXPECT_EQ(with([](MemberRule& rule) { rule.runtime = Runtime::Docker; }), "");
  EXPECT_EQ(with([](MemberRule& rule) { rule.command = "serve"; }), "0: 10 11; 0: 12") << "a container is whole, whoever of it was named";
  EXPECT_EQ(with([](MemberRule& rule) { rule.command = "serve", rule.pod = kPod; }), "0: 10 11") << "all that a rule asks must hold";
  EXPECT_EQ(with([](MemberRule& rule) { rule.pids = {12, 99}; }), "0: 12");
}

TEST(Discover, TheFirstGroupWinsAndItIsSaid) {
  const std::vector<SeenProcess> processes = {{10, 1, 5, "serve", "/"}};
  const Discovery found = discover({{"a", {byCommand("serve")}}, {"b", {byPids({10})}}}, processes, 0);
  EXPECT_EQ(shown(found), "0: 10");
  ASSERT_EQ(found.remarks.size(), 1U);
  EXPECT_EQ(found.remarks[0], "process 10 (serve) is named by a and by b: it counts to the first");
}

TEST(Discover, AContainerOfTwoGroupsGoesToTheFirst) {
  const std::string cgroup = "/docker/" + kId;
  const std::vector<SeenProcess> processes = {{10, 1, 5, "one", cgroup}, {11, 10, 6, "two", cgroup}};
  const Discovery found = discover({{"a", {byCommand("two")}}, {"b", {byCommand("one")}}}, processes, 0);
  EXPECT_EQ(shown(found), "0: 10 11");
  EXPECT_EQ(found.remarks, (std::vector<std::string>{"process 10 (one) is in a container of a: it counts to that, not to b"}));
}

// nri-plugins#727, k#89949: a runtime that was started anew showed a container twice.
TEST(DiscoverStories, OfTwoInstancesOfAContainerTheNewestCounts) {
  const std::vector<SeenProcess> processes = {{10, 1, 5, "serve", "/system.slice/docker-" + kId + ".scope"}, {20, 1, 9, "serve", "/docker/" + kId}};
  const Discovery found = discover({{"g", {byCommand("serve")}}}, processes, 0);
  EXPECT_EQ(shown(found), "0: 20");
  ASSERT_EQ(found.remarks.size(), 1U);
  EXPECT_NE(found.remarks[0].find("is there 2 times: the one begun last counts, at /docker/"), std::string::npos);
}

// containerd#10155: pods' pause processes sat on exclusive CPUs. They are known by their command, belong to their pod's group and are moved with it
// (allocation's PauseContainersFollowThePoolAndStandOnNobodysOwnCpus); those of other pods are nobody's.
TEST(DiscoverStories, PauseContainersBelongToTheirPodsGroup) {
  const std::string pod = "/kubepods/burstable/pod" + kPod + "/";
  const std::vector<SeenProcess> processes = {{10, 1, 5, "/pause", pod + kOther}, {11, 1, 6, "serve", pod + kId}};
  MemberRule rule;
  rule.pod = kPod;
  const Discovery found = discover({{"g", {rule}}}, processes, 0);
  EXPECT_EQ(shown(found), "0: 10; 0: 11");
  EXPECT_EQ(found.containers[0].role, ContainerRole::Pause);
  EXPECT_EQ(found.containers[1].role, ContainerRole::App);
  EXPECT_EQ(shown(discover({{"g", {rule}}}, {processes[0]}, 0)), "") << "a pod without a member";
  const std::string elsewhere = "/kubepods/burstable/pod0d4c0a8e-5b7f-4d6c-9e1a-2f3b4c5d6e7f/";
  EXPECT_EQ(shown(discover({{"g", {byCommand("serve")}}}, {{10, 1, 5, "/pause", elsewhere + kOther}, processes[1]}, 0)), "0: 11") << "of another pod";
}

// No cgroup tells an init or a sidecar from an app: the rule does.
TEST(Discover, TheRuleThatNamesAContainerSaysItsRole) {
  const std::string pod = "/kubepods/burstable/pod" + kPod + "/";
  const std::vector<SeenProcess> processes = {{10, 1, 5, "fetch model", pod + kOther}, {11, 1, 6, "serve", pod + kId}, {12, 1, 7, "fetch", "/"}};
  MemberRule init = byCommand("fetch*");
  init.role = ContainerRole::Init;
  init.floor = MilliCpu(1500);
  MemberRule all;
  all.pod = kPod;
  const Discovery found = discover({{"g", {init, all}}}, processes, 0);
  ASSERT_EQ(shown(found), "0: 10; 0: 11; 0: 12");
  for (const std::size_t c : {std::size_t{0}, std::size_t{2}}) {
    EXPECT_EQ(found.containers[c].role, ContainerRole::Init);
    EXPECT_EQ(found.containers[c].floor, MilliCpu(1500));
  }
  EXPECT_EQ(found.containers[1].role, ContainerRole::App);
}

TEST(DiscoverStories, AScanAcrossAReusedPidMayShowACircle) {
  const std::vector<SeenProcess> processes = {{10, 11, 5, "serve", "/"}, {11, 10, 6, "sh", "/"}};
  EXPECT_EQ(shown(discover({{"g", {byCommand("serve")}}}, processes, 0)), "0: 10 11");
}

TEST(Discover, TheOrderOfTheScanDoesNotMatter) {
  const std::vector<GroupRules> groups = {{"a", {byCommand("a*")}}, {"b", {byCommand("b*")}}, {"c", {byPids({3, 5})}}};
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<SeenProcess> processes;
    for (int pid = 2; pid < 14; ++pid) {
      const auto pick = [&](int n) { return static_cast<int>(rng.between(0, n - 1)); };
      const std::string cgroup = pick(3) == 0 ? "/docker/" + (pick(2) == 0 ? kId : kOther) : "/";
      processes.push_back({pid, 1 + pick(pid), static_cast<std::uint64_t>(pick(5)), std::string(1, static_cast<char>('a' + pick(4))), cgroup});
    }
    const Discovery first = discover(groups, processes, 0);
    std::reverse(processes.begin(), processes.end());
    const Discovery second = discover(groups, processes, 0);
    EXPECT_EQ(shown(first), shown(second)) << "round " << round;
    EXPECT_EQ(first.remarks, second.remarks);
    std::vector<int> once;
    for (const FoundContainer& container : first.containers)
      for (const SeenProcess& process : container.processes) once.push_back(process.pid);
    std::sort(once.begin(), once.end());
    EXPECT_TRUE(std::adjacent_find(once.begin(), once.end()) == once.end()) << "a process is in one container";
  }
}

// ---- Roster ----
FoundContainer container(std::string key, std::size_t group, const std::vector<int>& pids) {
  FoundContainer made{std::move(key), group, {}, {}};
  for (const int pid : pids) made.processes.push_back({pid, 1, 1, "x", "/"});
  return made;
}

// One process more or less, or another one than before.
void change(std::vector<SeenProcess>& scan, Rng& rng, std::uint64_t now) {
  const auto any = [&rng](std::size_t count) { return static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(count) - 1)); };
  const std::vector<std::string> commands{"red 1", "blue 1", "make all", "sh", ""},
      cgroups{"/", "/", "/user.slice/a", "/docker/" + kId, "/docker/" + kOther};
  const int parent = scan.empty() ? 1 : scan[any(scan.size())].pid;
  if (scan.size() < 4 || (scan.size() < 14 && rng.between(0, 1) == 0)) {
    const int pid = static_cast<int>(rng.between(2, 40));
    const auto place = std::lower_bound(scan.begin(), scan.end(), pid, [](const SeenProcess& one, int than) { return one.pid < than; });
    if (place != scan.end() && place->pid == pid) return;
    scan.insert(place, {pid, parent, now, commands[any(commands.size())], cgroups[any(cgroups.size())]});
    return;
  }
  SeenProcess& one = scan[any(scan.size())];
  switch (rng.between(0, 4)) {
    case 0: one.command = commands[any(commands.size())]; break;
    case 1: one.cgroup = cgroups[any(cgroups.size())]; break;
    case 2: one.parent = parent; break;
    default: scan.erase(scan.begin() + (&one - scan.data()));
  }
}

TEST(Discover, WhoConcernsNobodyChangesNothing) {
  const std::vector<GroupRules> rules{{"red", {byCommand("red*")}}, {"blue", {byCommand("blue*"), byPids({7})}}};
  Rng rng(11);
  int passed = 0;
  for (int history = 0; history < 400; ++history) {
    std::vector<SeenProcess> scan;
    for (std::uint64_t step = 1; step <= 50; ++step) {
      const std::vector<SeenProcess> before = scan;
      const Discovery first = discover(rules, before, 3);
      std::set<int> owned;
      for (const FoundContainer& container : first.containers) {
        for (const SeenProcess& process : container.processes) owned.insert(process.pid);
      }
      EXPECT_FALSE(mayFindOthers(rules, before, scan, owned, 3));
      for (std::int64_t changes = rng.between(1, 2); changes > 0; --changes) change(scan, rng, step);
      if (mayFindOthers(rules, before, scan, owned, 3)) continue;
      ++passed;
      const Discovery second = discover(rules, scan, 3);
      EXPECT_EQ(shown(first), shown(second)) << "history " << history << ", step " << step;
      EXPECT_EQ(first.remarks, second.remarks) << "history " << history << ", step " << step;
    }
  }
  EXPECT_GT(passed, 1000);
}

TEST(Roster, SaysWhoCameAndWent) {
  Roster roster;
  auto change = roster.update({container("a", 0, {1}), container("b", 0, {2})});
  EXPECT_EQ(change.joined, (std::vector<InstanceId>{InstanceId(1), InstanceId(2)}));
  EXPECT_TRUE(change.any());
  change = roster.update({container("a", 0, {1}), container("b", 0, {2})});
  EXPECT_FALSE(change.any());
  EXPECT_TRUE(change.changed.empty());
  change = roster.update({container("b", 0, {2, 3}), container("c", 0, {4})});
  EXPECT_EQ(change.joined, (std::vector<InstanceId>{InstanceId(3)}));
  EXPECT_EQ(change.changed, (std::vector<InstanceId>{InstanceId(2)}));
  ASSERT_EQ(change.left.size(), 1U);
  EXPECT_EQ(change.left.begin()->first, InstanceId(1));
  EXPECT_EQ(change.left.begin()->second.key, "a");
  EXPECT_EQ(roster.processesOf(InstanceId(2)), (std::vector<int>{2, 3}));
  EXPECT_TRUE(roster.processesOf(InstanceId(1)).empty());
}

TEST(Roster, AnIdIsNeverGivenTwice) {
  Roster roster;
  roster.update({container("a", 0, {1})});
  roster.update({});
  EXPECT_EQ(roster.update({container("a", 0, {1})}).joined, (std::vector<InstanceId>{InstanceId(2)}));
  const auto change = roster.update({container("a", 1, {1})});
  EXPECT_EQ(change.joined, (std::vector<InstanceId>{InstanceId(3)})) << "of another group now";
  EXPECT_EQ(change.left.count(InstanceId(2)), 1U);
}

TEST(Roster, AnotherRoleIsSaid) {
  Roster roster;
  roster.update({container("a", 0, {1}), container("b", 0, {2})});
  FoundContainer sidecar = container("a", 0, {1});
  sidecar.role = ContainerRole::Sidecar;
  auto change = roster.update({sidecar, container("b", 0, {2})});
  EXPECT_FALSE(change.any());
  EXPECT_EQ(change.recast, (std::vector<InstanceId>{InstanceId(1)}));
  sidecar.floor = MilliCpu(500);
  change = roster.update({sidecar, container("b", 0, {2})});
  EXPECT_EQ(change.recast, (std::vector<InstanceId>{InstanceId(1)}));
  EXPECT_TRUE(roster.update({sidecar, container("b", 0, {2})}).recast.empty());
}

}  // namespace
}  // namespace coterie::foreign
