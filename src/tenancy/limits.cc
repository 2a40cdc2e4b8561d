#include "tenancy/limits.h"

#include <algorithm>
#include <cassert>
#include <string>

namespace coterie::tenancy {

namespace {
constexpr std::int64_t kRequest = 1'000'000'000;  // units of one request
constexpr std::int64_t kMaxRate = 1'000'000'000;  // beyond one a nanosecond there is nothing to limit
}  // namespace

std::string_view limitReason(LimitKind kind) {
  switch (kind) {
    case LimitKind::RequestRate: return "RequestRateExceeded";
    case LimitKind::Concurrency: return "ConcurrencyExceeded";
    case LimitKind::QueuedBytes: return "QueuedBytesExceeded";
  }
  return "LimitExceeded";
}

std::string_view limitField(LimitKind kind) {
  switch (kind) {
    case LimitKind::RequestRate: return "quota.requestsPerSecond";
    case LimitKind::Concurrency: return "quota.concurrentRequests";
    case LimitKind::QueuedBytes: return "quota.queuedBytes";
  }
  return "quota";
}

Error LimitRefusal::toError() const {
  const std::string field(limitField(kind));
  const auto millis = std::chrono::ceil<Millis>(retryAfter).count();
  return {Code::ResourceExhausted, std::string(limitReason(kind)),
          "the tenant's " + field + " of " + std::to_string(limit) + " is in use; try again in " + std::to_string(millis) +
              " ms, or ask for a larger " + field};
}

TenantLimits::State& TenantLimits::stateOf(TenantId tenant) {
  assert(tenant.valid());
  const auto at = static_cast<std::size_t>(tenant.value);
  if (at >= tenants_.size()) tenants_.resize(at + 1);
  return tenants_[at];
}

const TenantLimits::State* TenantLimits::find(TenantId tenant) const {
  return tenant.valid() && static_cast<std::size_t>(tenant.value) < tenants_.size() ? &tenants_[static_cast<std::size_t>(tenant.value)] : nullptr;
}

void TenantLimits::setTenant(TenantId tenant, const TenantQuota& quota) {
  State& state = stateOf(tenant);
  state.rate = std::clamp<std::int64_t>(quota.requestsPerSecond, 0, kMaxRate);
  state.concurrencyLimit = std::max<std::int64_t>(quota.concurrentRequests, 0);
  state.bytesLimit = std::max<std::int64_t>(quota.queuedBytes.value, 0);
  if (state.units > state.rate * kRequest) state.units = state.rate * kRequest;
}

std::optional<LimitRefusal> TenantLimits::start(TenantId tenant, Instant now) {
  State& state = stateOf(tenant);
  if (state.concurrencyLimit > 0 && state.concurrent >= state.concurrencyLimit)
    return LimitRefusal{LimitKind::Concurrency, state.concurrencyLimit, Seconds(1)};
  if (state.rate > 0) {
    const std::int64_t full = state.rate * kRequest;
    const std::int64_t elapsed = state.units < 0 ? kRequest : std::clamp<std::int64_t>((now - state.filled).count(), 0, kRequest);
    const std::int64_t had = std::max<std::int64_t>(state.units, 0);
    state.units = had + std::min(elapsed * state.rate, full - had);
    state.filled = std::max(state.filled, now);
    if (state.units < kRequest) {
      return LimitRefusal{LimitKind::RequestRate, state.rate, Nanos((kRequest - state.units + state.rate - 1) / state.rate)};
    }
    state.units -= kRequest;
  }
  ++state.concurrent;
  return std::nullopt;
}

void TenantLimits::finish(TenantId tenant) {
  State& state = stateOf(tenant);
  assert(state.concurrent > 0);
  --state.concurrent;
}

std::optional<LimitRefusal> TenantLimits::queue(TenantId tenant, Bytes bytes) {
  State& state = stateOf(tenant);
  if (state.bytesLimit > 0 && bytes.value > state.bytesLimit - state.bytes) return LimitRefusal{LimitKind::QueuedBytes, state.bytesLimit, Seconds(1)};
  state.bytes += bytes.value;
  return std::nullopt;
}

void TenantLimits::unqueue(TenantId tenant, Bytes bytes) {
  State& state = stateOf(tenant);
  assert(state.bytes >= bytes.value);
  state.bytes -= bytes.value;
}

void TenantLimits::queueAgain(TenantId tenant, Bytes bytes) { stateOf(tenant).bytes += bytes.value; }

std::int64_t TenantLimits::concurrent(TenantId tenant) const {
  const State* state = find(tenant);
  return state == nullptr ? 0 : state->concurrent;
}

Bytes TenantLimits::queuedBytes(TenantId tenant) const {
  const State* state = find(tenant);
  return Bytes(state == nullptr ? 0 : state->bytes);
}

}  // namespace coterie::tenancy
