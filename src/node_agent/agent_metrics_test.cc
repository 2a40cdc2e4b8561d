// What a scrape and `top --node` say of a report.
#include "node_agent/agent_metrics.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

#include "cli/node_top.h"
#include "node_agent/agent_doors.h"
#include "node_agent/report.h"

namespace coterie::node_agent {
namespace {

using namespace std::chrono_literals;

AgentReport reportOf(const std::string& name) {
  ContainerReport container;
  container.name = name;
  container.command = "server --port 1";
  container.planned = CpuSet{2, 3};
  container.threads = 2;
  container.use = {10s, MilliCpu(1500), MilliCpu(2500), 8, 4};
  container.hint = HintSeen::NotTakenUp;
  container.seen.cpu = ContainerCpu{7s, 12, 300ms};
  container.seen.throttledLately = 3;
  container.seen.pressure = ContainerPressure{250, 9s};
  container.seen.memory = ContainerResident{Bytes(1 << 20), Bytes(1 << 20)};
  container.seen.nodes = {{0, Bytes(2 << 20)}};
  container.quota = MilliCpu(500);
  container.quotaRaised = MilliCpu(2000);
  GroupReport group;
  group.number = 0;
  group.name = "red/s";
  group.tenant = "red";
  group.entitlement = MilliCpu(2000);
  group.use = container.use;
  group.containers.push_back(std::move(container));
  AgentReport report;
  report.mode = Mode::Enforce;
  report.usable = CpuSet::range(0, 3);
  report.groups.push_back(std::move(group));
  report.absent = {"blue/s"};
  return report;
}

TEST(AgentMetricsTest, AScrapeCarriesGroupsContainersAndTheController) {
  AgentMetrics metrics;
  agent::DrcView controller;
  controller.plans = 5;
  agent::GroupView view;
  view.spec.id = GroupId(0);
  view.counters.driftRepairs = 2;
  const std::string text = metrics.scrape(reportOf("docker 3f2a"), controller, {view});
  for (const char* line :
       {"coterie_agent_enforcing 1", "coterie_agent_groups_absent 1", "coterie_agent_group_entitlement_cpus{tenant=\"red\",group=\"red/s\"} 2",
        "coterie_agent_container_home_cpus{tenant=\"red\",group=\"red/s\",container=\"docker 3f2a\"} 2",
        "coterie_agent_container_throttled_periods_total{tenant=\"red\",group=\"red/s\",container=\"docker 3f2a\"} 12",
        "coterie_agent_container_cpu_seconds_total{tenant=\"red\",group=\"red/s\",container=\"docker 3f2a\"} 7",
        "coterie_agent_container_pressure_ratio{tenant=\"red\",group=\"red/s\",container=\"docker 3f2a\"} 0.25",
        "coterie_agent_container_hint_not_taken_up{tenant=\"red\",group=\"red/s\",container=\"docker 3f2a\"} 1", "coterie_plans_total 5",
        "coterie_agent_group_drift_repairs_total{tenant=\"red\",group=\"red/s\"} 2"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

TEST(AgentMetricsTest, AConfigurationThatIsRefusedIsThere) {
  AgentMetrics metrics;
  AgentReport report = reportOf("docker 3f2a");
  const std::string before = metrics.scrape(report, std::nullopt, {});
  for (const char* line : {"coterie_agent_config_reload_failed 0\n", "coterie_agent_config_reloads_total 0\n"})
    EXPECT_NE(before.find(line), std::string::npos) << line << before;
  report.configuration = {3, 2, {"agent.yaml:4: groups[0].weigth: unknown field; did you mean weight?"}};
  const std::string after = metrics.scrape(report, std::nullopt, {});
  for (const char* line :
       {"coterie_agent_config_reload_failed 1\n", "coterie_agent_config_reloads_total 3\n", "coterie_agent_config_reloads_refused_total 2\n"})
    EXPECT_NE(after.find(line), std::string::npos) << line << after;
}

TEST(AgentMetricsTest, ContainersThatHaveGoneLeaveNoSeries) {
  AgentMetrics metrics;
  for (int i = 0; i < 300; ++i) static_cast<void>(metrics.scrape(reportOf("docker " + std::to_string(i)), {}, {}));
  const std::string text = metrics.scrape(reportOf("docker last"), {}, {});
  EXPECT_EQ(text.find("docker 299"), std::string::npos);
  EXPECT_NE(text.find("docker last"), std::string::npos) << "never one of \"other\"";
  EXPECT_EQ(text.find("coterie_plans_total"), std::string::npos) << "nobody plans while it observes";
}

TEST(NodeTop, ShowsContainersHomesUseWaitingThrottlingAndHints) {
  std::ostringstream out, err;
  std::istringstream in;
  const cli::Terminal terminal{in, out, err, false, false, 80, {}};
  cli::Context context{terminal, "", nullptr};
  cli::printNodeTop(context, reportValue(reportOf("docker 3f2a")));
  for (const char* words : {"enforcing; CPUs 0-3", "docker 3f2a", "2-3", "1.50", "2.50", "not taken up", "25%", "3/10s, quota 0.50 -> 2.00", "2.0Mi",
                            "nothing was found of blue/s"})
    EXPECT_NE(out.str().find(words), std::string::npos) << words << "\n" << out.str();
  AgentReport bare = reportOf("process 7");
  bare.mode = Mode::Observe;
  bare.groups[0].containers[0].seen = {};
  bare.groups[0].containers[0].hint = HintSeen::None;
  out.str("");
  cli::printNodeTop(context, reportValue(bare));
  EXPECT_NE(out.str().find("observing: nothing is changed"), std::string::npos);
  cli::printNodeTop(context, Value());  // not an agent's report: no line, no crash
}

TEST(AgentDoorsTest, MetricsStayOnThisMachine) {
  http::AsioLoop loop;
  AgentDoors doors([] { return Value(); }, [] { return std::string("x 1\n"); });
  EXPECT_EQ(doors.openMetrics(loop, "0.0.0.0", 0).error().reason, "NotLoopback");
  ASSERT_TRUE(doors.openMetrics(loop, "127.0.0.1", 0).ok());
  EXPECT_GT(doors.metricsPort(), 0);
}

}  // namespace
}  // namespace coterie::node_agent
