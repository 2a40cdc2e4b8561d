// What a service's load is, for the dynamic resource controller: written by the gateway's loop, read from any thread without a lock.
//
// Each figure is exact for itself; two figures read one after the other may belong to different instants some microseconds apart, which a controller
// that smooths does not mind. Rates decay while nobody calls: the gateway refreshes them every 100 ms until they are zero.
#pragma once

#include <atomic>
#include <cstdint>

namespace coterie::gateway {

struct ServiceLoad {
  std::atomic<std::int64_t> arrivalsMilliPerSecond{0};  // time constant 1 s, refused requests included
  std::atomic<std::int64_t> cpuNanosPerRequest{0};      // mean thread CPU time of a run; 0: none yet
  std::atomic<std::int64_t> heldNanosPerRequest{0};     // mean time that a run holds its lane, run-queue wait excluded
  std::atomic<std::int64_t> queued{0};                  // requests that wait for a lane, the waiting room included
  std::atomic<std::int64_t> queuedBytes{0};
  std::atomic<std::int64_t> inFlight{0};  // on lanes
  std::atomic<std::int64_t> busyOwnLanes{0};
  std::atomic<std::int64_t> busyLoanLanes{0};
  std::atomic<bool> queuedBeyondOwnLanes{false};  // somebody waits and every open own lane is busy
  std::atomic<std::int64_t> ownCpuNanos{0};       // totals of thread CPU time, by lane class
  std::atomic<std::int64_t> loanCpuNanos{0};
};

}  // namespace coterie::gateway
