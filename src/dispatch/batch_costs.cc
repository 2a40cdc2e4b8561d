#include "dispatch/batch_costs.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "dispatch/wide.h"

namespace coterie::dispatch {

std::size_t BatchCosts::sizeOf(int requests) {
  assert(requests >= 2 && requests <= kMost);
  return static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(requests - 1))) - 1;
}

int BatchCosts::ratio(int requests) const {
  if (requests < 2) return 1000;
  for (std::size_t at = sizeOf(requests) + 1; at-- > 0;) {
    if (sizes_[at].runs > 0) return sizes_[at].ratio;
  }
  return 1000;
}

bool BatchCosts::growsTo(int requests) {
  for (std::size_t at = 0; at <= sizeOf(requests); ++at) {
    Size& size = sizes_[at];
    if (size.runs < kSure) return at == sizeOf(requests);  // to be tried, but none beyond it
    if (size.ratio <= kWorth) continue;
    if (at == sizeOf(requests) && ++size.occasions >= kAgain) {
      size.occasions = 0;
      size.runs = kSure - 1;
      return true;
    }
    return false;
  }
  return true;
}

void BatchCosts::record(int requests, Nanos actual, Nanos oneByOne) {
  if (requests < 2 || oneByOne <= Nanos{}) return;
  constexpr std::int64_t kAtMost = 4000;  // one odd run must not count for a hundred
  Size& size = sizes_[sizeOf(requests)];
  const auto seen = static_cast<int>(std::clamp<std::int64_t>(mulDiv(actual.count(), 1000, oneByOne.count()), 0, kAtMost));
  size.ratio = size.runs == 0 ? seen : size.ratio + (seen - size.ratio) / 8;
  size.runs = std::min(size.runs + 1, kSure);
}

}  // namespace coterie::dispatch
