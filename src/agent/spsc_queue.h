// A bounded queue between exactly one producer and one consumer thread, without locks: each side owns one index and only reads the other's (Lamport
// 1983). push answers false when full, pop nullopt when empty; both O(1), no allocation after construction. T should be small and trivially copyable.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>

namespace coterie::agent {

template <typename T, std::size_t kCapacity>
class SpscQueue {
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

 public:
  bool push(T value) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kCapacity) return false;
    slots_[tail % kCapacity] = value;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  std::optional<T> pop() {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return std::nullopt;
    const T value = slots_[head % kCapacity];
    head_.store(head + 1, std::memory_order_release);
    return value;
  }

 private:
  std::array<T, kCapacity> slots_{};
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
};

}  // namespace coterie::agent
