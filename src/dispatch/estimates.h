// What a request will cost, from what others of its kind cost: per (service, version, power of two of the input elements; at most 64 buckets).
//
//   t50, t90   run time, for deadlines: nearest rank over the bucket's last 32 runs.
//   held       mean of these: how long it keeps its slot from those behind it. Not the cost: what a run waits for a CPU is not charged, and passes.
//   cost e     slot-time, for tags: average with weight 1/8 for the newest, kept within [0.1, 10] x t50, so that one odd run cannot starve or enrich
//   a tenant.
// A bucket without a run answers as the nearest bucket that has some (the smaller one of two), then as the service's initial estimate.
// Versions: the 4 most recently used. get O(buckets) at worst, O(1) once measured; record O(32). Memory 17 KiB per version. Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/units.h"

namespace coterie::dispatch {

struct Estimate {
  Nanos cost{};  // > 0
  Nanos t50{};
  Nanos t90{};
  Nanos held{};
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

class Estimates {
 public:
  static constexpr int kRuns = 32;
  static constexpr std::size_t kVersions = 4;

  explicit Estimates(Nanos initialRun) : initial_(initialRun) {}
  void setInitial(Nanos run) { initial_ = run; }
  [[nodiscard]] Estimate get(std::uint32_t version, std::uint64_t elements) const;
  // Of the bucket that costs least: what is surely needed, whatever the input. O(buckets that have a run).
  [[nodiscard]] Estimate least(std::uint32_t version) const;
  void record(std::uint32_t version, std::uint64_t elements, Nanos run, Nanos cost);
  [[nodiscard]] static int bucketOf(std::uint64_t elements);

 private:
  struct Bucket {
    std::array<Nanos, kRuns> runs{};
    std::int64_t count{0};
    Nanos meanCost{};
    Estimate estimate;
  };
  struct Version {
    std::uint32_t number{0};
    std::uint64_t used{0};
    std::uint64_t measured{0};  // a bit for each bucket that has a run
    std::array<Bucket, 64> buckets{};
  };
  [[nodiscard]] Version& versionFor(std::uint32_t number);

  Nanos initial_;
  std::uint64_t uses_{0};
  std::vector<Version> versions_;
};

// How much longer than t90 admission must assume: grows by 5 % in each second in which fewer than 99 % of the accepted requests ended in time,
// shrinks by 1 % in the others; 1 to 3. Integers (permille). Pure. Thread-compatible.
class Margin {
 public:
  void record(bool inTime, Instant now);
  [[nodiscard]] int permille(Instant now) {
    roll(now);
    return permille_;
  }
  [[nodiscard]] int permille() const { return permille_; }

 private:
  void roll(Instant now);

  std::int64_t second_{0};
  std::int64_t ended_{0};
  std::int64_t late_{0};
  int permille_{1000};
};

}  // namespace coterie::dispatch
