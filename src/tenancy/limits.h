// Per-tenant limits of the request path: requests per second, concurrent requests, queued bytes; over all services of a node.
//
// Rate: a token bucket in integers, exact: one request costs 10^9 units, each nanosecond adds `requestsPerSecond` units, the bucket holds one
// second's worth (so a burst of that many, and over any window of t seconds at most rate * (1 + t) requests). A tenant starts with a full bucket. A
// refused request takes nothing from the bucket, so the retry time that it gets is true if nobody else of the tenant comes before. Concurrency: from
// start() to finish(), waiting or running; a client that leaves does not free its place while a worker still runs its request. Limits of 0 are none.
// Changed limits bite at once; what is in use stays. Complexity: O(1) each; memory O(largest TenantId). Errors: none; a refusal is a value.
// Unbalanced finish() or unqueue() is a broken invariant (asserted). Pure: no clock, no I/O. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"
#include "model/objects.h"

namespace coterie::tenancy {

enum class LimitKind : std::uint8_t { RequestRate, Concurrency, QueuedBytes };
[[nodiscard]] std::string_view limitReason(LimitKind kind);  // "RequestRateExceeded", "ConcurrencyExceeded", "QueuedBytesExceeded"
[[nodiscard]] std::string_view limitField(LimitKind kind);   // "quota.requestsPerSecond", ...

struct LimitRefusal {
  LimitKind kind{LimitKind::RequestRate};
  std::int64_t limit{0};                // in the kind's unit
  Nanos retryAfter{};                   // rate: when a token is there; otherwise 1 s
  [[nodiscard]] Error toError() const;  // 429; the message names the field, the limit and what to do
};

class TenantLimits {
 public:
  // Of the quota, only requestsPerSecond, concurrentRequests and queuedBytes are read here.
  void setTenant(TenantId tenant, const TenantQuota& quota);

  // A request arrives (after authentication): takes one token and one concurrent place, or nothing.
  [[nodiscard]] std::optional<LimitRefusal> start(TenantId tenant, Instant now);
  void finish(TenantId tenant);  // answered, or its worker confirmed its end

  // Its body waits in memory / no longer waits (dispatched, dropped, cancelled).
  [[nodiscard]] std::optional<LimitRefusal> queue(TenantId tenant, Bytes bytes);
  void unqueue(TenantId tenant, Bytes bytes);
  // It waits once more after it had left the queue. Not refused: it was let in before, and nobody can take it back.
  void queueAgain(TenantId tenant, Bytes bytes);

  [[nodiscard]] std::int64_t concurrent(TenantId tenant) const;
  [[nodiscard]] Bytes queuedBytes(TenantId tenant) const;

 private:
  struct State {
    std::int64_t rate{0};
    std::int64_t concurrencyLimit{0};
    std::int64_t bytesLimit{0};
    std::int64_t units{-1};  // -1: not yet used, full
    Instant filled{};
    std::int64_t concurrent{0};
    std::int64_t bytes{0};
  };
  [[nodiscard]] State& stateOf(TenantId tenant);
  [[nodiscard]] const State* find(TenantId tenant) const;

  std::vector<State> tenants_;  // by TenantId
};

}  // namespace coterie::tenancy
