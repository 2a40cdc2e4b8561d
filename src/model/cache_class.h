// Classes of threads with a part of the last-level caches and of memory bandwidth: what the hardware can, and what a class is given.
//
// A way is a part of a cache, a bit of a mask; which cache a mask is of is said by the kernel's id. Memory bandwidth is a percentage of what a core
// may draw, by cache: 100 is all. Values only; O(1). Thread-compatible.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"

namespace coterie {

using CacheWays = std::uint64_t;

// One cache (or, where only bandwidth can be held, one domain of that).
struct CacheInstance {
  int id{0};          // the kernel's
  CpuSet cpus;        // online below it
  CacheWays ways{0};  // one run of ways that classes may be given; 0: it cannot be divided
  friend bool operator==(const CacheInstance&, const CacheInstance&) = default;
};

struct CacheControl {
  std::vector<CacheInstance> caches;  // ascending id
  int classes{0};                     // that we may have at once
  int leastWays{1};                   // of a mask
  int leastBandwidth{0};              // percent; 0: bandwidth cannot be held
  int bandwidthStep{1};
  std::vector<std::string> lacks;  // sentences: what of all this is not to be had here, and why
  [[nodiscard]] bool dividesCaches() const {
    for (const CacheInstance& cache : caches) {
      if (cache.ways != 0) return true;
    }
    return false;
  }
  friend bool operator==(const CacheControl&, const CacheControl&) = default;
};

struct ClassShare {
  CacheWays ways{0};  // 0: not said
  int bandwidth{0};   // percent; 0: not said
  friend bool operator==(const ClassShare&, const ClassShare&) = default;
};
using ClassShares = std::map<int, ClassShare>;  // by cache id

struct CacheClass {
  std::string name;
  ClassShares shares;
  friend bool operator==(const CacheClass&, const CacheClass&) = default;
};

// Neighbouring ways, at least one.
[[nodiscard]] constexpr bool isRun(CacheWays ways) {
  if (ways == 0) return false;
  const CacheWays low = ways >> std::countr_zero(ways);
  return (low & (low + 1)) == 0;
}

// So many neighbouring ways from `first` on.
[[nodiscard]] constexpr CacheWays runOf(int first, int length) {
  const CacheWays low = length >= std::numeric_limits<CacheWays>::digits ? ~CacheWays{0} : (CacheWays{1} << length) - 1;
  return low << first;
}

// Which tenants have a class of their own: none; those of which a service is isolated; all that own CPUs.
enum class CacheClassMode : std::uint8_t { Off, Auto, All };

[[nodiscard]] constexpr std::string_view cacheClassModeName(CacheClassMode mode) {
  switch (mode) {
    case CacheClassMode::Auto: return "auto";
    case CacheClassMode::All: return "all";
    case CacheClassMode::Off: break;
  }
  return "off";
}

}  // namespace coterie
