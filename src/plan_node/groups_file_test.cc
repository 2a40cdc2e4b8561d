// Groups files as people write them: each kind of mistake with the answer it must get, and what a sound one means.
#include "plan_node/groups_file.h"

#include <gtest/gtest.h>

#include <vector>

namespace coterie::plan_node {
namespace {

std::string answerTo(const std::string& yaml) {
  std::string all;
  for (const Fault& fault : readGroups(yaml).faults) all += faultText(fault) + "\n";
  return all;
}

std::string tenant(const std::string& more) { return "tenants:\n  - name: a\n" + more + "groups:\n  - {name: s, tenant: a}\n"; }
// The group's own fields begin on line 6.
std::string group(const std::string& more) { return "tenants:\n  - name: audio\ngroups:\n  - name: audio/speech\n    tenant: audio\n" + more; }

struct Mistake {
  const char* name;
  std::string yaml;
  std::string says;
};

TEST(GroupsFile, EveryMistakeIsAnsweredWithFieldLineAndFix) {
  const std::vector<Mistake> mistakes = {
      {"nothing", "", "1: holds nothing: wanted tenants and groups\n"},
      {"only a comment", "# soon\n", "1: holds nothing: wanted tenants and groups\n"},
      {"not a map", "- a\n", "1: wanted a map of fields, found a list\n"},
      {"no YAML", "tenants: [\n", "2: tenants[1]: a '[' is not closed\n"},
      {"two documents", tenant("") + "---\nx: 1\n", "6: a second document: wanted tenants and groups in one, without ---\n"},
      {"no tenants", "groups:\n  - {name: s, tenant: a}\n",
       "1: tenants: missing: the teams that share the machine, each with a name\n2: groups[0].tenant: no tenant \"a\" is listed; add it to "
       "tenants\n"},
      {"no groups", "tenants:\n  - name: a\n", "1: groups: missing: the services to plan for, each with a name and a tenant\n"},
      {"empty tenants", "tenants: []\ngroups:\n  - {name: s, tenant: a}\n",
       "1: tenants: is empty: wanted the teams that share the machine, each with a name\n"
       "3: groups[0].tenant: no tenant \"a\" is listed; add it to tenants\n"},
      {"empty groups", "tenants:\n  - name: a\ngroups: []\n",
       "3: groups: is empty: wanted the services to plan for, each with a name and a tenant\n"},
      {"tenants of the wrong type", "tenants: a\ngroups:\n  - {name: s, tenant: a}\n",
       "1: tenants: wanted a list, found text\n3: groups[0].tenant: no tenant \"a\" is listed; add it to tenants\n"},
      {"unknown field at the top", tenant("") + "groop: 1\n", "5: groop: unknown field; did you mean groups?\n"},
      {"unknown field of a tenant", tenant("    wieght: 7\n"), "3: tenants[0].wieght: unknown field; did you mean weight?\n"},
      {"unknown field of a quota", tenant("    quota: {cpu: 7}\n"), "3: tenants[0].quota.cpu: unknown field; did you mean cpus?\n"},
      {"a quota of nothing", tenant("    quota:\n      cpus: 0\n"),
       "4: tenants[0].quota.cpus: 0 would let nothing run: leave the field out for no limit\n"},
      {"tenant without a name", "tenants:\n  - weight: 1\ngroups:\n  - {name: s, tenant: a}\n",
       "2: tenants[0].name: missing: the tenant's name\n4: groups[0].tenant: no tenant \"a\" is listed; add it to tenants\n"},
      {"tenant twice", tenant("  - name: a\n"), "3: tenants[1].name: a is there twice; first on line 2: give this one another name\n"},
      {"tenant's name", "tenants:\n  - name: A\ngroups:\n  - {name: s, tenant: a}\n",
       "2: tenants[0].name: the name may hold lower-case letters, digits and '-' only\n4: groups[0].tenant: no tenant \"a\" is listed; add it to "
       "tenants\n"},
      {"tenant's weight", tenant("    weight: 0\n"), "3: tenants[0].weight: wanted a whole number from 1 to 10000, found 0\n"},
      {"a width without run times", group("    arrivals: 5\n    objective: {latencyMs: 5}\n"),
       "7: groups[0].objective: says nothing without runTimes, from which a width is proposed\n"
       "6: groups[0].arrivals: says nothing without runTimes, from which a width is proposed\n"},
      {"run times that begin wide", group("    runTimes: [{threads: 2, meanMs: 5}]\n"),
       "6: groups[0].runTimes[0].threads: the first is of 1 thread\n"},
      {"run times out of order", group("    runTimes: [{threads: 1, meanMs: 5}, {threads: 4, meanMs: 3}, {threads: 2, meanMs: 4}]\n"),
       "6: groups[0].runTimes[2].threads: more threads come later, each number once\n"},
      {"a run time of nothing", group("    runTimes: [{threads: 1}]\n"), "6: groups[0].runTimes[0].meanMs: missing: how long a run takes\n"},
      {"a run time of zero", group("    runTimes: [{threads: 1, meanMs: 0}]\n"), "6: groups[0].runTimes[0].meanMs: must be more than 0\n"},
      {"a p99 below the mean", group("    runTimes: [{threads: 1, meanMs: 5, p99Ms: 4}]\n"), "6: groups[0].runTimes[0].p99Ms: is less than meanMs\n"},
      {"an unknown field of a run time", group("    runTimes: [{threads: 1, meanMs: 5, p95Ms: 6}]\n"),
       "6: groups[0].runTimes[0].p95Ms: unknown field; did you mean p99Ms?\n"},
      {"an objective of nothing", group("    objective: {percentile: 30}\n    runTimes: [{threads: 1, meanMs: 5}]\n"),
       "6: groups[0].objective.latencyMs: missing: the latency bound in milliseconds\n6: groups[0].objective.percentile: wanted a number from 50 to "
       "99.9, found 30\n"},
      {"an item of nothing", "tenants:\n  - ~\n  - name: a\ngroups:\n  - {name: s, tenant: a}\n",
       "2: tenants[0]: holds nothing: wanted the teams that share the machine, each with a name\n"},
      {"an item of the wrong type", "tenants:\n  - a\n  - name: a\ngroups:\n  - {name: s, tenant: a}\n",
       "2: tenants[0]: wanted a map of fields, found text\n"},
      {"unknown tenant", "tenants:\n  - name: audio\ngroups:\n  - name: s\n    tenant: audoi\n",
       "5: groups[0].tenant: no tenant \"audoi\" is listed; did you mean audio?\n"},
      {"group without a tenant", "tenants:\n  - name: a\ngroups:\n  - name: s\n", "4: groups[0].tenant: missing: one of the tenants above\n"},
      {"group twice", group("  - name: audio/speech\n    tenant: audio\n"),
       "6: groups[1].name: audio/speech is there twice; first on line 4: give this one another name\n"},
      {"group's name", "tenants:\n  - name: a\ngroups:\n  - {name: a/b/c, tenant: a}\n",
       "4: groups[0].name: the name may hold lower-case letters, digits and '-' only\n"},
      {"group's namespace", "tenants:\n  - name: a\ngroups:\n  - {name: -/c, tenant: a}\n",
       "4: groups[0].name: the namespace must begin and end with a letter or digit\n"},
      {"a tenant of one letter is no other's near miss", "tenants: [{name: q}]\ngroups: [{name: s, tenant: x}]\n",
       "2: groups[0].tenant: no tenant \"x\" is listed; add it to tenants\n"},
      {"unknown field of a group", group("    mincpus: 1\n"), "6: groups[0].mincpus: unknown field; did you mean minCpus?\n"},
      {"floor that is no amount", group("    minCpus: lots\n"), "6: groups[0].minCpus: "},
      {"ceiling below the floor", group("    minCpus: 2\n    maxCpus: 500m\n"), "7: groups[0].maxCpus: 500m is less than minCpus, 2\n"},
      {"ceiling of nothing", group("    maxCpus: 0\n"), "6: groups[0].maxCpus: 0 would let nothing run: leave the field out for no ceiling\n"},
      {"band", group("    band: hihg\n"), "6: groups[0].band: unknown band \"hihg\"; did you mean high?\n"},
      {"band, nothing near", group("    band: x\n"), "6: groups[0].band: unknown band \"x\"; known are high, normal and low\n"},
      {"class", group("    serviceClass: fast\n"), "6: groups[0].serviceClass: unknown class \"fast\"; known are latency-critical and batch\n"},
      {"memory", group("    memory: x\n"), "6: groups[0].memory: unknown memory \"x\"; known are dram, high-bandwidth and any-tier\n"},
      {"lending", group("    lend: nevr\n"), "6: groups[0].lend: unknown rule of lending \"nevr\"; did you mean never?\n"},
      {"queued", group("    queued: 3\n"), "6: groups[0].queued: wanted true or false, found a whole number\n"},
      {"loan lanes", group("    loanLanes: -1\n"), "6: groups[0].loanLanes: wanted a whole number from 0 to 65536, found -1\n"},
      {"instances of the wrong type", group("    instances: two\n"),
       "6: groups[0].instances: wanted a whole number, or a list of those that run; found text\n"},
      {"no instance", group("    instances: 0\n"), "6: groups[0].instances: wanted a whole number from 1 to 1000, found 0\n"},
      {"an empty list of instances", group("    instances: []\n"),
       "6: groups[0].instances: is empty: a group has at least one; leave the field out for one that does not run yet\n"},
      {"unknown field of an instance", group("    instances:\n      - {hom: 1}\n"),
       "7: groups[0].instances[0].hom: unknown field; did you mean home?\n"},
      {"home that is no list", group("    instances:\n      - home: 0-\n"), "7: groups[0].instances[0].home: wanted ids as 0-3,8, found \"0-\"\n"},
      {"home in brackets", group("    instances:\n      - home: [0, 1]\n"), "7: groups[0].instances[0].home: wanted ids as 0-3,8, found a list\n"},
      {"home that a comma cuts", group("    instances:\n      - {home: 0-1,8-9}\n"),
       "7: groups[0].instances[0].8-9: a comma ends a value between braces: quote the list, as home: \"0-1,8\"\n"},
      {"home of nothing", group("    instances:\n      - home: \"\"\n"), "7: groups[0].instances[0].home: is empty: leave the field out for none\n"},
      {"home beyond any CPU", group("    instances:\n      - home: 70000\n"),
       "7: groups[0].instances[0].home: wanted ids from 0 to 65535, found 70000\n"},
      {"more memory than there can be", group("    instances:\n      - resident: 99999999999999999999Gi\n"),
       "7: groups[0].instances[0].resident: wanted at most 1024Ti\n"},
      {"memory without a unit", group("    instances:\n      - resident: 5\n"),
       "7: groups[0].instances[0].resident: a number without a unit: write \"512Mi\" or \"2Gi\"\n"},
      {"a loan at home", group("    instances:\n      - home: 0-3\n        loans: 3-4\n"),
       "8: groups[0].instances[0].loans: CPU 3 is its own home: a loan is another's CPU\n"},
      {"a home twice", group("    instances:\n      - home: 0-3\n  - name: b\n    tenant: audio\n    instances:\n      - home: 3\n"),
       "11: groups[1].instances[0].home: CPU 3 is the home of audio/speech too (line 7): take it from one of them, or list it in pool\n"},
      {"a role that is none", group("    instances: [{role: inti}]\n"),
       "6: groups[0].instances[0].role: unknown role \"inti\"; did you mean init?\n"},
      {"what a pause needs", group("    instances: [{role: pause, minCpus: 1}]\n"),
       "6: groups[0].instances[0].minCpus: is of an init or a sidecar: set the group's minCpus, or say role: sidecar\n"},
      {"pool", group("pool: x\n"), "6: pool: wanted ids as 0-3,8, found \"x\"\n"},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string answer = answerTo(mistake.yaml);
    if (mistake.says.back() == '\n') {
      EXPECT_EQ(answer, mistake.says) << mistake.name;
    } else {
      EXPECT_EQ(answer.substr(0, mistake.says.size()), mistake.says) << mistake.name;
    }
  }
}

TEST(GroupsFile, AllFaultsAreListedAtOnce) {
  EXPECT_EQ(answerTo(group("    band: x\n    queued: x\n    weight: x\n")).size(),
            answerTo(group("    band: x\n")).size() + answerTo(group("    queued: x\n")).size() + answerTo(group("    weight: x\n")).size());
}

TEST(GroupsFile, WhatIsLeftOutHasItsDefault) {
  const ReadGroups read = readGroups(group(""));
  ASSERT_TRUE(read.faults.empty());
  const GroupEntry& one = read.file.groups.at(0);
  EXPECT_EQ(one.name, "audio/speech");
  EXPECT_EQ(one.weight, 100);
  EXPECT_EQ(one.band, allocation::Band::Normal);
  EXPECT_EQ(one.floor.value, 0);
  EXPECT_EQ(one.ceiling.value, 0);
  EXPECT_TRUE(one.latencyCritical);
  EXPECT_EQ(one.lend, allocation::Lend::WhenIdle);
  ASSERT_EQ(one.containers.size(), 1U);
  EXPECT_TRUE(one.containers[0].home.empty());
  EXPECT_FALSE(one.queued);
  EXPECT_FALSE(one.loanLanes);
  EXPECT_EQ(one.memory, allocation::MemoryTier::Usual);
  EXPECT_EQ(one.line, 4);
  EXPECT_EQ(read.file.tenants.at(0).weight, 100);
  EXPECT_EQ(read.file.tenants.at(0).cap.value, 0);
  EXPECT_TRUE(read.file.pool.empty());
}

TEST(GroupsFile, EveryFieldIsRead) {
  const ReadGroups read = readGroups(
      "tenants:\n  - {name: a, weight: 7, quota: {cpus: 1500m}}\n  - name: b\n"
      "groups:\n  - name: x\n    tenant: b\n    weight: 9\n    band: low\n    minCpus: 250m\n    maxCpus: 2.5\n    serviceClass: batch\n    lend: "
      "never\n    memory: high-bandwidth\n    device: gpu0\n"
      "    instances:\n      - {home: 0-1, memoryNodes: 1, loans: \"7,9\", resident: 2Gi, expected: 3Gi}\n      - {}\n    demand: 3\n    queued: "
      "true\n    "
      "loanLanes: 4\n"
      "  - {name: y, tenant: a, instances: 3, band: high}\npool: 4-5\n");
  ASSERT_TRUE(read.faults.empty());
  EXPECT_EQ(read.file.tenants[0].weight, 7);
  EXPECT_EQ(read.file.tenants[0].cap.value, 1500);
  const GroupEntry& x = read.file.groups.at(0);
  EXPECT_EQ(x.tenant, 1U);
  EXPECT_EQ(x.weight, 9);
  EXPECT_EQ(x.band, allocation::Band::Low);
  EXPECT_EQ(x.floor.value, 250);
  EXPECT_EQ(x.ceiling.value, 2500);
  EXPECT_FALSE(x.latencyCritical);
  EXPECT_EQ(x.lend, allocation::Lend::Never);
  ASSERT_EQ(x.containers.size(), 2U);
  EXPECT_EQ(x.containers[0].home, (CpuSet{0, 1}));
  EXPECT_EQ(x.containers[0].memoryNodes, CpuSet{1});
  EXPECT_EQ(x.containers[0].loans, (CpuSet{7, 9}));
  EXPECT_EQ(x.containers[0].resident.value, std::int64_t{2} << 30);
  EXPECT_EQ(x.containers[0].expected.value, std::int64_t{3} << 30);
  EXPECT_EQ(x.memory, allocation::MemoryTier::HighBandwidth);
  EXPECT_EQ(x.device, "gpu0");
  EXPECT_TRUE(x.containers[1].home.empty());
  EXPECT_EQ(x.demand.value, 3000);
  EXPECT_TRUE(x.queued);
  EXPECT_EQ(x.loanLanes, 4);
  EXPECT_EQ(read.file.groups.at(1).containers.size(), 3U);
  EXPECT_EQ(read.file.groups.at(1).band, allocation::Band::High);
  EXPECT_EQ(read.file.pool, (CpuSet{4, 5}));
}

TEST(GroupsFile, MembersOfThePoolMayShareItsCpus) {
  EXPECT_EQ(answerTo(group("    instances:\n      - home: 3\n  - name: b\n    tenant: audio\n    instances:\n      - home: 3\npool: 3\n")), "");
}

}  // namespace
}  // namespace coterie::plan_node
