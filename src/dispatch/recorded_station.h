// A station whose calls are written down, if somebody wants them: the same interface, the same answers.
//
// The log gives stations their numbers and hands on bytes as record.h has them; what becomes of these is the sink's matter. Without a log a call
// costs one comparison more. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "dispatch/record.h"
#include "dispatch/station.h"

namespace coterie::dispatch {

class StationLog {
 public:
  using Sink = std::function<void(std::string_view)>;
  explicit StationLog(Sink sink) : sink_(std::move(sink)) { sink_(kRecordMagic); }
  [[nodiscard]] std::uint32_t newStation() { return stations_++; }
  void add(std::uint32_t station, Call call) {
    bytes_.clear();
    writer_.append(bytes_, {station, std::move(call)});
    sink_(bytes_);
  }

 private:
  Sink sink_;
  RecordWriter writer_;
  std::string bytes_;
  std::uint32_t stations_{0};
};

class RecordedStation {
 public:
  RecordedStation(const StationOptions& options, std::string_view name, StationLog* log) : station_(options), log_(log) {
    if (log_ == nullptr) return;
    number_ = log_->newStation();
    log_->add(number_, calls::Open{std::string(name), options});
  }

  void configure(const StationOptions& options) {
    station_.configure(options);
    if (log_ != nullptr) log_->add(number_, calls::Configure{options});
  }
  void setTenant(TenantId tenant, std::string_view name, const TenantOptions& options) {
    station_.setTenant(tenant, options);
    if (log_ != nullptr) log_->add(number_, calls::SetTenant{tenant, std::string(name), options});
  }
  ServiceId addService(const ServiceOptions& options) {
    const ServiceId id = station_.addService(options);
    if (log_ != nullptr) log_->add(number_, calls::AddService{options});
    return id;
  }
  void setService(ServiceId service, const ServiceOptions& options) {
    station_.setService(service, options);
    if (log_ != nullptr) log_->add(number_, calls::SetService{service, options});
  }
  void removeService(ServiceId service, Instant now) {
    station_.removeService(service, now);
    if (log_ != nullptr) log_->add(number_, calls::RemoveService{service, now});
  }
  SlotId addSlot(ServiceId service, SlotClass slotClass, std::uint64_t cookie) {
    const SlotId id = station_.addSlot(service, slotClass, cookie);
    if (log_ != nullptr) log_->add(number_, calls::AddSlot{service, slotClass, cookie, id});
    return id;
  }
  void setSlotOpen(SlotId slot, bool open) {
    station_.setSlotOpen(slot, open);
    if (log_ != nullptr) log_->add(number_, calls::OpenSlot{slot, open});
  }
  void removeSlot(SlotId slot) {
    station_.removeSlot(slot);
    if (log_ != nullptr) log_->add(number_, calls::RemoveSlot{slot});
  }
  [[nodiscard]] Admission enqueue(const Request& request, Instant now) {
    const Admission answer = station_.enqueue(request, now);
    if (log_ != nullptr) log_->add(number_, calls::Enqueue{request, now, answer});
    return answer;
  }
  // `out` is empty before.
  void next(Instant now, Decisions& out) {
    station_.next(now, out);
    if (log_ != nullptr) log_->add(number_, calls::Next{now, out});
  }
  bool completed(RequestHandle request, const Usage& usage, Outcome outcome, Instant now) {
    const bool answer = station_.completed(request, usage, outcome, now);
    if (log_ != nullptr) log_->add(number_, calls::Complete{request, usage, outcome, now, answer});
    return answer;
  }
  CancelResult cancel(RequestHandle request, Instant now) {
    const CancelResult answer = station_.cancel(request, now);
    if (log_ != nullptr) log_->add(number_, calls::Cancel{request, now, answer});
    return answer;
  }

  // What it says of itself changes nothing in it.
  [[nodiscard]] const Station& view() const { return station_; }

 private:
  Station station_;
  StationLog* log_;
  std::uint32_t number_{0};
};

}  // namespace coterie::dispatch
