#include "dispatch/estimates.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace coterie::dispatch {

int Estimates::bucketOf(std::uint64_t elements) { return elements == 0 ? 0 : std::bit_width(elements) - 1; }

Estimate Estimates::get(std::uint32_t version, std::uint64_t elements) const {
  const auto found = std::find_if(versions_.begin(), versions_.end(), [&](const Version& v) { return v.number == version; });
  if (found != versions_.end()) {
    const int wanted = bucketOf(elements);
    for (int distance = 0; distance < 64; ++distance) {
      for (const int at : {wanted - distance, wanted + distance}) {
        if (at >= 0 && at < 64 && found->buckets[static_cast<std::size_t>(at)].count > 0)
          return found->buckets[static_cast<std::size_t>(at)].estimate;
      }
    }
  }
  const Nanos run = std::max(initial_, Nanos(1));
  return {run, run, run, run};
}

Estimate Estimates::least(std::uint32_t version) const {
  Estimate least = get(version, 0);
  const auto found = std::find_if(versions_.begin(), versions_.end(), [&](const Version& v) { return v.number == version; });
  if (found == versions_.end()) return least;
  for (std::uint64_t rest = found->measured; rest != 0; rest &= rest - 1) {
    const Bucket& bucket = found->buckets[static_cast<std::size_t>(std::countr_zero(rest))];
    least.cost = std::min(least.cost, bucket.estimate.cost);
    least.t50 = std::min(least.t50, bucket.estimate.t50);
    least.t90 = std::min(least.t90, bucket.estimate.t90);
    least.held = std::min(least.held, bucket.estimate.held);
  }
  return least;
}

Estimates::Version& Estimates::versionFor(std::uint32_t number) {
  ++uses_;
  auto found = std::find_if(versions_.begin(), versions_.end(), [&](const Version& v) { return v.number == number; });
  if (found == versions_.end()) {
    if (versions_.size() < kVersions) {
      found = versions_.emplace(versions_.end());
    } else {
      found = std::min_element(versions_.begin(), versions_.end(), [](const Version& a, const Version& b) { return a.used < b.used; });
      *found = Version{};
    }
    found->number = number;
  }
  found->used = uses_;
  return *found;
}

void Estimates::record(std::uint32_t version, std::uint64_t elements, Nanos run, Nanos cost) {
  Version& mine = versionFor(version);
  mine.measured |= std::uint64_t{1} << bucketOf(elements);
  Bucket& bucket = mine.buckets[static_cast<std::size_t>(bucketOf(elements))];
  bucket.runs[static_cast<std::size_t>(bucket.count % kRuns)] = std::max(run, Nanos(1));
  ++bucket.count;
  bucket.meanCost = bucket.count == 1 ? cost : bucket.meanCost + (cost - bucket.meanCost) / 8;

  std::array<Nanos, kRuns> sorted = bucket.runs;
  const auto count = static_cast<std::ptrdiff_t>(std::min<std::int64_t>(bucket.count, kRuns));
  std::sort(sorted.begin(), sorted.begin() + count);
  const auto rank = [&](std::ptrdiff_t percent) { return sorted[static_cast<std::size_t>((count * percent + 99) / 100 - 1)]; };
  bucket.estimate.t50 = rank(50);
  bucket.estimate.t90 = rank(90);
  bucket.estimate.held = std::max(std::accumulate(sorted.begin(), sorted.begin() + count, Nanos{}) / count, Nanos(1));
  bucket.estimate.cost = std::clamp(bucket.meanCost, std::max(bucket.estimate.t50 / 10, Nanos(1)), bucket.estimate.t50 * 10);
}

void Margin::roll(Instant now) {
  const std::int64_t second = now.time_since_epoch().count() / 1'000'000'000;
  if (second <= second_) return;
  if (late_ * 100 > ended_) {
    permille_ = std::min(3000, permille_ + permille_ / 20);
  } else {
    permille_ = std::max(1000, permille_ - permille_ / 100);
  }
  for (std::int64_t quiet = std::min<std::int64_t>(second - second_ - 1, 120); quiet > 0; --quiet)
    permille_ = std::max(1000, permille_ - permille_ / 100);
  second_ = second;
  ended_ = late_ = 0;
}

void Margin::record(bool inTime, Instant now) {
  roll(now);
  ++ended_;
  if (!inTime) ++late_;
}

}  // namespace coterie::dispatch
