// 128-bit integers under one name: tags (tag.h's users) and products of two 64-bit values.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace coterie::dispatch {

__extension__ typedef __int128 Wide;

// floor(a * b / c) for c > 0 without overflow in between; the result must fit.
[[nodiscard]] constexpr std::int64_t mulDiv(std::int64_t a, std::int64_t b, std::int64_t c) {
  return static_cast<std::int64_t>(static_cast<Wide>(a) * b / c);
}

// An amount of slot-time on a tag: ns * 2^20 / weight.
[[nodiscard]] constexpr Wide scaled(Nanos amount, std::int64_t weight) { return static_cast<Wide>(amount.count()) * (1 << 20) / weight; }

}  // namespace coterie::dispatch
