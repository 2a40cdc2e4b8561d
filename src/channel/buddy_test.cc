#include "channel/buddy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "base/rng.h"

namespace coterie::channel {
namespace {

TEST(Buddy, GivesTheLowestAddressAndAlignsToTheSize) {
  BuddyAllocator allocator(1 << 16, 4096);
  EXPECT_EQ(allocator.allocate(1), 0U);
  EXPECT_EQ(allocator.allocate(4097), 8192U);
  EXPECT_EQ(allocator.allocate(4096), 4096U);
  EXPECT_EQ(allocator.sizeOf(8192), 8192U);
  EXPECT_EQ(allocator.used(), 16384U);
  allocator.release(0);
  EXPECT_EQ(allocator.allocate(0), 0U) << "a request without bytes still has a place of its own";
}

TEST(Buddy, TheWholeArenaIsOneBlockAgainOnceAllIsReleased) {
  BuddyAllocator allocator(1 << 20, 4096);
  EXPECT_FALSE(allocator.allocate((1 << 20) + 1).has_value());
  std::vector<std::uint64_t> blocks;
  while (const auto offset = allocator.allocate(4096)) blocks.push_back(*offset);
  EXPECT_EQ(blocks.size(), 256U);
  for (const std::uint64_t offset : blocks) allocator.release(offset);
  EXPECT_EQ(allocator.used(), 0U);
  EXPECT_EQ(allocator.allocate(1 << 20), 0U);
}

// Against a naive list of taken intervals: blocks lie inside, never overlap, are large enough and aligned; a refusal means no aligned gap is left.
TEST(Buddy, PropertyAgainstIntervals) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    constexpr std::uint64_t kSize = 1 << 18;
    BuddyAllocator allocator(kSize, 4096);
    std::map<std::uint64_t, std::uint64_t> taken;  // offset -> size
    for (int step = 0; step < 300; ++step) {
      if (!taken.empty() && rng.chance(45)) {
        const auto victim = std::next(taken.begin(), rng.between(0, static_cast<std::int64_t>(taken.size()) - 1));
        allocator.release(victim->first);
        taken.erase(victim);
        continue;
      }
      const auto bytes = static_cast<std::uint64_t>(rng.between(1, 70'000));
      const auto offset = allocator.allocate(bytes);
      std::uint64_t block = 4096;
      while (block < bytes) block *= 2;
      const auto isFree = [&](std::uint64_t at) {
        for (const auto& [start, size] : taken) {
          if (start < at + block && at < start + size) return false;
        }
        return true;
      };
      if (!offset) {
        for (std::uint64_t at = 0; at + block <= kSize; at += block) RC_ASSERT(!isFree(at));
        continue;
      }
      RC_ASSERT(*offset % block == 0U);
      RC_ASSERT(*offset + block <= kSize);
      RC_ASSERT(isFree(*offset));
      RC_ASSERT(allocator.sizeOf(*offset) == block);
      taken[*offset] = block;
    }
    std::uint64_t sum = 0;
    for (const auto& [start, size] : taken) sum += size;
    RC_ASSERT(allocator.used() == sum);
  }));
}

}  // namespace
}  // namespace coterie::channel
