// A seeded generator: the only source of randomness in Coterie. xoshiro256** seeded by splitmix64 (Blackman & Vigna, 2018). Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace coterie {

class Rng {
 public:
  using result_type = std::uint64_t;

  explicit Rng(std::uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t operator()() {
    const auto rotl = [](std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    const std::uint64_t result = rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }

  // Uniform in [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    const auto span = static_cast<std::uint64_t>(high - low) + 1;
    return span == 0 ? static_cast<std::int64_t>((*this)()) : low + static_cast<std::int64_t>((*this)() % span);
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  double unit() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace coterie
