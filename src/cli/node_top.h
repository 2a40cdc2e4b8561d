// `coterie top --node`: the containers of an agent's report, a line each, then who waits and what isolation does not give. Pure but for the stream.
// Thread-compatible.
#pragma once

#include "cli/context.h"
#include "model/value.h"

namespace coterie::cli {

// report: as `coterie agent -o json` prints it; what is missing in it is shown as a dash.
void printNodeTop(const Context& context, const Value& report);

}  // namespace coterie::cli
