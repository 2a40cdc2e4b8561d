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

TEST(Paired, theIntervalCoversTheTruthAboutAsOftenAsItSays) {
  Rng rng(7);
  int covered = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> logs;
    for (int block = 0; block < 12; ++block) {
      double noise = -6;
      for (int i = 0; i < 12; ++i) noise += rng.unit();  // nearly normal, deviation 1
      logs.push_back(std::log(1.2) + 0.1 * noise);
    }
    const Ratio ratio = pairedRatio(logs);
    covered += ratio.low <= 1.2 && 1.2 <= ratio.high;
  }
  EXPECT_GT(covered, 388);
  EXPECT_LT(covered, 401);
}

}  // namespace
}  // namespace coterie::testing
