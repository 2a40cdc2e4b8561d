// SipHash-2-4: a 64-bit digest under a key of 128 random bits.
//
// Whoever does not know the key can neither foresee a digest nor make two texts that share one, so digests may be looked up in ordinary tables, in
// ordinary time, and tell nothing about what was digested. It is no signature: 64 bits are too few to admit anybody by. O(bytes), no allocation.
// Pure. Thread-safe (no state).
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coterie {

using DigestKey = std::array<std::uint64_t, 2>;

[[nodiscard]] inline std::uint64_t keyedDigest(const DigestKey& key, std::string_view text) {
  std::uint64_t a = key[0] ^ 0x736f6d6570736575U;
  std::uint64_t b = key[1] ^ 0x646f72616e646f6dU;
  std::uint64_t c = key[0] ^ 0x6c7967656e657261U;
  std::uint64_t d = key[1] ^ 0x7465646279746573U;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      a += b;
      b = std::rotl(b, 13) ^ a;
      a = std::rotl(a, 32);
      c += d;
      d = std::rotl(d, 16) ^ c;
      a += d;
      d = std::rotl(d, 21) ^ a;
      c += b;
      b = std::rotl(b, 17) ^ c;
      c = std::rotl(c, 32);
    }
  };
  std::uint64_t word = 0;  // little-endian, whatever the machine is
  for (std::size_t i = 0; i < text.size(); ++i) {
    word |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * (i % 8));
    if (i % 8 != 7) continue;
    d ^= word;
    rounds(2);
    a ^= word;
    word = 0;
  }
  word |= std::uint64_t{text.size()} << 56U;
  d ^= word;
  rounds(2);
  a ^= word;
  c ^= 0xffU;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace coterie
