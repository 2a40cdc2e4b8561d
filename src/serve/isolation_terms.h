// What a level of isolation is on this machine, in numbers and in words: what its units are, and what it does not keep away. Pure.
#pragma once

#include "agent/drc.h"
#include "controller/allocation_port.h"

namespace coterie::serve {

struct IsolationSetting {
  agent::IsolationUnits units;
  bool reserved{false};        // Coterie's own threads have CPUs of their own
  bool virtualMachine{false};  // the CPUs are a hypervisor's
};

[[nodiscard]] controller::IsolationTerms isolationTerms(Isolation level, const IsolationSetting& setting);

}  // namespace coterie::serve
