#include "gateway/fair_share.h"

#include <algorithm>
#include <cmath>

namespace coterie::gateway {

void FairShare::look(Instant now, const std::vector<Look>& tenants) {
  const Nanos step = now - last_;
  const bool paused = step > kLongestStep || step < Nanos{};
  last_ = now;
  for (const Look& look : tenants) {
    Part& part = parts_[look.tenant];
    if (!paused) part.entitled += step * look.share / 1000;
    // Counted anew when its model was replaced.
    if (look.charged < part.charged) part.chargedBefore -= part.charged - look.charged;
    part.charged = look.charged;
    part.looks += look.waiting ? 1 : 0;
  }
  ++looks_;
  if (paused || now - windowStart_ >= kWindow) closeWindow(now);
}

void FairShare::closeWindow(Instant now) {
  double sum = 0;
  double squares = 0;
  std::int64_t count = 0;
  for (auto& [tenant, part] : parts_) {
    const Nanos entitled = part.entitled - part.entitledBefore;
    if (part.looks == looks_ && entitled > Nanos{}) {
      const double got = static_cast<double>((part.charged - part.chargedBefore).count()) / static_cast<double>(entitled.count());
      sum += got;
      squares += got * got;
      ++count;
    }
    part.entitledBefore = part.entitled;
    part.chargedBefore = part.charged;
    part.looks = 0;
  }
  jainPermille_ = count < 2 || squares <= 0 ? 1000 : static_cast<int>(std::lround(1000 * sum * sum / (static_cast<double>(count) * squares)));
  windowStart_ = now;
  looks_ = 0;
}

Nanos FairShare::entitled(TenantId tenant) const {
  const auto found = parts_.find(tenant);
  return found == parts_.end() ? Nanos{} : found->second.entitled;
}

}  // namespace coterie::gateway
