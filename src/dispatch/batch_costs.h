// What requests cost when they run as one, against what they cost one by one: whether more in a batch is worth it.
//
//   ratio(n)  (cost of n as one) / (sum of their estimates), in thousandths, average with weight 1/8 for the newest; kept for n = 2, 3-4, 5-8, ...
//   65-128.
//             A size without a run answers as the next smaller one that has some, then 1000: nothing is gained that was not seen.
//   growsTo(n)  whether n at once are worth it: its ratio is at most 900 after four runs. A size of fewer runs is tried once the one below it is
//   worth
//             it, so sizes double as they prove themselves; one that was not worth it is tried again after 256 occasions.
// O(sizes) = O(7), no allocation. Integers. Pure. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace coterie::dispatch {

class BatchCosts {
 public:
  static constexpr int kMost = 128;  // requests in a batch
  static constexpr int kWorth = 900;

  [[nodiscard]] int ratio(int requests) const;
  [[nodiscard]] bool growsTo(int requests);
  void record(int requests, Nanos actual, Nanos oneByOne);
  void forget() { sizes_ = {}; }

 private:
  static constexpr int kSure = 4;     // runs
  static constexpr int kAgain = 256;  // occasions
  struct Size {
    int runs{0};
    int ratio{1000};
    int occasions{0};  // that were let go because it was not worth it
  };
  [[nodiscard]] static std::size_t sizeOf(int requests);

  std::array<Size, 7> sizes_{};
};

}  // namespace coterie::dispatch
