// Answers that are no tensors: refusals with their headers, and JSON documents. Internal to src/gateway.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"
#include "base/units.h"
#include "dispatch/request.h"
#include "http/message.h"
#include "tenancy/limits.h"

namespace coterie::gateway {

struct Refused {
  Error error;
  std::string limit;                // the limit that was met, if one was: "quota.requestsPerSecond=10"
  std::optional<Nanos> retryAfter;  // nothing: coming back makes no difference
  int status{0};                    // 0: that of the error's code
  [[nodiscard]] int httpStatus() const { return status != 0 ? status : coterie::httpStatus(error.code); }
};

[[nodiscard]] Refused refusedBy(const dispatch::Refusal& refusal);
[[nodiscard]] Refused refusedBy(const tenancy::LimitRefusal& refusal, const TenantName& tenant, const ServiceName& service);
[[nodiscard]] Refused authenticationLimited(Nanos retryAfter);            // 429; says nothing of the key, at which nobody looked
[[nodiscard]] Refused notReady(std::string reason, std::string message);  // 503, with a second's Retry-After

[[nodiscard]] http::Response refusalResponse(const Refused& refused, std::string_view requestId, Rng& rng);
[[nodiscard]] http::Response jsonResponse(std::string body, std::string_view requestId);

// X-Request-Id if it is printable and short, else a new one.
[[nodiscard]] std::string requestIdOf(const http::RequestHead& head, Rng& rng);
[[nodiscard]] std::string_view headerOf(const http::RequestHead& head, std::string_view name);  // empty if absent

}  // namespace coterie::gateway
