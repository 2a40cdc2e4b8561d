// The agent's report as `coterie top --node` prints it.
#include "cli/node_top.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/context.h"
#include "text/text.h"

namespace coterie::cli {
namespace {

std::string top(const std::string& json) {
  const auto report = text::parseJson(json);
  EXPECT_TRUE(report.ok()) << json;
  if (!report) return {};
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  const Terminal terminal{in, out, err, false, false, 200, [](std::string_view) { return std::optional<std::string>(); }};
  Context context{terminal, {}, nullptr, std::nullopt};
  printNodeTop(context, *report);
  return out.str();
}

TEST(NodeTop, WhoIsContestedIsReadableForOneCpuAndForMany) {
  const auto home = [](const std::string& owns, const std::string& now) {
    return top(R"({"mode": "enforce", "groups": [{"name": "a/x", "tenant": "a", "containers": [{"container": "c", "homeCpus": ")" + owns +
               R"(", "nowCpus": ")" + now + R"(", "contested": true}]}]})");
  };
  EXPECT_NE(home("1", "0").find(" 1; contested: it runs on CPU 0 "), std::string::npos) << home("1", "0");
  EXPECT_NE(home("1", "0-1").find(" 1; contested: it runs on CPUs 0-1 "), std::string::npos) << home("1", "0-1");
  EXPECT_NE(home("1", "1").find(" 1; contested "), std::string::npos) << home("1", "1");
  EXPECT_EQ(top(R"({"mode": "enforce", "usableCpus": "1"})").rfind("enforcing; CPU 1, pool -", 0), 0U);
  EXPECT_EQ(top(R"({"mode": "enforce", "usableCpus": "0-1"})").rfind("enforcing; CPUs 0-1, pool -", 0), 0U);
}

TEST(NodeTop, WhoWaitsIsSaidToWaitOnceAndWhichAgentSaysSo) {
  const std::string text = top(R"({"mode": "enforce", "agentPid": 812, "groups": [{"name": "a/first", "tenant": "a", "pending": true,
    "reasons": ["it waits: it needs 3 CPUs"], "containers": [{"container": "c"}]}]})");
  EXPECT_NE(text.find("a/first waits: it needs 3 CPUs\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; agent: process 812\n"), std::string::npos) << text;
}

TEST(NodeTop, WhatACgroupAboveDoesNotAllowIsSaidWithItsName) {
  const std::string text = top(R"({"mode": "enforce", "groups": [{"name": "a/x", "tenant": "a", "containers": [{"container": "docker c",
    "homeCpus": "0", "nowCpus": "1", "contested": true, "limitedBy": "cgroup /docker allows only CPU 1"}]}]})");
  EXPECT_NE(text.find(" 0; not allowed: it runs on CPU 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("a/x, docker c: cgroup /docker allows only CPU 1\n"), std::string::npos) << text;
}

TEST(NodeTop, WhatIsolationDoesNotGiveIsSaidOncePerGroup) {
  const std::string text = top(R"({"mode": "enforce", "groups": [
    {"name": "a/x", "tenant": "a", "isolation": "core", "isolationGaps": ["memory bandwidth stays shared", "Not kept away: programs"],
     "notIsolatedYet": ["docker d of b/y may still run on CPU 1: its group waits"],
     "containers": [{"container": "c", "homeCpus": "0-1"}, {"container": "c2", "homeCpus": "2"}]},
    {"name": "b/y", "tenant": "b", "isolation": "cache", "isolationGaps": ["memory bandwidth stays shared"], "notIsolatedYet": [],
     "containers": [{"container": "d", "homeCpus": "4-7"}]},
    {"name": "b/z", "tenant": "b", "isolation": "none", "isolationGaps": [], "notIsolatedYet": [], "containers": [{"container": "e"}]}]})");
  EXPECT_NE(text.find("a/x is not isolated yet: docker d of b/y may still run on CPU 1: its group waits\n"), std::string::npos) << text;
  const std::string gaps = "a/x, isolation core, shares all the same: memory bandwidth stays shared. Not kept away: programs\n";
  ASSERT_NE(text.find(gaps), std::string::npos) << text;
  EXPECT_EQ(text.find(gaps), text.rfind(gaps)) << "once";
  EXPECT_NE(text.find("0-1 (core, not yet)"), std::string::npos) << text;
  EXPECT_NE(text.find("4-7 (cache)"), std::string::npos) << text;
  EXPECT_EQ(text.find("b/z, isolation"), std::string::npos) << text;
}

TEST(NodeTop, WhoWaitsForIsolationIsShownWithTheReasons) {
  const std::string text = top(R"({"mode": "enforce", "groups": [
    {"name": "a/x", "tenant": "a", "pending": false, "reasons": ["its weight entitles it"], "containers": [{"container": "c", "homeCpus": "0-1"}]},
    {"name": "b/y", "tenant": "b", "pending": true, "waitsForIsolation": "node", "reasons": ["isolation node cannot be had", "core would fit"],
     "containers": [{"container": "d"}]},
    {"name": "b/z", "tenant": "b", "pending": true, "waitsForIsolation": "none", "reasons": [], "containers": [{"container": "e"}]}]})");
  EXPECT_NE(text.find("waits (isolation node)"), std::string::npos) << text;
  EXPECT_NE(text.find("b/y waits: isolation node cannot be had\nb/y waits: core would fit\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("entitles"), std::string::npos) << "who runs: `coterie agent` prints that";
  EXPECT_EQ(text.find("isolation none"), std::string::npos) << text;
}

}  // namespace
}  // namespace coterie::cli
