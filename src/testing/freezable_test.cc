#include "testing/freezable.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <string>

namespace coterie::testing {
namespace {

// The child writes a byte to the pipe as fast as it can; frozen, the whole tree (a shell and its child) must fall silent.
TEST(Freezable, aFrozenTreeIsSilentUntilThawed) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read(ends[0]);
  UniqueFd write(ends[1]);
  auto process =
      FreezableProcess::start("test", {"/bin/sh", "-c", "while :; do (echo x >&" + std::to_string(write.get()) + "); done"}, {write.get()});
  if (!process) GTEST_SKIP() << process.error().message;
  write.reset();
  char bytes[4096];
  ASSERT_GT(::read(read.get(), bytes, sizeof bytes), 0);
  ASSERT_TRUE((*process)->freeze().ok());
  pollfd waiting{read.get(), POLLIN, 0};
  while (::poll(&waiting, 1, 0) > 0) ASSERT_GT(::read(read.get(), bytes, sizeof bytes), 0);
  EXPECT_EQ(::poll(&waiting, 1, 50), 0);
  ASSERT_TRUE((*process)->thaw().ok());
  EXPECT_GT(::read(read.get(), bytes, sizeof bytes), 0);
  EXPECT_TRUE((*process)->running());
  (*process)->kill();
  while (::read(read.get(), bytes, sizeof bytes) > 0) {
  }
  EXPECT_FALSE((*process)->running());
}

}  // namespace
}  // namespace coterie::testing
