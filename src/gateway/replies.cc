#include "gateway/replies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "oip/documents.h"

namespace coterie::gateway {

namespace {

constexpr std::string_view kJson = "application/json";

std::string_view explain(dispatch::RefusalReason reason) {
  using enum dispatch::RefusalReason;
  switch (reason) {
    case TenantBacklog: return "your own waiting requests would make this one miss its deadline; send fewer at a time or allow more time";
    case TenantQueueFull: return "too many of your requests wait for this service; wait for answers before sending more";
    case TenantBytesFull: return "your waiting requests hold too many bytes; wait for answers before sending more";
    case ServiceQueueFull: return "the service's queue is full";
    case StationFull: return "the queue is full";
    case DisplacedByShare: return "the queue is full and your share of it was exceeded most";
    case RequestTooLarge: return "the request alone is larger than all that may wait; send less at once";
    case NoInstance: return "no instance of this service is running";
    case NoSlotInTime: return "no lane becomes free in time for this request's deadline";
    case ServiceRemoved: return "the service was removed while the request waited";
    case DeadlinePassed: return "the deadline had passed on arrival";
    case DeadlineTooShort: return "the deadline is shorter than one run of this model takes; allow more time";
    case ExpiredInQueue: return "the deadline passed while the request waited";
  }
  return "refused";
}

bool isPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

}  // namespace

Refused refusedBy(const dispatch::Refusal& refusal) {
  Refused refused{{refusal.code(), std::string(dispatch::refusalReasonName(refusal.reason)), std::string(explain(refusal.reason))}, {}, {}, 0};
  if (refusal.limit > 0) refused.limit = std::to_string(refusal.limit);
  if (refusal.retryAfter > Nanos{}) refused.retryAfter = refusal.retryAfter;
  return refused;
}

Refused refusedBy(const tenancy::LimitRefusal& refusal, const TenantName& tenant, const ServiceName& service) {
  return {refusal.toError(tenant, service), refusal.field() + "=" + tenancy::limitText(refusal.kind, refusal.limit), refusal.retryAfter, 0};
}

Refused authenticationLimited(Nanos retryAfter) {
  return {{Code::ResourceExhausted, "AuthenticationLimited",
           "too many requests with keys that are not good came from this address; use a good key, and stop what sends the others"},
          {},
          retryAfter,
          0};
}

Refused notReady(std::string reason, std::string message) { return {{Code::Unavailable, std::move(reason), std::move(message)}, {}, Seconds(1), 0}; }

http::Response refusalResponse(const Refused& refused, std::string_view requestId, Rng& rng) {
  http::Response response;
  response.status = refused.httpStatus();
  response.contentType = kJson;
  std::optional<Millis> retryAfter;
  if (refused.retryAfter) {
    const std::int64_t seconds = dispatch::retryAfterSeconds(*refused.retryAfter, rng);
    retryAfter = Seconds(seconds);
    response.headers.add("Retry-After", std::to_string(seconds));
  }
  if (response.status == 401) response.headers.add("WWW-Authenticate", "Bearer realm=\"coterie\"");
  response.headers.add("Coterie-Reason", refused.error.reason).add("X-Request-Id", requestId);
  response.body = oip::errorBody(refused.error, refused.limit, retryAfter, requestId);
  return response;
}

http::Response jsonResponse(std::string body, std::string_view requestId) {
  http::Response response;
  response.contentType = kJson;
  response.headers.add("X-Request-Id", requestId);
  response.body = std::move(body);
  return response;
}

std::string_view headerOf(const http::RequestHead& head, std::string_view name) {
  const std::string_view* value = head.find(name);
  return value == nullptr ? std::string_view{} : *value;
}

std::string requestIdOf(const http::RequestHead& head, Rng& rng) {
  constexpr std::size_t kLongest = 128;
  const std::string_view given = headerOf(head, "X-Request-Id");
  if (!given.empty() && given.size() <= kLongest && isPrintable(given)) return std::string(given);
  std::array<char, 16> digits{};
  std::uint64_t random = rng();
  for (char& digit : digits) {
    digit = "0123456789abcdef"[random & 15U];
    random >>= 4U;
  }
  return {digits.data(), digits.size()};
}

}  // namespace coterie::gateway
