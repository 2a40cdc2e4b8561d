// `coterie agent`: the command line of NodeAgent, its signals, and when it says what it sees.
#pragma once

#include "cli/command.h"

namespace coterie::node_agent {

[[nodiscard]] cli::Command agentCommand();

}  // namespace coterie::node_agent
