#include "testing/freezable.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
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

bool anyOf(int owner) {
  for (const char* mount : {"/sys/fs/cgroup/unified", "/sys/fs/cgroup", "/sys/fs/cgroup/freezer"}) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(mount, ignored)) {
      if (entry.path().filename().string().starts_with("coterie-bench-" + std::to_string(owner) + "-")) return true;
    }
  }
  return false;
}

TEST(Freezable, whatAKilledBenchLeftIsRemovedByTheNext) {
  const pid_t killed = ::fork();
  if (killed == 0) {
    auto process = FreezableProcess::start("left", {"/bin/sleep", "1000"}, {});
    if (process) ::kill(::getpid(), SIGKILL);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(killed, &status, 0), killed);
  if (!WIFSIGNALED(status)) GTEST_SKIP() << "no writable cgroup freezer";
  // Its process dies with it, but not before it.
  for (int tries = 0; tries < 1000 && anyOf(killed); ++tries) (void)FreezableProcess::start("next", {"/bin/true"}, {});
  EXPECT_FALSE(anyOf(killed));
}

}  // namespace
}  // namespace coterie::testing
