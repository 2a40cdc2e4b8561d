// Counts and latencies of the request path, per service and per tenant.
//
// A request is counted in `started` when it is known whose it is, and under its status exactly once, when it is answered or its client has gone; so
// started - answered = under way, exactly, also while requests run for minutes. Latencies in nanoseconds; the recent ones cover the last 10 to 20
// seconds. Reasons are the gateway's own words, so their number is bounded. Copyable values. Thread-compatible (gateway's loop).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/units.h"
#include "model/batching.h"
#include "model/ids.h"
#include "tenancy/limits.h"

namespace coterie::gateway {

inline constexpr std::array<int, 14> kStatuses{200, 400, 401, 403, 404, 405, 409, 413, 429, 499, 500, 501, 503, 504};

struct RequestCounts {
  std::int64_t started{0};
  std::array<std::int64_t, kStatuses.size()> byStatus{};     // in the order of kStatuses
  std::map<std::string, std::int64_t, std::less<>> refused;  // by reason: all but 200 and 499

  void answer(int status, std::string_view reason);
  [[nodiscard]] std::int64_t answered() const;
  [[nodiscard]] std::int64_t underWay() const { return started - answered(); }
  [[nodiscard]] std::int64_t of(int status) const;
  void add(const RequestCounts& other);
};

// A histogram that forgets: what was recorded in this window of 10 s and the one before.
class RecentHistogram {
 public:
  void record(std::int64_t value, Instant now) {
    turn(now);
    current_.record(value);
  }
  [[nodiscard]] Histogram read(Instant now) const;

 private:
  static constexpr Nanos kWindow = Seconds(10);
  void turn(Instant now);

  Histogram current_;
  Histogram previous_;
  Instant start_{};
};

// Runs by how many requests ran as one.
class RunCounts {
 public:
  struct Total {
    std::int64_t runs{0};
    std::int64_t nanos{0};
  };
  void record(std::size_t together, Nanos took);
  [[nodiscard]] const Total& of(int requests) const { return totals_[static_cast<std::size_t>(requests)]; }
  [[nodiscard]] std::int64_t runs() const;
  [[nodiscard]] std::int64_t runsOfAtMost(std::int64_t together) const;
  [[nodiscard]] std::int64_t requests() const;

 private:
  std::array<Total, kMostBatch + 1> totals_{};
};

// Of one tenant's calls of one service, or of all tenants' together.
struct CallFigures {
  RequestCounts requests;
  Histogram queue;                  // waiting for a lane, of requests that got one
  Histogram run;                    // on a lane, of requests that ended there
  Histogram total;                  // from the complete head to the answer, of status 200
  std::int64_t withinObjective{0};  // of status 200
  std::int64_t bytesIn{0};          // tensor bytes accepted
  std::int64_t slotNanos{0};        // slot-time charged: that lanes were held, less what runs waited for a CPU; estimates of what runs now included
  std::int64_t bytesOut{0};         // bytes of answers with status 200

  void add(const CallFigures& other);
};

struct ServiceStatistics : CallFigures {
  // Of one run with so many of its requests, however it ended.
  void ran(std::size_t together, Nanos took);

  RunCounts runs;  // by how many of the tenant's own were in it
  RecentHistogram recentTotal;
  std::int64_t failedNanos{0};  // from head to answer, of all but status 200
  WallTime lastInference;
};

struct CallerSnapshot : CallFigures {
  TenantName tenant;
  std::int64_t entitledNanos{0};  // slot-time that it was entitled to while it had work (fair_share.h)
};

struct ServiceSnapshot : CallFigures {  // of all callers
  ServiceName name;
  TenantName tenant;  // whose it is
  std::vector<CallerSnapshot> callers;
  Histogram recentTotal;
  RunCounts runs;          // of all callers together
  bool batching{false};    // its spec asks for it
  int jainPermille{1000};  // fair_share.h
  bool stateful{false};
  std::int64_t sequences{0};  // begun and not ended, of all callers
  std::int64_t queued{0};
  std::int64_t queuedBytes{0};
  std::int64_t inFlight{0};
  int ownLanes{0};  // present
  int openOwnLanes{0};
  int openLoanLanes{0};
  std::int64_t ownCpuNanos{0};
  std::int64_t loanCpuNanos{0};
};

struct TenantSnapshot {
  TenantName tenant;
  RequestCounts requests;  // of all its requests, whatever the service
  std::int64_t concurrent{0};
  std::int64_t queuedBytes{0};
};

// The limits of one tenant's requests: of all of them, or of those to one service.
struct LimitSnapshot {
  TenantName tenant;
  std::optional<ServiceName> service;  // of a service only limits that are set or were met
  std::vector<tenancy::LimitUse> uses;
};

struct GatewaySnapshot {
  std::vector<ServiceSnapshot> services;  // by name; those draining under a replaced model are in their service's figures
  std::vector<TenantSnapshot> tenants;    // by name
  std::vector<LimitSnapshot> limits;      // by tenant, that of all its requests first, then by service
  RequestCounts unauthenticated;          // no key, or an unknown one
  std::int64_t bufferedBytes{0};
};

}  // namespace coterie::gateway
