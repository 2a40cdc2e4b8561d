// Weighted max-min shares of slots by tenants that may each use only some of them: what a station is compared with, in tests.
//
// Tenant i, of weight w_i, has work for the services of a set N(i); service s has K_s slots; no more than C slots run at once. What a set A of
// tenants can have together is f(A) = min(C, sum of K_s over N(A)), which is submodular, so progressive filling is: of those not yet fixed take the
// set with the least (f(A with the fixed) - what the fixed have) / w(A), fix it at that level, go on (Megiddo 1974; Federgruen and Groenevelt 1986).
// By trying all sets: O(tenants * 2^tenants), for tests of few tenants. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace coterie::dispatch {

struct FillingTenant {
  double weight{1};
  std::uint32_t services{0};  // a bit each
};

// Slots for each tenant. concurrency 0: as many as there are slots.
[[nodiscard]] inline std::vector<double> waterFilling(const std::vector<FillingTenant>& tenants, const std::vector<int>& slots, int concurrency) {
  const auto most = [&](std::uint32_t set) {
    std::uint32_t services = 0;
    for (std::size_t i = 0; i < tenants.size(); ++i) services |= (set >> i & 1U) != 0 ? tenants[i].services : 0;
    int sum = 0;
    for (std::size_t s = 0; s < slots.size(); ++s) sum += (services >> s & 1U) != 0 ? slots[s] : 0;
    return concurrency > 0 && concurrency < sum ? concurrency : sum;
  };
  std::vector<double> shares(tenants.size(), 0);
  const std::uint32_t all = (std::uint32_t{1} << tenants.size()) - 1;
  std::uint32_t fixed = 0;
  double used = 0;
  while (fixed != all) {
    std::uint32_t least = 0;
    double level = 0;
    for (std::uint32_t set = 1; set <= all; ++set) {
      if ((set & fixed) != 0) continue;
      double weight = 0;
      for (std::size_t i = 0; i < tenants.size(); ++i) weight += (set >> i & 1U) != 0 ? tenants[i].weight : 0;
      const double mine = (most(set | fixed) - used) / weight;
      if (least == 0 || mine < level) {
        least = set;
        level = mine;
      }
    }
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      if ((least >> i & 1U) == 0) continue;
      shares[i] = level * tenants[i].weight;
      used += shares[i];
    }
    fixed |= least;
  }
  return shares;
}

}  // namespace coterie::dispatch
