#include "tenancy/limits.h"

#include <algorithm>
#include <cassert>

namespace coterie::tenancy {

namespace {
constexpr std::int64_t kRequest = 1'000'000'000;   // units of one request
constexpr std::int64_t kMostRate = 1'000'000'000;  // beyond one a nanosecond there is nothing to limit
constexpr Nanos kRetry = Seconds(1);               // where nobody can say when a place becomes free
}  // namespace

std::string_view limitReason(LimitKind kind) {
  switch (kind) {
    case LimitKind::RequestRate: return "RequestRateExceeded";
    case LimitKind::Concurrency: return "ConcurrencyExceeded";
    case LimitKind::QueuedBytes: return "QueuedBytesExceeded";
    case LimitKind::InFlightBytes: return "InFlightBytesExceeded";
    case LimitKind::QueuedRequests: return "QueuedRequestsExceeded";
    case LimitKind::QueuedTime: return "QueuedSecondsExceeded";
  }
  return "LimitExceeded";
}

std::string_view limitName(LimitKind kind) {
  switch (kind) {
    case LimitKind::RequestRate: return "requestsPerSecond";
    case LimitKind::Concurrency: return "concurrentRequests";
    case LimitKind::QueuedBytes: return "queuedBytes";
    case LimitKind::InFlightBytes: return "inFlightBytes";
    case LimitKind::QueuedRequests: return "queuedRequests";
    case LimitKind::QueuedTime: return "queuedSeconds";
  }
  return {};
}

std::string limitText(LimitKind kind, std::int64_t value) {
  if (kind != LimitKind::QueuedTime) return std::to_string(value);
  std::string seconds = std::to_string(static_cast<double>(value) / 1e9);
  seconds.erase(seconds.find_last_not_of('0') + 1);
  if (seconds.back() == '.') seconds.pop_back();
  return seconds;
}

std::string LimitRefusal::field() const { return (scope == LimitScope::Tenant ? "quota." : "tenantLimits.") + std::string(limitName(kind)); }

Error LimitRefusal::toError(const TenantName& tenant, const ServiceName& service) const {
  const bool all = scope == LimitScope::Tenant;
  return {Code::ResourceExhausted, std::string(limitReason(kind)),
          "tenant \"" + tenant.value + "\"" + (all ? "" : " at service \"" + service.path() + "\"") + ": " + field() + " of " +
              limitText(kind, limit) + " is in use; try again in " + std::to_string(std::chrono::ceil<Millis>(retryAfter).count()) + " ms, or ask " +
              (all ? "the platform" : "the service's owner") + " for a larger " + field()};
}

void RequestLimiter::set(const RequestLimits& limits) {
  limits_ = limits;
  limits_.requestsPerSecond = std::clamp<std::int64_t>(limits.requestsPerSecond, 0, kMostRate);
  limits_.burstRequests = std::clamp<std::int64_t>(limits.burstRequests > 0 ? limits.burstRequests : limits_.requestsPerSecond, 0, kMostRate);
  units_ = std::min(units_, full());
}

std::int64_t RequestLimiter::full() const { return limits_.burstRequests * kRequest; }

std::int64_t RequestLimiter::unitsAt(Instant now) const {
  if (units_ < 0 || limits_.requestsPerSecond == 0) return full();
  const std::int64_t untilFull = full() / limits_.requestsPerSecond + 1;
  const std::int64_t elapsed = std::clamp<std::int64_t>((now - filled_).count(), 0, untilFull);
  return units_ + std::min(elapsed * limits_.requestsPerSecond, full() - units_);
}

LimitRefusal RequestLimiter::refuse(LimitKind kind, std::int64_t limit, Nanos retryAfter) {
  ++hits_[static_cast<std::size_t>(kind)];
  return {kind, limit, retryAfter, scope_};
}

std::optional<LimitRefusal> RequestLimiter::start(Instant now) {
  if (limits_.concurrentRequests > 0 && concurrent_ >= limits_.concurrentRequests)
    return refuse(LimitKind::Concurrency, limits_.concurrentRequests, kRetry);
  if (const std::int64_t rate = limits_.requestsPerSecond; rate > 0) {
    units_ = unitsAt(now);
    filled_ = std::max(filled_, now);
    if (units_ < kRequest) return refuse(LimitKind::RequestRate, rate, Nanos((kRequest - units_ + rate - 1) / rate));
    units_ -= kRequest;
  }
  ++concurrent_;
  return std::nullopt;
}

void RequestLimiter::finish() {
  assert(concurrent_ > 0);
  --concurrent_;
}

std::optional<LimitRefusal> RequestLimiter::hold(Bytes bytes) {
  if (limits_.queuedBytes.value > 0 && bytes.value > limits_.queuedBytes.value - queuedBytes_)
    return refuse(LimitKind::QueuedBytes, limits_.queuedBytes.value, kRetry);
  if (limits_.inFlightBytes.value > 0 && bytes.value > limits_.inFlightBytes.value - inFlightBytes_)
    return refuse(LimitKind::InFlightBytes, limits_.inFlightBytes.value, kRetry);
  queuedBytes_ += bytes.value;
  inFlightBytes_ += bytes.value;
  return std::nullopt;
}

void RequestLimiter::release(Bytes queued, Bytes inFlight) {
  assert(queuedBytes_ >= queued.value && inFlightBytes_ >= inFlight.value);
  queuedBytes_ -= queued.value;
  inFlightBytes_ -= inFlight.value;
}

std::optional<LimitRefusal> RequestLimiter::queueFull(Nanos waiting) {
  if (limits_.queuedRequests > 0 && queued_ >= limits_.queuedRequests) return refuse(LimitKind::QueuedRequests, limits_.queuedRequests, kRetry);
  if (limits_.queuedTime > Nanos{} && queued_ > 0 && waiting >= limits_.queuedTime)
    return refuse(LimitKind::QueuedTime, limits_.queuedTime.count(), std::max(kRetry, waiting - limits_.queuedTime));
  return std::nullopt;
}

void RequestLimiter::leaveQueue() {
  assert(queued_ > 0);
  --queued_;
}

std::optional<Bytes> RequestLimiter::roomForBytes() const {
  std::optional<Bytes> room;
  const auto narrow = [&](Bytes limit, std::int64_t used) {
    if (limit.value > 0) room = std::min(room.value_or(limit), Bytes(limit.value - used));
  };
  narrow(limits_.queuedBytes, queuedBytes_);
  narrow(limits_.inFlightBytes, inFlightBytes_);
  return room;
}

std::vector<LimitUse> RequestLimiter::uses(Instant now, Nanos waiting) const {
  const std::int64_t spent = (full() - unitsAt(now) + kRequest - 1) / kRequest;
  std::vector<LimitUse> all{{LimitKind::RequestRate, limits_.requestsPerSecond, limits_.burstRequests, spent, 0},
                            {LimitKind::Concurrency, limits_.concurrentRequests, 0, concurrent_, 0},
                            {LimitKind::QueuedBytes, limits_.queuedBytes.value, 0, queuedBytes_, 0},
                            {LimitKind::InFlightBytes, limits_.inFlightBytes.value, 0, inFlightBytes_, 0},
                            {LimitKind::QueuedRequests, limits_.queuedRequests, 0, queued_, 0},
                            {LimitKind::QueuedTime, limits_.queuedTime.count(), 0, waiting.count(), 0}};
  for (LimitUse& use : all) use.hits = hits_[static_cast<std::size_t>(use.kind)];
  return all;
}

}  // namespace coterie::tenancy
