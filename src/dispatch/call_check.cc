#include "dispatch/call_check.h"

#include <variant>

namespace coterie::dispatch {

namespace {

constexpr std::int32_t kMostTenants = 100'000;
constexpr std::size_t kMostServices = 10'000;
constexpr std::size_t kMostSlots = 100'000;
constexpr std::int64_t kMostWeight = 1'000'000;
constexpr std::int64_t kMostCount = std::int64_t{1} << 50;
constexpr int kMostConcurrency = 1'000'000;

bool sound(const Caps& caps) { return caps.requests >= 0 && caps.requests <= kMostCount && caps.bytes.value >= 0 && caps.bytes.value <= kMostCount; }
bool sound(const StationOptions& options) {
  int sum = 0;
  for (const int guarantee : options.guarantees) sum += guarantee;
  return sound(options.caps) && options.concurrency >= 0 && options.concurrency <= kMostConcurrency && sum <= 1000;
}
bool sound(const ServiceOptions& options) {
  return options.weight > 0 && options.weight <= kMostWeight && sound(options.caps) && options.initialRun > Nanos{} && options.maxBatch > 0;
}
bool sound(const Usage& usage) { return usage.held >= Nanos{} && usage.queuedForCpu >= Nanos{} && usage.cpu >= Nanos{}; }

}  // namespace

std::string CallCheck::refuse(const Call& call) {
  if (std::holds_alternative<calls::Open>(call) == open_) return open_ ? "opens a station that is open" : "is for a station that was not opened";
  return std::visit([this](const auto& each) { return on(each); }, call);
}

std::string CallCheck::advance(Instant now) {
  if (now < now_) return "goes back in time";
  now_ = now;
  return {};
}

bool CallCheck::hasService(ServiceId id) const {
  return id.valid() && static_cast<std::size_t>(id.value) < services_.size() && services_[static_cast<std::size_t>(id.value)];
}
bool CallCheck::hasSlot(SlotId id) const {
  return id.valid() && static_cast<std::size_t>(id.value) < slots_.size() && slots_[static_cast<std::size_t>(id.value)];
}

std::string CallCheck::on(const calls::Open& call) {
  open_ = true;
  return sound(call.options) ? std::string() : "has options that no station has";
}
std::string CallCheck::on(const calls::Configure& call) { return sound(call.options) ? std::string() : "has options that no station has"; }
std::string CallCheck::on(const calls::SetTenant& call) {
  if (!call.tenant.valid() || call.tenant.value >= kMostTenants) return "names a tenant that cannot be";
  const TenantOptions& options = call.options;
  if (options.weight <= 0 || options.weight > kMostWeight || !sound(options.caps) || options.queuedCost < Nanos{})
    return "has options that no tenant has";
  const auto at = static_cast<std::size_t>(call.tenant.value);
  if (tenants_.size() <= at) tenants_.resize(at + 1, false);
  tenants_[at] = true;
  return {};
}
std::string CallCheck::on(const calls::AddService& call) {
  if (services_.size() >= kMostServices || !sound(call.options)) return "adds a service that cannot be";
  services_.push_back(true);
  return {};
}
std::string CallCheck::on(const calls::SetService& call) {
  return hasService(call.service) && sound(call.options) ? std::string() : "changes a service that is not there";
}
std::string CallCheck::on(const calls::RemoveService& call) {
  if (!hasService(call.service)) return "removes a service that is not there";
  services_[static_cast<std::size_t>(call.service.value)] = false;
  return advance(call.now);
}
// The station chooses the id; the record has what it chose then. If it chooses another one now, that is a difference, and the replay ends.
std::string CallCheck::on(const calls::AddSlot& call) {
  if (!hasService(call.service)) return "adds a slot to a service that is not there";
  if (!call.answer.valid() || static_cast<std::size_t>(call.answer.value) > slots_.size() || slots_.size() >= kMostSlots)
    return "adds a slot that cannot be";
  const auto at = static_cast<std::size_t>(call.answer.value);
  if (slots_.size() <= at) slots_.resize(at + 1, false);
  if (slots_[at]) return "adds a slot that is there";
  slots_[at] = true;
  return {};
}
std::string CallCheck::on(const calls::OpenSlot& call) { return hasSlot(call.slot) ? std::string() : "opens a slot that is not there"; }
std::string CallCheck::on(const calls::RemoveSlot& call) {
  if (!hasSlot(call.slot)) return "removes a slot that is not there";
  slots_[static_cast<std::size_t>(call.slot.value)] = false;
  return {};
}
std::string CallCheck::on(const calls::Enqueue& call) {
  const Request& request = call.request;
  const bool known = request.tenant.valid() && static_cast<std::size_t>(request.tenant.value) < tenants_.size() &&
                     tenants_[static_cast<std::size_t>(request.tenant.value)];
  const bool service = request.service.valid() && static_cast<std::size_t>(request.service.value) < services_.size();
  if (!known || !service) return "is a request of a tenant or for a service that is not there";
  if (request.bytes.value < 0 || request.bytes.value > kMostCount) return "is a request of a size that cannot be";
  return advance(call.now);
}
std::string CallCheck::on(const calls::Next& call) { return advance(call.now); }
std::string CallCheck::on(const calls::Complete& call) { return sound(call.usage) ? advance(call.now) : "says that a run took less than no time"; }
std::string CallCheck::on(const calls::Cancel& call) { return advance(call.now); }

}  // namespace coterie::dispatch
