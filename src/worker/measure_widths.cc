#include "worker/measure_widths.h"

#include <algorithm>
#include <chrono>

namespace coterie::worker {

namespace {
constexpr int kFlatInARow = 2;

Nanos monotonic() { return std::chrono::steady_clock::now().time_since_epoch(); }

bool gained(const WidthSpeed& before, const WidthSpeed& now) { return now.mean * 20 <= before.mean * 19; }
}  // namespace

Result<std::vector<WidthSpeed>> measureWithin(const std::vector<std::int32_t>& widths, Nanos time,
                                              const std::function<Result<WidthSpeed>(int width)>& one, const std::function<Nanos()>& now) {
  const auto clock = now ? now : monotonic;
  std::vector<WidthSpeed> speeds;
  const Nanos begin = clock();
  Nanos longest{};
  int flat = 0;
  for (const int width : widths) {
    const Nanos began = clock();
    if (!speeds.empty() && (began - begin + longest > time || flat >= kFlatInARow)) break;
    auto speed = one(width);
    if (!speed.ok()) return speed.error();
    longest = std::max(longest, clock() - began);
    flat = speeds.empty() || gained(speeds.back(), *speed) ? 0 : flat + 1;
    speeds.push_back(*speed);
  }
  return speeds;
}

}  // namespace coterie::worker
