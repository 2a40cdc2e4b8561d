// Which inputs are refused after crashes, and for how long.
#include "gateway/crash_memory.h"

#include <gtest/gtest.h>

namespace coterie::gateway {
namespace {

constexpr Instant at(Nanos since) { return Instant(since); }

TEST(CrashMemory, ARefusalDoublesWithEachFurtherCrashAndEnds) {
  CrashMemory memory;
  Nanos now{1};
  memory.crashed(7, InstanceId(1), at(now));
  EXPECT_FALSE(memory.refusal(7, at(now)));
  Nanos expected = CrashMemory::kFirstRefusal;
  for (int crashes = 2; crashes < 40; ++crashes) {
    memory.crashed(7, InstanceId(crashes), at(now));
    const auto refusal = memory.refusal(7, at(now));
    ASSERT_TRUE(refusal) << crashes;
    EXPECT_EQ(refusal->crashes, crashes);
    EXPECT_EQ(refusal->left, expected);
    EXPECT_TRUE(memory.refusal(7, at(now + expected - Nanos(1))));
    now += expected;
    EXPECT_FALSE(memory.refusal(7, at(now))) << "tried again";
    expected = std::min(2 * expected, CrashMemory::kLongestRefusal);
  }
  EXPECT_FALSE(memory.empty(at(now + CrashMemory::kLongestRefusal - Nanos(1))));
  EXPECT_TRUE(memory.empty(at(now + CrashMemory::kLongestRefusal)));
}

TEST(CrashMemory, OneCrashIsForgottenAfterTenMinutes) {
  CrashMemory memory;
  memory.crashed(7, InstanceId(1), at(Seconds(1)));
  memory.crashed(7, InstanceId(2), at(Seconds(1) + CrashMemory::kFirstRefusal));
  EXPECT_FALSE(memory.refusal(7, at(Seconds(1) + CrashMemory::kFirstRefusal)));
}

TEST(CrashMemory, WhatWasNoFaultOfTheInputIsTakenBackOnce) {
  CrashMemory memory;
  memory.crashed(7, InstanceId(1), at(Seconds(1)));
  memory.crashed(8, InstanceId(1), at(Seconds(1)));
  memory.crashed(7, InstanceId(2), at(Seconds(2)));
  EXPECT_TRUE(memory.refusal(7, at(Seconds(2))));
  memory.notItsFault(InstanceId(2));
  memory.notItsFault(InstanceId(2));
  EXPECT_FALSE(memory.refusal(7, at(Seconds(2))));
  memory.crashed(7, InstanceId(3), at(Seconds(3)));
  EXPECT_TRUE(memory.refusal(7, at(Seconds(3))));
  memory.notItsFault(InstanceId(1));  // 8's only one
  memory.crashed(8, InstanceId(4), at(Seconds(3)));
  EXPECT_FALSE(memory.refusal(8, at(Seconds(3))));
}

// One body sent by many: it runs on every lane of the instance that somebody kills.
TEST(CrashMemory, AnInputThatRanTwiceInOneInstanceSawOneCrash) {
  CrashMemory memory;
  for (int lane = 0; lane < 2; ++lane) memory.crashed(7, InstanceId(1), at(Seconds(1)));
  EXPECT_FALSE(memory.refusal(7, at(Seconds(1))));
  for (int lane = 0; lane < 2; ++lane) memory.crashed(7, InstanceId(2), at(Seconds(2)));
  ASSERT_TRUE(memory.refusal(7, at(Seconds(2))));
  EXPECT_EQ(memory.refusal(7, at(Seconds(2)))->crashes, 2);
  memory.notItsFault(InstanceId(2));
  EXPECT_FALSE(memory.refusal(7, at(Seconds(2))));
}

TEST(CrashMemory, AnEndFromOutsideThatIsHeardOfFirstIsNoCrashEither) {
  CrashMemory memory;
  memory.crashed(7, InstanceId(1), at(Seconds(1)));
  memory.notItsFault(InstanceId(2));
  memory.crashed(7, InstanceId(2), at(Seconds(2)));
  EXPECT_FALSE(memory.refusal(7, at(Seconds(2))));
}

TEST(CrashMemory, RemembersTheLatestInputsOnly) {
  CrashMemory memory;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t digest = 0; digest < 2 * CrashMemory::kMost; ++digest) memory.crashed(digest, InstanceId(1), at(Seconds(1)));
  }
  for (std::uint64_t digest = 0; digest < 2 * CrashMemory::kMost; ++digest) EXPECT_FALSE(memory.refusal(digest, at(Seconds(1))));
}

}  // namespace
}  // namespace coterie::gateway
