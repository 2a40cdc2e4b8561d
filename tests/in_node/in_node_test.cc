#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "session.h"
#include "shared_page.h"

namespace coterie::in_node {
namespace {

TEST(InNodeWork, ARunUnderWayCountsForThePartOfItsTimeThatHasPassed) {
  ServiceCounters counters;
  counters.began(0, Millis(100), Millis(200));
  counters.began(3, Millis(150), Millis(100));
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(100)), 0);
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(200)), 0.5 + 0.5);
  counters.ended(3);
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(200)), 0.5 + 1);
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(900)), 1.0 + 1) << "a run that takes longer than expected counts once";
  counters.ended(0);
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(900)), 2);
}

TEST(InNodeWork, SliceBordersCostNothingAtASteadyRate) {
  // Two lanes in step, a run of 200 ms each: whole completions would read 8 or 12 a second from a slice of 250 ms.
  ServiceCounters counters;
  const auto workUpTo = [&](int millis) {
    static int now = 0;
    for (; now < millis; now += 10) {
      for (const std::size_t lane : {0U, 1U}) {
        if (now % 200 != 0) continue;
        if (now > 0) counters.ended(lane);
        counters.began(lane, Millis(1000 + now), Millis(200));
      }
    }
    return workAt(counters, Millis(1000 + millis));
  };
  for (const int from : {130, 1470, 2790}) {
    const double before = workUpTo(from);
    EXPECT_NEAR((workUpTo(from + 250) - before) / 0.25, 10, 1e-9) << from;
  }
}

TEST(InNodeWork, ALaneBeyondTheTableCountsWhenItCompletes) {
  ServiceCounters counters;
  counters.began(kMaxLanes + 5, Millis(1), Millis(1));
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(100)), 0);
  counters.ended(kMaxLanes + 5);
  EXPECT_DOUBLE_EQ(workAt(counters, Millis(100)), 1);
}

TEST(InNodeSession, EachRivalHasItsTurnAndTheReferenceItsShare) {
  Rng rng(3);
  const std::map<int, int> references{{1, 1}, {2, 1}, {3, 2}, {6, 2}, {9, 3}, {12, 3}};
  for (const auto& [count, wanted] : references) {
    for (int trial = 0; trial < 50; ++trial) {
      std::vector<int> rivals(static_cast<std::size_t>(count));
      std::iota(rivals.begin(), rivals.end(), 0);
      std::vector<int> half = drawHalf(rivals, rng);
      EXPECT_EQ(std::count(half.begin(), half.end(), -1), wanted);
      std::erase(half, -1);
      std::sort(half.begin(), half.end());
      EXPECT_EQ(half, rivals);
    }
  }
}

TEST(InNodeSession, NobodyIsFarFromTheReferenceInTime) {
  Rng rng(4);
  std::vector<int> rivals(9);
  std::iota(rivals.begin(), rivals.end(), 0);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<int> half = drawHalf(rivals, rng);
    for (std::size_t i = 0; i < half.size(); ++i) {
      std::size_t nearest = half.size();
      for (std::size_t j = 0; j < half.size(); ++j) {
        if (half[j] == -1) nearest = std::min(nearest, i > j ? i - j : j - i);
      }
      EXPECT_LE(nearest, 2U);
    }
  }
}

TEST(InNodeForms, EqualFormsAreMeasuredOnce) {
  struct Case {
    Subject a;
    Subject b;
    int services;
    int cpus;
    bool equal;
  };
  for (const Case& one : {
           Case{{"none-single", Threads::One}, {"none-single", Threads::Share}, 2, 2, true},     // a share of one CPU
           Case{{"none-single", Threads::One}, {"none-single", Threads::Paper}, 2, 2, true},     // one thread has nobody to spin for
           Case{{"none-single", Threads::Shipped}, {"none-single", Threads::All}, 2, 2, false},  // these two do
           Case{{"none-multi", Threads::One}, {"cm-multi", Threads::One}, 2, 2, true},           // four containers, two CPUs: nobody has one alone
           Case{{"none-multi", Threads::One}, {"cm-multi", Threads::One}, 1, 2, false},          // two containers: one each
           Case{{"none-single", Threads::One}, {"cm-single", Threads::One}, 2, 2, false},        // pinned or not
           Case{{"none-single", Threads::One}, {"cm-single", Threads::One}, 1, 2, true},         // the only container has the machine
           Case{{"none-single", Threads::One}, {"cm-single", Threads::One}, 3, 2, true},         // more containers than CPUs
           Case{{"none-single", Threads::One}, {"none-multi", Threads::One}, 2, 2, false},
           Case{{"none-single", Threads::One}, {"none-single", Threads::Share}, 2, 8, false},
       }) {
    EXPECT_EQ(formKey(one.a, one.services, one.cpus) == formKey(one.b, one.services, one.cpus), one.equal)
        << one.a.name() << ", " << one.b.name() << ", " << one.services << " services, " << one.cpus << " CPUs";
  }
}

TEST(InNodeForms, EveryRowOfTheIssueIsThere) {
  for (const Scenario& scenario : steadyScenarios(false)) {
    EXPECT_EQ(rowsOf(scenario, false).size(), 12U);  // four policies; shipped, paper, tuned
    EXPECT_EQ(rowsOf(scenario, true).size(), 2U);
  }
  EXPECT_EQ(steadyScenarios(false).size(), 13U);
  EXPECT_EQ(steadyScenarios(true).size(), 4U);
}

}  // namespace
}  // namespace coterie::in_node
