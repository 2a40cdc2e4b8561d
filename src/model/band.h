// A tenant's priority class. Space (CPUs owned): floors are met from High down. Time (turns at a station): each band is guaranteed a part, what is
// left goes to the highest band that has work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coterie {

enum class Band : std::uint8_t { High, Normal, Low };
inline constexpr std::size_t kBands = 3;

[[nodiscard]] constexpr std::string_view bandName(Band band) {
  switch (band) {
    case Band::High: return "high";
    case Band::Normal: return "normal";
    case Band::Low: return "low";
  }
  return "";
}

}  // namespace coterie
