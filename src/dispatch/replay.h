// A record of stations (record.h), played again.
//
//   replay()   makes the recorded calls, in their order and at their times, and compares every answer with the recorded one as bytes: the same
//              decisions, or the number of the first frame that differs.
//   freeRun()  gives new stations what came from outside (tenants, services, slots, arrivals, cancels, at their recorded times) and lets each request
//              run as long as it ran then, on a virtual clock: what shares and waits follow from arrivals and costs alone. Requests that never ran in
//              the record take the median of those that did, of their tenant, else of all. Compared: each tenant's part of all slot-time, the median
//              wait from arrival to start.
// Calls are checked before they are made (ids that exist, rules of station.h): a damaged record is a fault, never misuse. O(frames log queue). Memory
// of replay(): the stations'. Of freeRun(): O(requests). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "dispatch/record.h"

namespace coterie::dispatch {

struct ReplayResult {
  std::int64_t frames{0};
  std::int64_t stations{0};
  std::int64_t arrivals{0};
  std::int64_t dispatches{0};
  std::int64_t drops{0};
  bool cutOff{false};         // the last frame is not whole, as after kill -9: what is before it was replayed
  std::int64_t different{0};  // number of the first frame whose answer differs; 0: none does
  std::string difference;     // what it says, and what came out now
  std::string fault;          // why the record cannot be played further; empty: it could
  [[nodiscard]] bool identical() const { return fault.empty() && different == 0; }
};
[[nodiscard]] ReplayResult replay(std::string_view bytes);

struct TenantRun {
  std::string station;
  std::string tenant;
  std::int64_t arrivals{0};
  std::int64_t started{0};
  Nanos charged{};
  double share{0};  // of the slot-time of all tenants of the station
  Nanos medianWait{};
};
struct FreeRunResult {
  std::vector<TenantRun> recorded;  // by station, then tenant
  std::vector<TenantRun> free;      // the same tenants in the same order
  std::string fault;
};
[[nodiscard]] FreeRunResult freeRun(std::string_view bytes);

}  // namespace coterie::dispatch
