#include "testing/manual_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "ports/event_loop_contract.h"

namespace coterie::contract {
namespace {

RunningLoop manual() {
  auto loop = std::make_shared<testing::ManualLoop>();
  return {loop, [raw = loop.get()](const std::function<bool()>& done) {
            for (int turn = 0; turn < 10'000 && !done(); ++turn) raw->advance(Millis(1));
            return done();
          }};
}
INSTANTIATE_TEST_SUITE_P(Manual, EventLoopContract, ::testing::Values(LoopUnderTest{"manual", manual}), loopName);

}  // namespace
}  // namespace coterie::contract

namespace coterie::testing {
namespace {

using namespace std::chrono_literals;

TEST(ManualLoop, RunsTimersInOrderOfTimeThenCreation) {
  ManualLoop loop;
  std::string order;
  const auto c = loop.after(20ms, [&] { order += 'c'; });
  const auto a = loop.after(10ms, [&] {
    order += 'a';
    loop.post([&] { order += 'p'; });
  });
  const auto b = loop.after(10ms, [&] { order += 'b'; });
  loop.advance(9ms);
  EXPECT_EQ(order, "");
  loop.advance(11ms);
  EXPECT_EQ(order, "apbc");
  EXPECT_EQ(loop.pendingTimers(), 0U);
}

TEST(ManualLoop, CancelledTimersNeverRunAndHandlesMayOutliveTheLoop) {
  TimerHandle outlives;
  {
    ManualLoop loop;
    int runs = 0;
    outlives = loop.after(1ms, [&] { ++runs; });
    {
      const auto dropped = loop.after(1ms, [&] { runs += 10; });
    }
    loop.advance(2ms);
    EXPECT_EQ(runs, 1);
    outlives = loop.after(1ms, [&] { ++runs; });
  }
}

TEST(ManualLoop, TimersRunAtTheirOwnInstant) {
  ManualLoop loop;
  const Instant start = loop.now();
  Instant seen{};
  TimerHandle second;
  const auto first = loop.after(5ms, [&] { second = loop.after(5ms, [&] { seen = loop.now(); }); });
  loop.advance(100ms);
  EXPECT_EQ(seen, start + 10ms);
  EXPECT_EQ(loop.now(), start + 100ms);
}

TEST(ManualLoop, WatchesDescriptors) {
  ManualLoop loop;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  int reads = 0;
  auto watch = loop.whenReadable(ends[0], [&] {
    char byte = 0;
    reads += static_cast<int>(::read(ends[0], &byte, 1));
  });
  EXPECT_FALSE(loop.pollDescriptors());
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  EXPECT_TRUE(loop.pollDescriptors());
  EXPECT_EQ(reads, 1);
  watch.reset();
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  loop.advance(1ms);
  EXPECT_EQ(reads, 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace coterie::testing
