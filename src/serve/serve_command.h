// `coterie serve`: the command line of LocalServer, its signals, and what a person sees at the start and the end.
#pragma once

#include "cli/command.h"

namespace coterie::serve {

[[nodiscard]] cli::Command serveCommand();

}  // namespace coterie::serve
