// Configurations as people write them: each kind of mistake with its answer, and what a sound one means.
#include "node_agent/agent_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coterie::node_agent {
namespace {

std::string answerTo(const std::string& yaml) {
  std::string all;
  for (const Fault& fault : readAgentFile(yaml).faults) all += faultText(fault) + "\n";
  return all;
}

// The group's own fields begin on line 5.
std::string group(const std::string& more) { return "groups:\n  - name: a/s\n    tenant: a\n    members: [{pids: 7}]\n" + more; }
std::string rule(const std::string& members) { return "groups:\n  - name: s\n    tenant: a\n    members: " + members + "\n"; }

TEST(AgentFileTest, EveryMistakeIsAnsweredWithFieldLineAndFix) {
  struct Mistake {
    const char* name;
    std::string yaml;
    std::string says;
  };
  const std::vector<Mistake> mistakes = {
      {"nothing", "", "1: holds nothing: wanted groups\n"},
      {"two documents", group("") + "---\nx: 1\n", "6: a second document: wanted one, without ---\n"},
      {"no groups", "mode: observe\n", "1: groups: missing: the servers to look for, each with a name, a tenant and members\n"},
      {"an unknown field", "grups: 1\n" + group(""), "1: grups: unknown field; did you mean groups?\n"},
      {"an unknown mode", "mode: enforced\n" + group(""), "1: mode: unknown mode \"enforced\"; did you mean enforce?\n"},
      {"cache classes", "cacheClasses: some\n" + group(""), "1: cacheClasses: unknown mode \"some\"; known are auto, all and off\n"},
      {"memory nodes", "memoryNodes: kept\n" + group(""), "1: memoryNodes: unknown rule of memory nodes \"kept\"; known are follow and keep\n"},
      {"a floor of elsewhere", group("    floor: 1\n"), "5: groups[0].floor: unknown field: it is spelt minCpus here\n"},
      {"a ceiling of elsewhere", group("    ceiling: 1\n"), "5: groups[0].ceiling: unknown field: it is spelt maxCpus here\n"},
      {"less than the floor", group("    minCpus: 2\n    maxCpus: 1\n"), "6: groups[0].maxCpus: 1 is less than minCpus, 2\n"},
      {"no name", "groups:\n  - tenant: a\n    members: [{pids: 7}]\n", "2: groups[0].name: missing: the group's name, as audio/speech\n"},
      {"a name twice", group("") + "  - {name: a/s, tenant: a, members: [{pids: 8}]}\n",
       "5: groups[1].name: a/s is there twice; first on line 2: give this one another name\n"},
      {"no tenant", "groups:\n  - name: s\n    members: [{pids: 7}]\n", "2: groups[0].tenant: missing: whose group it is\n"},
      {"a tenant that is not listed", "tenants: [{name: audio}]\ngroups: [{name: s, tenant: adio, members: [{pids: 7}]}]\n",
       "2: groups[0].tenant: no tenant \"adio\" is listed; did you mean audio?\n"},
      {"isolation", group("    isolation: cores\n"), "5: groups[0].isolation: unknown isolation \"cores\"; did you mean core?\n"},
      {"no members", "groups:\n  - {name: s, tenant: a}\n",
       "2: groups[0].members: missing: rules that find its processes: pids, command, cgroup, runtime, container or pod\n"},
      {"a rule that asks nothing", rule("[{}]"),
       "4: groups[0].members[0].pids: missing, as is everything else: the rule would take every process of the machine\n"},
      {"an unknown field of a rule", rule("[{comand: x}]"), "4: groups[0].members[0].comand: unknown field; did you mean command?\n"},
      {"an empty pattern", rule("[{command: \"\"}]"),
       "4: groups[0].members[0].command: is empty: wanted a pattern, as \"tritonserver *\"; leave the field out for any\n"},
      {"a pid of text", rule("[{pids: [a]}]"), "4: groups[0].members[0].pids: wanted process ids from 2 to 4194304, as [812, 813]\n"},
      {"a pid of nobody", rule("[{pids: 0}]"), "4: groups[0].members[0].pids: wanted process ids from 2 to 4194304, as [812, 813]\n"},
      {"the init", rule("[{pids: [812, 1]}]"), "4: groups[0].members[0].pids: process 1 is the machine's init, which is no group's member\n"},
      {"a runtime", rule("[{runtime: dockr}]"), "4: groups[0].members[0].runtime: unknown runtime \"dockr\"; did you mean docker?\n"},
      {"a pid of two groups", group("") + "  - {name: t, tenant: b, members: [{pids: [6, 7]}]}\n",
       "groups[1].members: process 7 is a member of a/s too: take it from one of them\n"},
      {"a hint without a file", group("    hints: {signal: SIGUSR1}\n"),
       "5: groups[0].hints.signal: says nothing alone: name the file that holds the count\n"},
      {"a hint of nothing", group("    hints: {}\n"), "5: groups[0].hints: is empty: wanted file or http, or leave the field out\n"},
      {"a relative hint", group("    hints: {file: \"x{pid}\"}\n"),
       "5: groups[0].hints.file: wanted an absolute path, as /run/coterie/{container}.json\n"},
      {"a shared hint", group("    hints: {file: /run/x}\n"),
       "5: groups[0].hints.file: several containers would share it: put {container} or {pid} into it\n"},
      {"a hook by name", group("    hints: {http: \"http://server/x\"}\n"),
       "5: groups[0].hints.http: wanted http://ADDRESS:PORT/PATH with an IP address, as http://127.0.0.1:9000/threads\n"},
      {"a signal that kills", group("    hints: {file: \"/run/{pid}\", signal: SIGKILL}\n"),
       "5: groups[0].hints.signal: unknown signal \"SIGKILL\"; known are SIGHUP, SIGUSR1 and SIGUSR2\n"},
      {"a role that is none", "groups:\n  - name: s\n    tenant: a\n    members: [{command: x, role: pause}]\n",
       "4: groups[0].members[0].role: unknown role \"pause\"; known are app, init and sidecar\n"},
      {"what an app needs is its group's", "groups:\n  - name: s\n    tenant: a\n    members: [{command: x, minCpus: 1}]\n",
       "4: groups[0].members[0].minCpus: is of an init or a sidecar: set the group's minCpus, or say role: sidecar\n"},
      {"a role of everything", "groups:\n  - name: s\n    tenant: a\n    members: [{role: init}]\n",
       "4: groups[0].members[0].pids: missing, as is everything else: the rule would take every process of the machine\n"},
      {"a relative kubelet state", "kubeletState: rel\n" + group(""),
       "1: kubeletState: wanted an absolute path, as /var/lib/kubelet/cpu_manager_state\n"},
      {"a cgroup that none can be", rule("[{cgroup: \"kubepods/*\"}]"),
       "4: groups[0].members[0].cgroup: can match no cgroup, whose path begins with /: wanted \"/kubepods/*\"\n"},
      {"a cgroup somewhere", rule("[{cgroup: \"*kubepods*\"}]"), ""},
      {"reserved", "reserved: x\n" + group(""), "1: reserved: wanted ids as 0-3,8, found \"x\"\n"},
  };
  for (const Mistake& one : mistakes) EXPECT_EQ(answerTo(one.yaml), one.says) << one.name;
}

TEST(AgentFileTest, WhatASoundOneMeans) {
  const ReadAgentFile read = readAgentFile(R"(
mode: enforce
reserved: 0-1
kubeletState: /x
cacheClasses: off
memoryNodes: keep
tenants:
  - {name: audio, weight: 200, quota: {cpus: 8}}
  - {name: text}
groups:
  - name: audio/speech
    tenant: audio
    weight: 300
    minCpus: 500m
    maxCpus: 4
    isolation: core
    lend: never
    members:
      - pids: [812, 813]
      - {command: "tritonserver *", runtime: docker}
      - {cgroup: "/kubepods/*", container: "3f*", pod: "8d*"}
    hints: {file: "/run/{container}", signal: SIGUSR2}
  - {name: ocr, tenant: text, members: [{runtime: none, command: "ovms*"}]}
)");
  ASSERT_TRUE(read.faults.empty()) << faultText(read.faults.front());
  const AgentFile& file = read.file;
  EXPECT_EQ(file.mode, Mode::Enforce);
  EXPECT_EQ(file.reserved, (CpuSet{0, 1}));
  EXPECT_EQ(file.kubeletState, "/x");
  EXPECT_EQ(file.cacheClasses, CacheClassMode::Off);
  EXPECT_TRUE(file.keepsMemoryNodes);
  ASSERT_EQ(file.tenants.size(), 2U);
  EXPECT_EQ(file.tenants[0].weight, 200);
  EXPECT_EQ(file.tenants[0].cap, MilliCpu(8000));
  ASSERT_EQ(file.groups.size(), 2U);
  const AgentGroup& speech = file.groups[0];
  EXPECT_EQ(speech.weight, 300);
  EXPECT_EQ(speech.floor, MilliCpu(500));
  EXPECT_EQ(speech.ceiling, MilliCpu(4000));
  EXPECT_EQ(speech.isolation, Isolation::Core);
  EXPECT_FALSE(speech.lends);
  EXPECT_TRUE(file.groups[1].lends);
  ASSERT_EQ(speech.members.size(), 3U);
  EXPECT_EQ(speech.members[0].pids, (std::vector<int>{812, 813}));
  EXPECT_EQ(speech.members[1].command, "tritonserver *");
  EXPECT_EQ(speech.members[1].runtime, foreign::Runtime::Docker);
  EXPECT_EQ(speech.members[2].pod, "8d*");
  EXPECT_EQ(speech.hints.signalName, "SIGUSR2");
  EXPECT_EQ(file.groups[1].tenant, 1U);
  EXPECT_EQ(file.groups[1].members[0].runtime, foreign::Runtime::None);
  EXPECT_EQ(rulesOf(file)[1].name, "ocr");
}

TEST(AgentFileTest, TenantsMayBeLeftOut) {
  const ReadAgentFile read = readAgentFile(
      "groups:\n  - {name: x, tenant: a, members: [{pids: 4}]}\n  - {name: y, tenant: b, members: [{pids: 2}]}\n"
      "  - {name: z, tenant: a, members: [{pids: 3}]}\n");
  ASSERT_TRUE(read.faults.empty()) << faultText(read.faults.front());
  EXPECT_EQ(read.file.mode, Mode::Observe) << "nothing is changed unless somebody says so";
  EXPECT_EQ(read.file.cacheClasses, CacheClassMode::Auto);
  EXPECT_FALSE(read.file.keepsMemoryNodes);
  ASSERT_EQ(read.file.tenants.size(), 2U);
  EXPECT_EQ(read.file.tenants[1].name, "b");
  EXPECT_EQ(read.file.tenants[1].weight, 100);
  EXPECT_EQ(read.file.groups[2].tenant, 0U);
}

}  // namespace
}  // namespace coterie::node_agent
