// What the agent costs while nothing happens: CPU time of this process over so long, with containers of four sleeping threads each in cgroups of
// their own, as docker makes them. The parts are those of `coterie agent`, wired as it wires them.
//
// It is measured twice in a row: the second against the first says what differs by itself. Needs root and cgroups in which directories can be made;
// else Unavailable/NoCgroups. They are removed at the end. Thread-compatible.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "node_agent/agent_file.h"

namespace coterie::agent_bench {

struct IdleCost {
  double percent{0}, again{0};  // of one CPU
  int containers{0};            // that the agent found and planned for
};

// time: of each measurement.
[[nodiscard]] Result<IdleCost> measureIdle(int containers, node_agent::Mode mode, Seconds time, const std::string& folder);

}  // namespace coterie::agent_bench
