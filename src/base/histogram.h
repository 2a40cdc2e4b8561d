// A log-linear histogram of non-negative integers (nanoseconds, bytes): 16 linear steps per power of two, so any quantile is at most 6.3 %
// too high. Fixed memory (976 counters), record O(1), quantile O(buckets). Thread-compatible.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace coterie {

class Histogram {
 public:
  void record(std::int64_t value, std::int64_t times = 1) {
    const std::int64_t clamped = std::max<std::int64_t>(value, 0);
    counts_[bucketOf(clamped)] += times;
    count_ += times;
    sum_ += clamped * times;
    max_ = std::max(max_, clamped);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t sum() const { return sum_; }
  [[nodiscard]] std::int64_t max() const { return max_; }
  // Upper edge of the bucket that holds the q-quantile (0 < q <= 1); 0 when empty.
  [[nodiscard]] std::int64_t quantile(double q) const {
    if (count_ == 0) return 0;
    const auto rank = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::lround(q * static_cast<double>(count_))));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::min(upperEdge(i), max_);
    }
    return max_;
  }
  // How many recorded values are surely at most `limit`: those of the buckets whose upper edge is. Exact for limits that are bucket edges.
  // O(buckets).
  [[nodiscard]] std::int64_t countAtMost(std::int64_t limit) const {
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size() && upperEdge(i) <= limit; ++i) seen += counts_[i];
    return seen;
  }
  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    sum_ += other.sum_;
    max_ = std::max(max_, other.max_);
  }
  void clear() { *this = Histogram{}; }

 private:
  static constexpr int kStepBits = 4;
  static constexpr std::size_t kBuckets = (64 - kStepBits) * 16 + 16;

  static std::size_t bucketOf(std::int64_t value) {
    const auto v = static_cast<std::uint64_t>(value);
    if (v < 16) return static_cast<std::size_t>(v);
    const int shift = std::bit_width(v) - 1 - kStepBits;
    return static_cast<std::size_t>((shift + 1) * 16) + static_cast<std::size_t>((v >> shift) & 15);
  }
  static std::int64_t upperEdge(std::size_t bucket) {
    if (bucket < 16) return static_cast<std::int64_t>(bucket);
    const int shift = static_cast<int>(bucket / 16) - 1;
    const std::uint64_t low = (16 + (bucket % 16)) << shift;
    return static_cast<std::int64_t>(low + ((std::uint64_t{1} << shift) - 1));
  }

  std::array<std::int64_t, kBuckets> counts_{};
  std::int64_t count_{0};
  std::int64_t sum_{0};
  std::int64_t max_{0};
};

}  // namespace coterie
