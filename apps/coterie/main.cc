// The one binary: `coterie serve`, `coterie agent`, the administrator's commands, and (hidden) the worker that a server starts.
#include <string_view>

#include "cli/cli.h"
#include "node_agent/agent_command.h"
#include "serve/serve_command.h"
#include "worker/worker_main.h"

int main(int argc, char** argv) {
  // Before anything else: a worker sandboxes itself while it has one thread and nothing open.
  if (argc > 1 && std::string_view(argv[1]) == "worker") return coterie::worker::workerMain(argc - 1, argv + 1);
  coterie::node_agent::holdHangUpsOfAgent(argc, argv);
  return coterie::cli::cliMain(argc, argv, {coterie::serve::serveCommand(), coterie::node_agent::agentCommand()});
}
