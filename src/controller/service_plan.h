// The next steps of one service's instances: how many to start, which to let serve, which to drain.
//
// Assumes: instances are of the wanted version ("current") or of another one ("old", a model that was replaced). Steps are small and repeated: plan,
// do, plan again. Algorithm: surplus current instances go (those that do not serve yet first, then the youngest); missing ones are started while each
// fits into what is free on the
//   machine and in the tenant's quota, and the rest is reported as missing bytes. While old ones serve, new ones are loaded beside them and kept
//   back; the switch (all new ones serve, all old ones drain) comes when the new ones are complete, or when no more can be started and at least one
//   is ready. So a model that does not load, or does not fit beside the old one, leaves the old one serving.
// Guarantees: never more than `desired` current instances alive; an old instance that serves is drained only when desired < old ones serving, or at
// the switch; the memory
//   of all starts fits what was free. planService of the result of its steps adds nothing (fixpoint). O(n log n).
// Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "model/ids.h"

namespace coterie::controller {

enum class InstanceState : std::uint8_t {
  Starting,  // spawned, loading
  Ready,     // loaded, kept back until the switch
  Serving,
  Draining,  // takes no new requests
  Stopping,  // asked to end
};

struct PlannedInstance {
  InstanceId id;
  InstanceState state{InstanceState::Starting};
  bool current{true};
};

struct ServiceSituation {
  int desired{0};
  bool mayStart{false};  // model found, admitted, no back-off
  Bytes limit;           // of a new instance
  Bytes freeOnMachine;
  Bytes freeInQuota;
  std::vector<PlannedInstance> instances;
};

struct ServiceSteps {
  int start{0};
  std::vector<InstanceId> serve;  // now Ready
  std::vector<InstanceId> end;    // drain if it serves, else stop
  Bytes missing;                  // for the next start; 0: nothing is missing
  bool missingInQuota{false};     // it is the tenant's quota that lacks it, not the machine
};

[[nodiscard]] ServiceSteps planService(const ServiceSituation& situation);

}  // namespace coterie::controller
