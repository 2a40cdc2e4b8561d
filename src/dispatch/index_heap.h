// A binary min-heap of small indices whose keys live with the caller: push, erase and rekey any index in O(log n), look at the least in O(1).
//
// The caller passes the order `less(a, b)` (indices) to every call and calls update(i) after i's key changed. Memory: two arrays, kept at the largest
// size seen. Pure. Thread-compatible.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace coterie::dispatch {

class IndexHeap {
 public:
  using Index = std::uint32_t;
  static constexpr Index kNone = std::numeric_limits<Index>::max();

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] Index top() const { return heap_.front(); }
  [[nodiscard]] bool contains(Index i) const { return i < place_.size() && place_[i] != kNone; }

  template <typename Less>
  void push(Index i, const Less& less) {
    assert(!contains(i));
    if (i >= place_.size()) place_.resize(i + std::size_t{1}, kNone);
    heap_.push_back(i);
    place_[i] = static_cast<Index>(heap_.size() - 1);
    up(heap_.size() - 1, less);
  }
  template <typename Less>
  void erase(Index i, const Less& less) {
    assert(contains(i));
    const std::size_t hole = place_[i];
    place_[i] = kNone;
    const Index moved = heap_.back();
    heap_.pop_back();
    if (moved == i) return;
    put(hole, moved);
    down(up(hole, less), less);
  }
  template <typename Less>
  void update(Index i, const Less& less) {
    assert(contains(i));
    down(up(place_[i], less), less);
  }

 private:
  void put(std::size_t at, Index i) {
    heap_[at] = i;
    place_[i] = static_cast<Index>(at);
  }
  template <typename Less>
  std::size_t up(std::size_t at, const Less& less) {
    const Index i = heap_[at];
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (!less(i, heap_[parent])) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, i);
    return at;
  }
  template <typename Less>
  void down(std::size_t at, const Less& less) {
    const Index i = heap_[at];
    for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && less(heap_[child + 1], heap_[child])) ++child;
      if (!less(heap_[child], i)) break;
      put(at, heap_[child]);
      at = child;
    }
    put(at, i);
  }

  std::vector<Index> heap_;
  std::vector<Index> place_;  // by index: position in heap_, or kNone
};

}  // namespace coterie::dispatch
