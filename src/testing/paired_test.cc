#include "testing/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/rng.h"

namespace coterie::testing {
namespace {

TEST(Paired, tQuantilesMatchThePrintedTables) {
  struct Row {
    double confidence;
    std::size_t degrees;
    double wanted;
  };
  for (const Row& row : {Row{.99, 1, 63.657},
                         {.99, 2, 9.925},
                         {.99, 5, 4.032},
                         {.99, 11, 3.106},
                         {.99, 23, 2.807},
                         {.99, 47, 2.685},
                         {.95, 10, 2.228},
                         {.5, 20, .687}}) {
    EXPECT_NEAR(studentT(row.confidence, row.degrees), row.wanted, row.wanted * 2e-3) << row.degrees;
  }
}

TEST(Paired, aSteadyRatioHasANarrowInterval) {
  const std::vector<double> logs(12, std::log(1.5));
  const Ratio ratio = pairedRatio(logs);
  EXPECT_NEAR(ratio.value, 1.5, 1e-9);
  EXPECT_LT(ratio.halfWidth(), 1e-6);
}

double nearlyNormal(Rng& rng) {  // deviation 1
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.unit();
  return sum;
}

TEST(Paired, theIntervalCoversTheTruthAboutAsOftenAsItSays) {
  Rng rng(7);
  int covered = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> logs;
    for (int block = 0; block < 12; ++block) {
      logs.push_back(std::log(1.2) + 0.1 * nearlyNormal(rng));
    }
    const Ratio ratio = pairedRatio(logs);
    covered += ratio.low <= 1.2 && 1.2 <= ratio.high;
  }
  EXPECT_GT(covered, 388);
  EXPECT_LT(covered, 401);
}

// Blocks that alternate around a middle: as far apart as wanted, and nothing by luck.
std::vector<double> around(double ratio, double apart, std::size_t blocks) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < blocks; ++i) logs.push_back(std::log(ratio) + (i % 2 == 0 ? apart : -apart));
  return logs;
}

TEST(PairedDecision, endsWhenItIsKnownAndNotBefore) {
  struct Row {
    double ratio;
    double apart;
    std::size_t blocks;
    Look look;
    Verdict wanted;
  };
  for (const Row& row : {
           Row{1.5, 0.001, 11, Look::Planned, Verdict::Open},        // between looks nobody looks
           Row{1.5, 0.001, 12, Look::Planned, Verdict::Holds},       // narrow
           Row{1.5, 0.1, 12, Look::Planned, Verdict::Holds},         // wide, but above the bound as a whole
           Row{0.8, 0.1, 12, Look::Planned, Verdict::Fails},         // and below it
           Row{1.0, 0.1, 12, Look::Planned, Verdict::Open},          // wide on both sides of it
           Row{1.0, 0.1, 24, Look::Planned, Verdict::Open},          //
           Row{1.0, 0.1, 48, Look::Planned, Verdict::Inconclusive},  // and no more looks
           Row{0.96, 0.02, 12, Look::Planned, Verdict::Holds},       // narrow, and the upper end reaches the bound
           Row{0.94, 0.02, 12, Look::Planned, Verdict::Fails},       // narrow, and it does not
           Row{1.5, 0.1, 7, Look::Last, Verdict::Holds},             // time is up
           Row{1.0, 0.1, 7, Look::Last, Verdict::Inconclusive},      //
           Row{1.5, 0.001, 3, Look::Last, Verdict::Inconclusive},    // too few for anything
       }) {
    EXPECT_EQ(decide(around(row.ratio, row.apart, row.blocks), 0.97, row.look).verdict, row.wanted)
        << row.ratio << " +- " << row.apart << " in " << row.blocks;
  }
}

TEST(PairedDecision, aWideIntervalIsReportedWithWhatTheLooksCost) {
  const std::vector<double> logs = around(1.5, 0.1, 12);
  const Decision decision = decide(logs, 0.97);
  EXPECT_LT(decision.ratio.low, pairedRatio(logs).low);
  EXPECT_GT(decision.ratio.high, pairedRatio(logs).high);
}

// The truth is the bound itself, so that every early end by the bound is a mistake: the worst case of looking three times.
TEST(PairedDecision, stoppingEarlyErrsNoMoreOftenThanItSays) {
  Rng rng(11);
  int wrong = 0;
  constexpr int kTrials = 500;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> logs;
    Decision decision;
    while (decision.verdict == Verdict::Open) {
      logs.push_back(std::log(0.97) + 0.15 * nearlyNormal(rng));
      decision = decide(logs, 0.97);
    }
    wrong += decision.ratio.low > 0.97 || decision.ratio.high < 0.97;
  }
  EXPECT_LE(wrong, kTrials / 50);
}

// A machine whose speed wanders: slices of A B B A, equal subjects.
TEST(PairedDecision, aWanderingMachineDoesNotMakeEqualSubjectsDifferent) {
  Rng rng(12);
  int wrong = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> logs;
    Decision decision;
    double speed = 0;
    while (decision.verdict == Verdict::Open) {
      double block = 0;
      for (const int sign : {-1, 1, 1, -1}) {
        speed += 0.05 * nearlyNormal(rng);
        block += sign * (speed + 0.02 * nearlyNormal(rng)) / 2;
      }
      logs.push_back(block);
      decision = decide(logs, 0.97);
    }
    wrong += decision.ratio.low > 1 || decision.ratio.high < 1;
  }
  EXPECT_LE(wrong, kTrials / 40);
}

}  // namespace
}  // namespace coterie::testing
