// `coterie agent`: the command line of NodeAgent, its signals, and when it says what it sees.
#pragma once

#include "cli/command.h"

namespace coterie::node_agent {

[[nodiscard]] cli::Command agentCommand();
// For main(), first of all: is this command line the agent's? From then on a SIGHUP waits until the agent listens, and does not end it.
void holdHangUpsOfAgent(int argc, const char* const* argv);

}  // namespace coterie::node_agent
