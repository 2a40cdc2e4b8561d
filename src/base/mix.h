// One step of a hash over 64-bit words: every bit of both reaches every bit of the result. Not against an adversary who chooses the words: who relies
// on it says what a collision costs. O(1). Pure.
#pragma once

#include <cstdint>

namespace coterie {

[[nodiscard]] inline std::uint64_t mix(std::uint64_t hash, std::uint64_t word) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(hash ^ word ^ 0x9e3779b97f4a7c15U) * 0xd1342543de82ef95U;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

}  // namespace coterie
