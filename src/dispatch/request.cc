#include "dispatch/request.h"

#include <algorithm>

namespace coterie::dispatch {

namespace {
struct Row {
  std::string_view name;
  Code code;
};
Row row(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::TenantBacklog: return {"TenantBacklog", Code::ResourceExhausted};
    case RefusalReason::TenantQueueFull: return {"TenantQueueFull", Code::ResourceExhausted};
    case RefusalReason::TenantBytesFull: return {"TenantBytesFull", Code::ResourceExhausted};
    case RefusalReason::ServiceQueueFull: return {"ServiceQueueFull", Code::ResourceExhausted};
    case RefusalReason::StationFull: return {"StationFull", Code::ResourceExhausted};
    case RefusalReason::DisplacedByShare: return {"DisplacedByShare", Code::ResourceExhausted};
    case RefusalReason::RequestTooLarge: return {"RequestTooLarge", Code::TooLarge};
    case RefusalReason::NoInstance: return {"NoInstance", Code::Unavailable};
    case RefusalReason::NoSlotInTime: return {"NoSlotInTime", Code::Unavailable};
    case RefusalReason::ServiceRemoved: return {"ServiceRemoved", Code::Unavailable};
    case RefusalReason::DeadlinePassed: return {"DeadlinePassed", Code::DeadlineExceeded};
    case RefusalReason::DeadlineTooShort: return {"DeadlineTooShort", Code::DeadlineExceeded};
    case RefusalReason::ExpiredInQueue: return {"ExpiredInQueue", Code::DeadlineExceeded};
  }
  return {"Unknown", Code::Internal};
}
}  // namespace

std::string_view refusalReasonName(RefusalReason reason) { return row(reason).name; }
Code refusalCode(RefusalReason reason) { return row(reason).code; }

std::int64_t retryAfterSeconds(Nanos retryAfter, Rng& rng) {
  const std::int64_t permille = rng.between(800, 1200);
  const std::int64_t millis = std::chrono::ceil<Millis>(retryAfter).count() * permille / 1000;
  return std::max<std::int64_t>(1, (millis + 999) / 1000);
}

}  // namespace coterie::dispatch
