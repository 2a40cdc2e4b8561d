#include "channel/buddy.h"

#include <bit>
#include <cassert>

namespace coterie::channel {

BuddyAllocator::BuddyAllocator(std::uint64_t size, std::uint64_t smallest) : smallest_(smallest) {
  assert(std::has_single_bit(size) && std::has_single_bit(smallest) && smallest <= size);
  free_.resize(static_cast<std::size_t>(std::bit_width(size / smallest)));
  free_.back().insert(0);
}

unsigned BuddyAllocator::orderFor(std::uint64_t bytes) const {
  const std::uint64_t units = bytes <= smallest_ ? 1 : (bytes - 1) / smallest_ + 1;
  return static_cast<unsigned>(std::bit_width(units - 1));
}

std::optional<std::uint64_t> BuddyAllocator::allocate(std::uint64_t bytes) {
  const unsigned wanted = orderFor(bytes);
  unsigned order = wanted;
  while (order < free_.size() && free_[order].empty()) ++order;
  if (order >= free_.size()) return std::nullopt;
  const auto lowest = free_[order].extract(free_[order].begin());
  const std::uint64_t offset = lowest.value();
  while (order > wanted) {
    --order;
    free_[order].insert(offset + bytesOf(order));
  }
  taken_.emplace(offset, wanted);
  used_ += bytesOf(wanted);
  return offset;
}

std::uint64_t BuddyAllocator::sizeOf(std::uint64_t offset) const { return bytesOf(taken_.at(offset)); }

void BuddyAllocator::release(std::uint64_t offset) {
  const auto found = taken_.find(offset);
  assert(found != taken_.end());
  if (found == taken_.end()) return;
  unsigned order = found->second;
  taken_.erase(found);
  used_ -= bytesOf(order);
  while (order + 1 < free_.size()) {
    const std::uint64_t buddy = offset ^ bytesOf(order);
    if (free_[order].erase(buddy) == 0) break;
    offset &= ~bytesOf(order);
    ++order;
  }
  free_[order].insert(offset);
}

}  // namespace coterie::channel
