// The contract of EventLoop and its Clock as tests: each adapter instantiates them with a way to let time pass.
//
//   INSTANTIATE_TEST_SUITE_P(Manual, EventLoopContract, ::testing::Values(LoopUnderTest{"manual", makeManual}), loopName);
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "ports/clock.h"

namespace coterie::contract {

struct RunningLoop {
  std::shared_ptr<EventLoop> loop;
  std::function<bool(const std::function<bool()>& done)> runUntil;  // lets time pass until `done`; false if it gives up
};
struct LoopUnderTest {
  std::string name;
  std::function<RunningLoop()> make;
  friend void PrintTo(const LoopUnderTest& loop, std::ostream* out) { *out << loop.name; }
};
inline std::string loopName(const ::testing::TestParamInfo<LoopUnderTest>& info) { return info.param.name; }

class EventLoopContract : public ::testing::TestWithParam<LoopUnderTest> {
 protected:
  EventLoop& loop() { return *running_.loop; }
  [[nodiscard]] bool runUntil(const std::function<bool()>& done) { return running_.runUntil(done); }
  // All that was due within `time` from now has run; what then has not happened does not happen.
  void pass(Nanos time) {
    bool over = false;
    const TimerHandle end = loop().after(time, [&] { over = true; });
    ASSERT_TRUE(runUntil([&] { return over; }));
  }
  struct Pipe {
    UniqueFd read, write;
  };
  static Pipe pipe() {
    int ends[2]{-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
  }

  RunningLoop running_{GetParam().make()};
};

TEST_P(EventLoopContract, WhatIsPostedRunsLaterAndInOrder) {
  std::string order;
  loop().post([&] {
    order += 'a';
    loop().post([&] { order += 'c'; });
  });
  loop().post([&] { order += 'b'; });
  EXPECT_EQ(order, "") << "never from inside post()";
  ASSERT_TRUE(runUntil([&] { return order.size() == 3; }));
  EXPECT_EQ(order, "abc");
}

TEST_P(EventLoopContract, OtherThreadsMayPost) {
  constexpr int kThreads = 4;
  constexpr int kPosts = 100;
  int ran = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, &ran] {
      for (int i = 0; i < kPosts; ++i) loop().post([&ran] { ++ran; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(runUntil([&] { return ran == kThreads * kPosts; }));
}

TEST_P(EventLoopContract, ATimerIsNeverEarlyAndRunsOnce) {
  const Instant start = loop().clock().now();
  Instant seen{};
  int runs = 0;
  const TimerHandle timer = loop().after(Millis(3), [&] {
    seen = loop().clock().now();
    ++runs;
  });
  EXPECT_EQ(runs, 0) << "never from inside after()";
  ASSERT_TRUE(runUntil([&] { return runs > 0; }));
  EXPECT_GE(seen, start + Millis(3));
  pass(Millis(5));
  EXPECT_EQ(runs, 1);
}

TEST_P(EventLoopContract, TimersRunByTheirTime) {
  std::string order;
  const TimerHandle late = loop().after(Millis(6), [&] { order += 'c'; });
  const TimerHandle soon = loop().after(Millis(1), [&] { order += 'a'; });
  const TimerHandle middle = loop().after(Millis(3), [&] { order += 'b'; });
  ASSERT_TRUE(runUntil([&] { return order.size() == 3; }));
  EXPECT_EQ(order, "abc");
}

TEST_P(EventLoopContract, ATimerOfNoTimeRunsAndSoDoesOneOfThePast) {
  int runs = 0;
  const TimerHandle now = loop().after(Nanos(0), [&] { ++runs; });
  const TimerHandle past = loop().after(Nanos(-5), [&] { ++runs; });
  EXPECT_TRUE(runUntil([&] { return runs == 2; }));
}

TEST_P(EventLoopContract, WhatIsCancelledNeverRuns) {
  int runs = 0;
  TimerHandle byReset = loop().after(Millis(1), [&] { ++runs; });
  TimerHandle byOther = loop().after(Millis(1), [&] { ++runs; });
  TimerHandle byCallback = loop().after(Millis(2), [&] { ++runs; });
  const TimerHandle canceller = loop().after(Millis(1), [&] { byCallback.reset(); });
  {
    const TimerHandle byScope = loop().after(Millis(1), [&] { ++runs; });
  }
  byReset.reset();
  byOther = TimerHandle();
  pass(Millis(5));
  EXPECT_EQ(runs, 0);
}

TEST_P(EventLoopContract, AMovedHandleStillHoldsItsTimer) {
  int runs = 0;
  TimerHandle first = loop().after(Millis(1), [&] { ++runs; });
  TimerHandle second = std::move(first);
  first.reset();  // NOLINT(bugprone-use-after-move): an empty handle cancels nothing
  ASSERT_TRUE(runUntil([&] { return runs == 1; }));
}

TEST_P(EventLoopContract, ATimerMayEndItsOwnHandleAndArmTheNext) {
  int runs = 0;
  TimerHandle timer;
  std::function<void()> tick = [&] {
    timer.reset();
    if (++runs < 3) timer = loop().after(Millis(1), tick);
  };
  timer = loop().after(Millis(1), tick);
  EXPECT_TRUE(runUntil([&] { return runs == 3; }));
}

TEST_P(EventLoopContract, HandlesMayOutliveTheLoop) {
  const Pipe pair = pipe();
  TimerHandle timer = loop().after(Seconds(100), [] {});
  TimerHandle watch = loop().whenReadable(pair.read.get(), [] {});
  running_ = {};
  timer.reset();
  watch.reset();
}

TEST_P(EventLoopContract, ReadableIsTheLevelNotTheEdge) {
  const Pipe pair = pipe();
  int calls = 0;
  TimerHandle watch = loop().whenReadable(pair.read.get(), [&] { ++calls; });
  pass(Millis(2));
  EXPECT_EQ(calls, 0);
  ASSERT_EQ(::write(pair.write.get(), "x", 1), 1);
  ASSERT_TRUE(runUntil([&] { return calls >= 3; })) << "as long as nobody reads";
  watch.reset();
  const int before = calls;
  pass(Millis(2));
  EXPECT_EQ(calls, before) << "not after the handle is gone";
}

TEST_P(EventLoopContract, AWatchMayEndFromWithinItsCall) {
  const Pipe pair = pipe();
  ASSERT_EQ(::write(pair.write.get(), "x", 1), 1);
  int calls = 0;
  TimerHandle watch;
  watch = loop().whenReadable(pair.read.get(), [&] {
    ++calls;
    watch.reset();
  });
  ASSERT_TRUE(runUntil([&] { return calls > 0; }));
  pass(Millis(2));
  EXPECT_EQ(calls, 1);
}

TEST_P(EventLoopContract, TheEndOfAPeerIsReadable) {
  Pipe pair = pipe();
  bool told = false;
  const TimerHandle watch = loop().whenReadable(pair.read.get(), [&] { told = true; });
  pair.write.reset();
  EXPECT_TRUE(runUntil([&] { return told; }));
}

TEST_P(EventLoopContract, TimeDoesNotGoBack) {
  Instant last = loop().clock().now();
  int turns = 0;
  for (int i = 0; i < 20; ++i) {
    loop().post([&] {
      const Instant now = loop().clock().now();
      EXPECT_GE(now, last);
      last = now;
      ++turns;
    });
  }
  EXPECT_TRUE(runUntil([&] { return turns == 20; }));
}

}  // namespace coterie::contract
