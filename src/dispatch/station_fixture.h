// What the tables of the station's rules stand on: two tenants, one service of 10 ms a run, one slot.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dispatch/station.h"

namespace coterie::dispatch {

inline const TenantId kA(0);
inline const TenantId kB(1);
inline Instant ms(std::int64_t millis) { return Instant(Seconds(100)) + Millis(millis); }

class StationTest : public ::testing::Test {
 protected:
  explicit StationTest(const StationOptions& options = {}) : station(options) {
    station.setTenant(kA, {});
    station.setTenant(kB, {});
    service = station.addService({});  // 10 ms a run
    slot = station.addSlot(service, SlotClass::Own, 70);
  }
  Admission put(TenantId tenant, std::uint64_t cookie, Instant now, Nanos within = Seconds(60), Bytes bytes = Bytes(1)) {
    return station.enqueue({tenant, service, 1, now + within, 1, bytes, cookie}, now);
  }
  // Cookies dispatched by next(), dropped ones with a minus sign.
  std::vector<std::int64_t> next(Instant now) {
    decisions.clear();
    station.next(now, decisions);
    std::vector<std::int64_t> cookies;
    for (const auto& drop : decisions.drops) cookies.push_back(-static_cast<std::int64_t>(drop.cookie));
    for (const auto& dispatch : decisions.dispatches) {
      cookies.push_back(static_cast<std::int64_t>(dispatch.cookie));
      running = dispatch.request;
    }
    return cookies;
  }
  void done(Instant now, Nanos held = Millis(10), Outcome outcome = Outcome::Succeeded) {
    station.completed(running, {held, Nanos{}, held}, outcome, now);
  }
  // How many more of A's requests that must end within half a second are accepted.
  int fill(Instant now) {
    int accepted = 0;
    while (put(kA, 3, now, Millis(500)).accepted()) ++accepted;
    return accepted;
  }
  RefusalReason refused(const Admission& admission) {
    EXPECT_FALSE(admission.accepted());
    return admission.refusal.reason;
  }

  using List = std::vector<std::int64_t>;
  Station station;
  ServiceId service;
  SlotId slot;
  Decisions decisions;
  RequestHandle running;
};

}  // namespace coterie::dispatch
