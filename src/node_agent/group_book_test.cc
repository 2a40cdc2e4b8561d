#include "node_agent/group_book.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coterie::node_agent {
namespace {

using Names = std::vector<std::string>;

AgentFile fileOf(const std::string& yaml) {
  ReadAgentFile read = readAgentFile(yaml);
  EXPECT_TRUE(read.faults.empty()) << yaml << "\n" << faultText(read.faults.front());
  return std::move(read.file);
}

std::string group(const std::string& name, const std::string& more = "") {
  return "  - {name: " + name + ", tenant: t-" + name + ", members: [{command: " + name + "}]" + more + "}\n";
}

TEST(GroupBookTest, NumbersFollowTheFileAtFirstAndNamesAfterwards) {
  GroupBook book(fileOf("groups:\n" + group("a") + group("b") + group("c")));
  EXPECT_EQ(book.numbers(), (std::vector<std::size_t>{0, 1, 2}));
  const TenantId tenantOfC = book.specOf(2).tenant;
  const GroupBook::Change change = book.adopt(fileOf("groups:\n" + group("c") + group("d") + group("a")));
  EXPECT_EQ(book.numbers(), (std::vector<std::size_t>{2, 3, 0}));
  EXPECT_EQ(book.group(2).name, "c");
  EXPECT_EQ(book.tenantOf(2), "t-c");
  EXPECT_EQ(book.specOf(2).tenant, tenantOfC);
  EXPECT_EQ(book.specOf(2).id, GroupId(2));
  EXPECT_EQ(change.added, Names{"d"});
  EXPECT_EQ(change.removed, Names{"b"});
  EXPECT_EQ(change.gone, std::vector<std::size_t>{1});
  EXPECT_EQ(change.changed, Names{"the order of the groups"});
  EXPECT_FALSE(book.has(1));
  static_cast<void>(book.adopt(fileOf("groups:\n" + group("b"))));
  EXPECT_EQ(book.numbers(), std::vector<std::size_t>{4}) << "nobody gets a number that somebody had";
  EXPECT_NE(book.specOf(4).tenant, TenantId(1));
}

TEST(GroupBookTest, WhatIsDifferentIsNamed) {
  struct Row {
    std::string before, now, said;
  };
  const std::string base = "groups:\n" + group("a");
  const std::vector<Row> rows{
      {base, base, ""},
      {base, "# a comment\n" + base, ""},
      {base, "mode: enforce\nreserved: 0\n" + base, "mode, reserved"},
      {base, "kubeletState: /k\ncacheClasses: off\nmemoryNodes: keep\n" + base, "kubeletState, cacheClasses, memoryNodes"},
      {base, "groups:\n" + group("a", ", weight: 200, minCpus: 1, maxCpus: 2"), "a (weight, minCpus, maxCpus)"},
      {base, "groups:\n" + group("a", ", isolation: core, lend: never"), "a (isolation, lend)"},
      {base, "groups:\n" + group("a", ", hints: {file: \"/h/{pid}\"}"), "a (hints)"},
      {base, "groups:\n  - {name: a, tenant: t-a, members: [{command: other}]}\n", "a (members)"},
      {base, "groups:\n  - {name: a, tenant: t-a, members: [{command: a, role: sidecar}]}\n", "a (members)"},
      {base, "tenants: [{name: t-a, weight: 300, quota: {cpus: 1}}]\n" + base, "a (weight of its tenant, quota of its tenant)"},
      {base, "tenants: [{name: new}, {name: t-a}]\n" + base, ""},
      {base, "groups:\n  - {name: a, tenant: other, members: [{command: a}]}\n", "a (tenant)"},
  };
  for (const Row& row : rows) {
    GroupBook book(fileOf(row.before));
    const GroupBook::Change change = book.adopt(fileOf(row.now));
    EXPECT_TRUE(change.added.empty() && change.removed.empty()) << row.now;
    EXPECT_EQ(change.changed, row.said.empty() ? Names{} : Names{row.said}) << row.now;
    EXPECT_EQ(change.any(), !row.said.empty());
  }
}

TEST(GroupBookTest, TheOrderOfTheFileDecidesAndTheNumberIsTheGroups) {
  GroupBook book(fileOf("groups:\n" + group("a") + group("b")));
  EXPECT_EQ(book.discover({{5, 1, 1, "a", "/"}}, 0).containers.at(0).group, 0U);
  static_cast<void>(book.adopt(fileOf("groups:\n  - {name: z, tenant: z, members: [{command: \"*\"}]}\n" + group("a"))));
  EXPECT_EQ(book.discover({{5, 1, 1, "a", "/"}}, 0).containers.at(0).group, 2U) << "the new one's, which is first now";
}

}  // namespace
}  // namespace coterie::node_agent
