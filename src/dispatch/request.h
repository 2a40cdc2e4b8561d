// What enters and leaves a station: requests, refusals with reasons, dispatches.
//
// Refusals carry one Code (base/result.h), so HTTP and gRPC answer alike, a reason that programs may test, and when to come back. Reasons by cause:
//   over one's own limit   429  TenantBacklog, TenantQueueFull, TenantBytesFull, ServiceQueueFull, StationFull, DisplacedByShare
//   larger than a cap      413  RequestTooLarge: coming back makes no difference
//   no capacity            503  NoInstance, NoSlotInTime, ServiceRemoved
//   too late               504  DeadlinePassed (it had passed on arrival), DeadlineTooShort (impossible even alone), ExpiredInQueue
// Cancellation (499) is the caller's own word and has no refusal. Instants and durations are monotonic nanoseconds. Thread-compatible.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "base/strong_id.h"
#include "base/units.h"
#include "model/ids.h"

namespace coterie::dispatch {

using ServiceId = StrongId<struct ServiceIdTag>;  // given by Station::addService
using SlotId = StrongId<struct SlotIdTag>;        // given by Station::addSlot; reused after removal

enum class SlotClass : std::uint8_t { Own, Loan };

struct Request {
  TenantId tenant;  // who is charged: the caller
  ServiceId service;
  std::uint32_t version{0};  // of the service's model; estimates are kept per version
  Instant deadline{};
  std::uint64_t inputElements{0};  // of all inputs; estimates are kept per power of two
  Bytes bytes;                     // memory that it holds while it waits
  std::uint64_t cookie{0};         // the caller's own reference, handed back in dispatches and drops
  std::uint64_t batchKey{0};       // requests of one service and key may run as one; 0: alone
};

// Names a request from enqueue() until it is dropped, cancelled in the queue or completed; a stale handle is recognised.
struct RequestHandle {
  std::uint32_t index{0};
  std::uint32_t generation{0};  // 0: none
  [[nodiscard]] bool valid() const { return generation != 0; }
  friend bool operator==(const RequestHandle&, const RequestHandle&) = default;
};

enum class RefusalReason : std::uint8_t {
  TenantBacklog,     // not in time behind the tenant's own queue, but it would be with that queue empty; or it would make an accepted one late
  TenantQueueFull,   // the tenant's cap on queued requests or queued seconds
  TenantBytesFull,   // the tenant's cap on queued bytes
  ServiceQueueFull,  // the service's caps, and this tenant is the one furthest over its share
  StationFull,       // the station's caps, and this tenant is the one furthest over its share
  DisplacedByShare,  // was queued; a cap was reached and its tenant was furthest over its share
  RequestTooLarge,   // its bytes alone are more than a cap of its tenant, its service or the station
  NoInstance,        // no slot may run this service
  NoSlotInTime,      // nobody's backlog: the slots are busy for longer than the deadline allows
  ServiceRemoved,    // was queued when its service went
  DeadlinePassed,
  DeadlineTooShort,
  ExpiredInQueue,  // was queued; it could no longer end in time
};
[[nodiscard]] std::string_view refusalReasonName(RefusalReason reason);
[[nodiscard]] Code refusalCode(RefusalReason reason);

struct Refusal {
  RefusalReason reason{RefusalReason::NoInstance};
  Nanos retryAfter{};     // 0: coming back sooner or later makes no difference (deadlines)
  std::int64_t limit{0};  // the cap that was met, in its unit (requests, bytes, nanoseconds); 0: none
  [[nodiscard]] Code code() const { return refusalCode(reason); }
};

// Retry-After as sent: whole seconds, rounded up, spread by +-20 % so that refused clients do not return together; at least 1.
[[nodiscard]] std::int64_t retryAfterSeconds(Nanos retryAfter, Rng& rng);

struct Admission {
  RequestHandle handle;  // valid: accepted
  Refusal refusal;       // otherwise
  [[nodiscard]] bool accepted() const { return handle.valid(); }
};

struct Dispatch {
  RequestHandle request;
  std::uint64_t cookie{0};
  SlotId slot;
  std::uint64_t slotCookie{0};
  bool together{false};  // it runs as one with the dispatch before it, on the same slot
};

struct Drop {  // an accepted request that left the queue without running; its handle is dead
  std::uint64_t cookie{0};
  Refusal refusal;
};

struct Decisions {  // reused by the caller from call to call: no allocation once warm
  std::vector<Dispatch> dispatches;
  std::vector<Drop> drops;
  void clear() {
    dispatches.clear();
    drops.clear();
  }
};

enum class Outcome : std::uint8_t {
  Succeeded,     // feeds the estimates
  Failed,        // the model said no: the time held is charged
  Cancelled,     // terminated at the caller's wish: the time that the slot was held is charged
  Crashed,       // the worker died: who crashes pays the time held
  NeverStarted,  // the worker went before it took the request: charged nothing, may be enqueued again
};

struct Usage {           // as measured by the worker; untrusted: clamped to what the station saw
  Nanos held{};          // wall time that the slot was held
  Nanos queuedForCpu{};  // of it, waiting in the kernel's run queue: not charged
  Nanos cpu{};           // thread CPU time, for demand()
};

}  // namespace coterie::dispatch
