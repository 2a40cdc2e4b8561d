// A plan's steps applied to a snapshot, as a machine that obeys would: for tests, the simulator and dry runs.
//
// O(containers) per step. Pure. Thread-compatible.
#pragma once

#include "allocation/decide.h"

namespace coterie::allocation {

// Ancestor steps change nothing that a snapshot shows; a step for a container that is gone is ignored.
void applyStep(Snapshot& snapshot, const Step& step);

// The pool after some steps of a plan, `before` being the snapshot that was decided on and `now` what is read back: CPUs of the old or new pool on
// which a container of one of the plan's pool members stands. Equals plan.pool once every step is applied and the pool has members.
[[nodiscard]] CpuSet poolReadBack(const Snapshot& before, const Plan& plan, const Snapshot& now);

// All steps, and what an agent remembers with them: pool, buckets, last optional moves.
void applyAll(Snapshot& snapshot, const Plan& plan);

}  // namespace coterie::allocation
