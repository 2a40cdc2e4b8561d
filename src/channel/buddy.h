// Which parts of an arena are free: a binary buddy allocator over offsets (Knowlton 1965), lowest address first.
//
// Blocks are powers of two from `smallest` to the arena's size. Taking the lowest free block of the least sufficient size keeps the touched part of a
// sparse arena small. allocate and release O(log(size/smallest)) plus one ordered-set operation; memory O(free blocks + taken blocks). No clock, no
// I/O. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

namespace coterie::channel {

class BuddyAllocator {
 public:
  // Both powers of two, smallest <= size.
  BuddyAllocator(std::uint64_t size, std::uint64_t smallest);

  // Offset of a block of at least `bytes`, aligned to its own size; nullopt if there is no room.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  // The bytes of the block that starts at `offset`, which must be taken.
  [[nodiscard]] std::uint64_t sizeOf(std::uint64_t offset) const;
  void release(std::uint64_t offset);
  [[nodiscard]] std::uint64_t used() const { return used_; }

 private:
  [[nodiscard]] unsigned orderFor(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t bytesOf(unsigned order) const { return smallest_ << order; }

  std::uint64_t smallest_;
  std::vector<std::set<std::uint64_t>> free_;          // per order
  std::unordered_map<std::uint64_t, unsigned> taken_;  // offset -> order
  std::uint64_t used_{0};
};

}  // namespace coterie::channel
