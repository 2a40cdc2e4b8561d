// Whether recorded calls may be made: every id exists, every rule that station.h asserts holds, time does not go back. For replay.h. O(1) a call,
// O(slots) memory. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/record.h"

namespace coterie::dispatch {

class CallCheck {
 public:
  // Empty: it may; and it is taken as made, with the answer that the record has.
  [[nodiscard]] std::string refuse(const Call& call);

 private:
  [[nodiscard]] std::string on(const calls::Open&);
  [[nodiscard]] std::string on(const calls::Configure&);
  [[nodiscard]] std::string on(const calls::SetTenant&);
  [[nodiscard]] std::string on(const calls::AddService&);
  [[nodiscard]] std::string on(const calls::SetService&);
  [[nodiscard]] std::string on(const calls::RemoveService&);
  [[nodiscard]] std::string on(const calls::AddSlot&);
  [[nodiscard]] std::string on(const calls::OpenSlot&);
  [[nodiscard]] std::string on(const calls::RemoveSlot&);
  [[nodiscard]] std::string on(const calls::Enqueue&);
  [[nodiscard]] std::string on(const calls::Next&);
  [[nodiscard]] std::string on(const calls::Complete&);
  [[nodiscard]] std::string on(const calls::Cancel&);
  [[nodiscard]] std::string advance(Instant now);
  [[nodiscard]] bool hasService(ServiceId id) const;
  [[nodiscard]] bool hasSlot(SlotId id) const;

  bool open_{false};
  Instant now_{};
  std::vector<bool> tenants_;
  std::vector<bool> services_;  // present
  std::vector<bool> slots_;     // present
};

}  // namespace coterie::dispatch
