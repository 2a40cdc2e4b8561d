// What a level of isolation is on this machine, in numbers and in words: what its units are, and what it does not keep away. Pure.
#pragma once

#include "agent/drc.h"
#include "controller/allocation_port.h"

namespace coterie::serve {

struct IsolationSetting {
  agent::IsolationUnits units;
  bool reserved{false};        // Coterie's own threads have CPUs of their own
  bool virtualMachine{false};  // the CPUs are a hypervisor's
  bool cacheWays{false};       // its tenant has ways of the last-level caches for itself
  int othersBandwidth{0};      // percent that others' cores on its memory nodes are held to; 0: they are not
};

[[nodiscard]] controller::IsolationTerms isolationTerms(Isolation level, const IsolationSetting& setting);

}  // namespace coterie::serve
