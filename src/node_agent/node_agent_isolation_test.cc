// Isolated groups under the agent: their tenant's cache class, what is said of what isolation does not give, and of who does not let it be in force.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "node_agent/node_agent.h"
#include "node_agent/node_agent_rig.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

// One cache of twelve ways below all four CPUs.
CacheControl twelveWays() {
  CacheControl control;
  control.caches = {{0, CpuSet::range(0, 3), 0xfff}};
  control.classes = 3;
  return control;
}

constexpr const char* kRedIsolated = R"(
groups:
  - {name: red/s, tenant: red, isolation: core, members: [{command: "red*"}]}
  - {name: blue/s, tenant: blue, members: [{command: "blue*"}]}
)";

TEST(NodeAgentIsolation, AllProcessesOfAnIsolatedContainerAreInItsTenantsCacheClass) {
  AgentRig rig;
  rig.classes = std::make_unique<testing::FakeCacheClasses>(twelveWays());
  const int first = rig.beginContained("red", kRedCgroup);
  const int second = rig.beginContained("red helper", kRedCgroup);
  const int blue = rig.begin("blue");
  rig.start(kRedIsolated, Mode::Enforce);
  EXPECT_EQ(rig.classes->classOf(first), "t0");
  EXPECT_EQ(rig.classes->classOf(second), "t0");
  EXPECT_EQ(rig.classes->classOf(blue), "rest");
  EXPECT_NE(rig.reasons(0).find("cache class of its own"), std::string::npos) << rig.reasons(0);
  const int late = rig.beginContained("red late", kRedCgroup);
  rig.loop.advance(2s);
  EXPECT_EQ(rig.classes->classOf(late), "t0");
  rig.node->stop([] {});
  rig.loop.advance(2s);
  EXPECT_TRUE(rig.classes->list().empty());
  EXPECT_EQ(rig.classes->classOf(first), "");
}

TEST(NodeAgentIsolation, WithoutCacheClassesThatIsRemarkedAndWhileObservingNothingIsWritten) {
  const Error nothing{Code::Unavailable, "NoCacheClasses", "the kernel has none"};
  AgentRig rig;
  rig.classes = std::make_unique<testing::FakeCacheClasses>(nothing);
  rig.begin("red");
  rig.begin("blue");
  rig.start(kRedIsolated, Mode::Enforce);
  EXPECT_EQ(rig.node->report().remarks, std::vector<std::string>{"cache classes: the kernel has none"});
  AgentRig observing;
  observing.classes = std::make_unique<testing::FakeCacheClasses>(twelveWays());
  observing.begin("red");
  observing.begin("blue");
  observing.start(kRedIsolated, Mode::Observe);
  observing.loop.advance(3s);
  EXPECT_EQ(observing.classes->writes + observing.classes->joins + observing.classes->readings, 0);
  EXPECT_TRUE(observing.node->report().remarks.empty());
}

// What a level does not give is said while observing, too; what is in force is said only where something is.
TEST(NodeAgentIsolation, AnIsolatedGroupIsToldWhatItSharesAllTheSame) {
  for (const Mode mode : {Mode::Observe, Mode::Enforce}) {
    AgentRig rig;
    rig.begin("red");
    rig.begin("blue");
    rig.start(kRedIsolated, mode);
    rig.loop.advance(1s);
    const AgentReport report = rig.node->report();
    const GroupReport& red = report.groups.at(0);
    EXPECT_EQ(red.isolation, Isolation::Core);
    ASSERT_EQ(red.isolationGaps.size(), 2U);
    EXPECT_NE(red.isolationGaps[0].find("memory bandwidth"), std::string::npos) << red.isolationGaps[0];
    EXPECT_NE(red.isolationGaps[1].find("programs that belong to no group"), std::string::npos) << red.isolationGaps[1];
    EXPECT_NE(rig.reasons(0).find("keeps other tenants off its cores"), std::string::npos) << rig.reasons(0);
    EXPECT_TRUE(red.notIsolatedYet.empty()) << red.notIsolatedYet.front();
    EXPECT_TRUE(report.groups.at(1).isolationGaps.empty());
    EXPECT_EQ(reportValue(report).find("groups")->asList()->at(0).find("isolationGaps")->asList()->size(), 2U);
  }
}

