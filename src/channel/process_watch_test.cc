// Who pays for what a worker says of its waiting; and when a process counts as silent.
#include "channel/process_watch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "base/cpu_clock.h"

namespace coterie::channel {
namespace {

TEST(CostMeter, BelievesASmallClaimUnseen) {
  EXPECT_FALSE(CostMeter::wantsProof({Micros(160), Micros(10)}));
  EXPECT_TRUE(CostMeter::wantsProof({Micros(160), Micros(11)}));
}

struct Row {
  const char* name;
  Millis held, waited, cpu, underWay;
  int width;
  Millis believed;
};
TEST(CostMeter, ChargesAtLeastTheCpuTimeUsed) {
  const Row rows[] = {
      {"waited indeed", Millis(100), Millis(60), Millis(40), Millis(0), 1, Millis(60)},
      {"says it only waited", Millis(100), Millis(100), Millis(80), Millis(0), 1, Millis(20)},
      {"more than it was held", Millis(100), Millis(9999), Millis(80), Millis(0), 1, Millis(20)},
      {"less than nothing", Millis(100), Millis(-5), Millis(80), Millis(0), 1, Millis(0)},
      {"blocked and waited", Millis(100), Millis(60), Millis(10), Millis(0), 1, Millis(60)},
      {"another run's time", Millis(100), Millis(60), Millis(90), Millis(50), 1, Millis(60)},
      {"two threads a run", Millis(100), Millis(60), Millis(80), Millis(0), 2, Millis(60)},
      {"used more than it held", Millis(100), Millis(60), Millis(500), Millis(0), 1, Millis(0)},
  };
  for (const Row& row : rows) {
    CostMeter meter(Millis(1000), row.width);
    EXPECT_EQ(meter.settle({row.held, row.waited}, Millis(1000) + row.cpu, row.underWay), row.believed) << row.name;
  }
}

TEST(CostMeter, WhatWasPaidIsNotPaidTwice) {
  CostMeter meter(Nanos{}, 1);
  EXPECT_EQ(meter.settle({Millis(100), Millis(100)}, Millis(50), Nanos{}), Millis(50));
  EXPECT_EQ(meter.settle({Millis(100), Millis(100)}, Millis(50), Nanos{}), Millis(100)) << "it used nothing since";
}

// Whatever a worker says, over many runs one after the other it is charged at least what it used, less the sixteenths that are believed unseen.
RC_GTEST_PROP(CostMeter, NoSeriesOfLiesIsFree, ()) {
  CostMeter meter(Nanos{}, 1);
  Nanos cpu{};
  Nanos charged{};
  Nanos unseen{};
  const int runs = *rc::gen::inRange(1, 40);
  for (int i = 0; i < runs; ++i) {
    const Nanos held(*rc::gen::inRange(1, 1'000'000));
    cpu += Nanos(*rc::gen::inRange<std::int64_t>(0, held.count() + 1));
    const CostMeter::Claim claim{held, Nanos(*rc::gen::inRange(-10, 2'000'000))};
    const bool proof = CostMeter::wantsProof(claim);
    const Nanos believed = proof ? meter.settle(claim, cpu, Nanos{}) : meter.settle(claim);
    RC_ASSERT(believed >= Nanos{} && believed <= held);
    charged += held - believed;
    if (!proof) unseen += believed;
  }
  RC_ASSERT(charged + unseen >= cpu);
}

TEST(SilenceWatch, CountsLooksWithoutAnySign) {
  using Sign = SilenceWatch::Sign;
  const auto wants = [] { return true; };
  const auto wantsNot = [] { return false; };
  SilenceWatch watch;
  EXPECT_EQ(watch.look({true, Millis(1)}, 2, wantsNot), Sign::Nothing);
  EXPECT_EQ(watch.look({true, Millis(1)}, 2, wantsNot), Sign::Nothing);
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wantsNot), Sign::Nothing) << "it moved: counted anew";
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wantsNot), Sign::Nothing);
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wants), Sign::Nothing) << "it wants a CPU and gets none";
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wantsNot), Sign::Nothing);
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wantsNot), Sign::FellSilent);
  EXPECT_EQ(watch.look({true, Millis(2)}, 2, wantsNot), Sign::Nothing) << "told once";
  EXPECT_EQ(watch.look({true, Millis(3)}, 2, wantsNot), Sign::IsBack);
  EXPECT_EQ(watch.look({false, Nanos{}}, 1, wantsNot), Sign::Nothing) << "nobody listens to who has no work";
  EXPECT_EQ(watch.look({false, Nanos{}}, 1, wantsNot), Sign::Nothing);
  EXPECT_EQ(watch.heard(), Sign::Nothing);
}

// Against the kernel: a child that spins, is stopped, and is gone.
TEST(Kernel, TellsSpinningFromStoppedFromGone) {
  const pid_t child = ::fork();
  if (child == 0) {
    while (::getppid() >= 0) continue;
  }
  const auto begun = cpuTimeOf(child);
  ASSERT_TRUE(begun.has_value());
  while (*cpuTimeOf(child) - *begun < Millis(5)) ::sched_yield();
  EXPECT_TRUE(anyRunnable(child));
  ::kill(child, SIGSTOP);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED), 0);
  while (anyRunnable(child)) ::sched_yield();  // told before it has left its CPU
  const auto stopped = cpuTimeOf(child);
  EXPECT_EQ(cpuTimeOf(child), stopped);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(cpuTimeOf(child).has_value());
  EXPECT_FALSE(anyRunnable(child));
  EXPECT_FALSE(cpuTimeOf(0).has_value()) << "0 would mean ourselves";
}

}  // namespace
}  // namespace coterie::channel
