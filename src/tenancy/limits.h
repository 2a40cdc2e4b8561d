// Limits of the request path of one tenant: requests per second with a burst, concurrent requests, bytes, requests and seconds that wait. One object
// for all that the tenant calls (Tenant.spec.quota), and one for each service that it calls (ModelService.spec.tenantLimits).
//
// Rate: a token bucket in integers, exact: one request costs 10^9 units, each nanosecond adds `requestsPerSecond` units, the bucket holds
// `burstRequests` (one second's worth if that is not said), so over any window of t seconds at most burst + rate * t requests. It starts full. A
// refused request takes nothing from the bucket, so the retry time that it gets is true if nobody else of the tenant comes before. Concurrency: from
// start() to finish(), waiting or running; a client that leaves does not free its place while a worker still runs its request. Bytes: of a request's
// body and tensors, from before they are read until it is dispatched (queued) or ended (in flight). Queue: from enterQueue() until it is dispatched
// or ended; its seconds are the caller's estimate of what waits, so that they are passed by one request at most. Limits of 0 are none. Changed limits
// bite at once; what is in use stays. Each refusal is counted under its limit. Complexity: O(1) each. Errors: none; a refusal is a value. Unbalanced
// finish(), release() or leaveQueue() is a broken invariant (asserted). Pure: no clock, no I/O. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"
#include "model/objects.h"

namespace coterie::tenancy {

enum class LimitKind : std::uint8_t { RequestRate, Concurrency, QueuedBytes, InFlightBytes, QueuedRequests, QueuedTime };
inline constexpr std::array kAllLimits{LimitKind::RequestRate,   LimitKind::Concurrency,    LimitKind::QueuedBytes,
                                       LimitKind::InFlightBytes, LimitKind::QueuedRequests, LimitKind::QueuedTime};
[[nodiscard]] std::string_view limitReason(LimitKind kind);  // "RequestRateExceeded", ...
[[nodiscard]] std::string_view limitName(LimitKind kind);    // "requestsPerSecond", as objects spell it
// In the unit in which objects say it: "50", "1048576" (bytes), "2.5" (seconds).
[[nodiscard]] std::string limitText(LimitKind kind, std::int64_t value);

enum class LimitScope : std::uint8_t { Tenant, TenantAtService };

struct LimitRefusal {
  LimitKind kind{LimitKind::RequestRate};
  std::int64_t limit{0};  // requests per second, requests, bytes or nanoseconds
  Nanos retryAfter{};     // rate: when a token is there; else 1 s, or until the seconds that wait are few enough
  LimitScope scope{LimitScope::Tenant};

  [[nodiscard]] std::string field() const;  // "quota.requestsPerSecond", "tenantLimits.requestsPerSecond"
  // 429; the message names whose limit, the field, the limit, when to come back and what to do.
  [[nodiscard]] Error toError(const TenantName& tenant, const ServiceName& service) const;
};

// One limit, as `coterie limits` and the metrics show it. limit and used in the kind's unit; of a rate: of the burst, what is spent now.
struct LimitUse {
  LimitKind kind{LimitKind::RequestRate};
  std::int64_t limit{0};  // 0: none
  std::int64_t burst{0};  // of a rate
  std::int64_t used{0};
  std::int64_t hits{0};  // refusals
};

class RequestLimiter {
 public:
  explicit RequestLimiter(LimitScope scope = LimitScope::Tenant) : scope_(scope) {}

  void set(const RequestLimits& limits);

  // A request arrives (after authentication): takes one token and one concurrent place, or nothing.
  [[nodiscard]] std::optional<LimitRefusal> start(Instant now);
  void finish();  // answered, or its worker confirmed its end

  // Its bytes take memory, both queued and in flight, or nothing is taken.
  [[nodiscard]] std::optional<LimitRefusal> hold(Bytes bytes);
  void release(Bytes queued, Bytes inFlight);
  // They wait once more after they had left the queue. Not refused: they were let in before, and nobody can take them back.
  void queueAgain(Bytes bytes) { queuedBytes_ += bytes.value; }

  // May one more wait? waiting: seconds that wait already, as estimated.
  [[nodiscard]] std::optional<LimitRefusal> queueFull(Nanos waiting);
  void enterQueue() { ++queued_; }
  void leaveQueue();

  // What more may be held by the limits of bytes; negative: less than is held.
  [[nodiscard]] std::optional<Bytes> roomForBytes() const;
  [[nodiscard]] bool limitsQueuedTime() const { return limits_.queuedTime > Nanos{}; }

  [[nodiscard]] std::int64_t concurrent() const { return concurrent_; }
  [[nodiscard]] Bytes queuedBytes() const { return Bytes(queuedBytes_); }
  [[nodiscard]] std::vector<LimitUse> uses(Instant now, Nanos waiting) const;  // in the order of kAllLimits

 private:
  [[nodiscard]] LimitRefusal refuse(LimitKind kind, std::int64_t limit, Nanos retryAfter);
  [[nodiscard]] std::int64_t full() const;  // units of a full bucket
  [[nodiscard]] std::int64_t unitsAt(Instant now) const;

  LimitScope scope_;
  RequestLimits limits_;
  std::int64_t units_{-1};  // -1: not yet used, full
  Instant filled_{};
  std::int64_t concurrent_{0};
  std::int64_t queuedBytes_{0};
  std::int64_t inFlightBytes_{0};
  std::int64_t queued_{0};
  std::array<std::int64_t, kAllLimits.size()> hits_{};
};

}  // namespace coterie::tenancy
