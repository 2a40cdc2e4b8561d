// How the slots of one service were divided: what each caller was entitled to while it had work, and how evenly that was met.
//
// Entitled is the tenant's share of the slots, as dispatch has it (Station::share: by band and weight among all that called in the last 10 s), over
// the time that it had requests waiting or running. Who always has work gets at least that; who has less work may use less. Jain's index is of used /
// entitled over a window of 10 s, over tenants that had requests waiting at each look: (sum x)^2 / (n sum x^2), 1 where all got the same by their
// shares, 1/n where one got everything (Jain, Chiu, Hawe 1984). look() is to be called at a steady pace while there is work; a pause longer than
// kLongestStep is nobody's time. O(tenants) a look. Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"
#include "model/ids.h"

namespace coterie::gateway {

class FairShare {
 public:
  static constexpr Nanos kWindow = Seconds(10);
  static constexpr Nanos kLongestStep = Seconds(1);

  struct Look {
    TenantId tenant;
    std::int64_t share{0};  // thousandths of a slot
    Nanos charged{};        // slot-time, since ever
    bool waiting{false};    // has requests in the queue
  };
  // Of all tenants that have work here now.
  void look(Instant now, const std::vector<Look>& tenants);

  [[nodiscard]] Nanos entitled(TenantId tenant) const;  // since ever
  // Of the last full window; 1000 where fewer than two tenants waited all the time.
  [[nodiscard]] int jainPermille() const { return jainPermille_; }

 private:
  struct Part {
    Nanos entitled{};
    Nanos entitledBefore{};  // at the beginning of the window
    Nanos chargedBefore{};
    Nanos charged{};
    std::int64_t looks{0};  // in this window, with requests waiting
  };
  void closeWindow(Instant now);

  std::map<TenantId, Part> parts_;
  Instant last_{};
  Instant windowStart_{};
  std::int64_t looks_{0};
  int jainPermille_{1000};
};

}  // namespace coterie::gateway