TEST(NodeAgentIsolation, WhoCouldNotBeMovedOffAnIsolatedGroupsCpusIsNamed) {
  AgentRig rig;
  rig.begin("red");
  rig.start(kRedIsolated, Mode::Enforce);
  rig.loop.advance(1s);
  const InstanceId next(rig.container(0).id.value + 1);
  rig.kernel.fail(next, CpuChangeKind::HomeCpus, EACCES);
  const int blue = rig.begin("blue");
  rig.loop.advance(1s);
  ASSERT_EQ(rig.container(1).id, next);
  const AgentReport report = rig.node->report();
  const std::vector<std::string>& said = report.groups.at(0).notIsolatedYet;
  ASSERT_EQ(said.size(), 1U) << "blue's threads may still run everywhere";
  const std::string begin = "process " + std::to_string(blue) + " of blue/s may still run on " + cpusNamed(rig.container(0).planned) + ": ";
  EXPECT_EQ(said.front().rfind(begin, 0), 0U) << said.front();
  EXPECT_NE(said.front().find("failed"), std::string::npos) << said.front();
  EXPECT_NE(reportText(report, false).find("  not isolated yet: " + said.front()), std::string::npos);
  rig.kernel.heal();
  rig.loop.advance(3s);
  EXPECT_TRUE(rig.node->report().groups.at(0).notIsolatedYet.empty());
}

TEST(NodeAgentIsolation, WhoWaitsForIsolationOfItsOwnStillRunsOnAnIsolatedGroupsCpus) {
  AgentRig rig;
  rig.begin("red");
  rig.start(R"(
groups:
  - {name: red/s, tenant: red, isolation: core, members: [{command: "red*"}]}
  - {name: blue/s, tenant: blue, isolation: node, members: [{command: "blue*"}]}
)",
            Mode::Enforce);
  rig.loop.advance(1s);
  EXPECT_TRUE(rig.node->report().groups.at(0).notIsolatedYet.empty());
  rig.begin("blue");
  rig.loop.advance(1s);
  const AgentReport report = rig.node->report();
  ASSERT_TRUE(report.groups.at(1).pending);
  EXPECT_TRUE(report.groups.at(1).isolationGaps.empty()) << "it has no isolation to speak of";
  ASSERT_EQ(report.groups.at(0).notIsolatedYet.size(), 1U);
  EXPECT_NE(report.groups.at(0).notIsolatedYet.front().find(": its group waits, and keeps the CPUs that it has"), std::string::npos)
      << report.groups.at(0).notIsolatedYet.front();
}

// Its own processes may not be where they should be either: then it shares with whoever runs there.
TEST(NodeAgentIsolation, AnIsolatedGroupsOwnContainerThatCouldNotBePlacedIsNamed) {
  AgentRig rig;
  rig.begin("blue");
  rig.start(kRedIsolated, Mode::Enforce);
  rig.loop.advance(1s);
  rig.kernel.fail(InstanceId(rig.container(0).id.value + 1), CpuChangeKind::HomeCpus, EACCES);
  rig.begin("red");
  rig.loop.advance(1s);
  const AgentReport report = rig.node->report();
  ASSERT_EQ(report.groups.at(0).name, "red/s");
  ASSERT_EQ(report.groups.at(0).notIsolatedYet.size(), 1U);
  EXPECT_EQ(report.groups.at(0).notIsolatedYet.front().rfind("its own process ", 0), 0U) << report.groups.at(0).notIsolatedYet.front();
}

}  // namespace
}  // namespace coterie::node_agent
