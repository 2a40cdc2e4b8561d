#include "http/asio_loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "ports/event_loop_contract.h"

namespace coterie::contract {
namespace {

RunningLoop asio() {
  auto loop = std::make_shared<http::AsioLoop>();
  return {loop, [raw = loop.get()](const std::function<bool()>& done) { return raw->runUntil(done, Seconds(20)); }};
}
INSTANTIATE_TEST_SUITE_P(Asio, EventLoopContract, ::testing::Values(LoopUnderTest{"asio", asio}), loopName);

}  // namespace
}  // namespace coterie::contract

namespace coterie::http {
namespace {

TEST(AsioLoop, ADescriptorIsStillTheCallersAndMayBeWatchedAgain) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  AsioLoop loop;
  int calls = 0;
  TimerHandle handle;
  handle = loop.whenReadable(pipes[0], [&] {
    if (++calls == 3) handle.reset();
  });
  ASSERT_EQ(::write(pipes[1], "x", 1), 1);
  EXPECT_TRUE(loop.runUntil([&] { return calls == 3; }, Seconds(5)));
  EXPECT_EQ(loop.poll(), 0U);
  EXPECT_EQ(calls, 3);
  handle = loop.whenReadable(pipes[0], [&] { ++calls; });
  EXPECT_TRUE(loop.runUntil([&] { return calls == 4; }, Seconds(5)));
  handle.reset();
  EXPECT_EQ(::close(pipes[0]), 0);
  EXPECT_EQ(::close(pipes[1]), 0);
}

}  // namespace
}  // namespace coterie::http
