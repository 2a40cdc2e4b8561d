#include "linux/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "testing/manual_loop.h"

namespace coterie::linux {
namespace {

// A hang-up within the first milliseconds of an agent ended it. In a process of its own: it keeps the signals blocked.
TEST(StopSignals, AHangUpThatComesBeforeAnybodyListensIsHeard) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_DFL);
    holdHangUps();
    ::kill(::getpid(), SIGHUP);
    testing::ManualLoop loop;
    int heard = 0;
    const StopSignals signals(loop, [] { ::_exit(2); }, [&] { ++heard; });
    static_cast<void>(loop.pollDescriptors());
    ::_exit(heard == 1 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "it was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace coterie::linux
