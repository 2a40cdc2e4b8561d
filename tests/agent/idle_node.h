// What the enforcing agent costs while nothing happens: CPU time of this process over so long, with containers of four sleeping threads each in
// cgroups of their own, as docker makes them. The parts are those of `coterie agent`, wired as it wires them.
//
// Needs root and cgroups in which directories can be made; else Unavailable/NoCgroups. They are removed at the end. Thread-compatible.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace coterie::agent_bench {

struct IdleCost {
  double percent{0};  // of one CPU
  int containers{0};  // that the agent found and placed
};

[[nodiscard]] Result<IdleCost> measureIdle(int containers, Seconds time, const std::string& folder);

}  // namespace coterie::agent_bench
