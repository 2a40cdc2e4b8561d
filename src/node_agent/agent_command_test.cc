// `coterie agent` as people call it, as far as it ends before it begins.
#include "node_agent/agent_command.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace coterie::node_agent {
namespace {

struct Ran {
  int code;
  std::string err;
};

Ran run(std::vector<std::string> arguments) {
  std::istringstream in("groups: [{name: x, tenant: a, members: [{command: nobody}]}]\n");
  std::ostringstream out;
  std::ostringstream err;
  const cli::Terminal terminal{in, out, err, false, false, 80, [](std::string_view) { return std::optional<std::string>("/nowhere"); }};
  arguments.insert(arguments.begin(), {"agent", "--config", "-"});
  const int code = cli::runCli(arguments, terminal, {agentCommand()});
  return {code, err.str()};
}

TEST(AgentCommand, AMetricsPortThatIsNoneIsRefused) {
  for (const char* port : {"-1", "65536", "-9000000000"}) {
    const Ran ran = run({"--metrics-port", port});
    EXPECT_EQ(ran.code, cli::kUsage) << port;
    EXPECT_NE(ran.err.find("--metrics-port"), std::string::npos) << ran.err;
  }
}

bool holds(const std::vector<const char*>& words) {
  sigset_t none, set;
  ::sigemptyset(&none);
  sigset_t before;
  ::pthread_sigmask(SIG_SETMASK, &none, &before);
  holdHangUpsOfAgent(static_cast<int>(words.size()), words.data());
  ::pthread_sigmask(SIG_SETMASK, &before, &set);
  return ::sigismember(&set, SIGHUP) == 1;
}

TEST(AgentCommand, HangUpsAreHeldForTheAgentAlone) {
  EXPECT_TRUE(holds({"coterie", "agent", "--config", "x"}));
  EXPECT_TRUE(holds({"coterie", "--state", "/s", "agent"}));
  EXPECT_TRUE(holds({"coterie", "--state=/s", "agent"}));
  EXPECT_FALSE(holds({"coterie", "--state", "agent", "get", "services"}));
  EXPECT_FALSE(holds({"coterie", "get", "agent"}));
  EXPECT_FALSE(holds({"coterie"}));
}

}  // namespace
}  // namespace coterie::node_agent
