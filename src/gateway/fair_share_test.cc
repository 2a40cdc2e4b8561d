#include "gateway/fair_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace coterie::gateway {
namespace {

const TenantId kA(0);
const TenantId kB(1);

struct Case {
  const char* name;
  std::vector<std::int64_t> shares;  // thousandths of a slot
  std::vector<int> usedPermille;     // of the time
  int jain;
};

// Of tenants that wait all the time, looked at every 100 ms for the window from second 10 to second 20.
TEST(FairShare, JainsIndexOfUsedByEntitled) {
  const std::vector<Case> cases{
      {"equal", {500, 500}, {500, 500}, 1000},
      {"by weight", {750, 250}, {750, 250}, 1000},
      {"one has it all", {500, 500}, {1000, 0}, 500},
      {"one of four has it all", {250, 250, 250, 250}, {0, 0, 1000, 0}, 250},
      {"twice as much by share", {500, 500}, {667, 333}, 900},
      {"alone", {1000}, {100}, 1000},
  };
  for (const Case& each : cases) {
    FairShare fair;
    for (int tick = 0; tick <= 250; ++tick) {
      std::vector<FairShare::Look> looks;
      for (std::size_t i = 0; i < each.shares.size(); ++i)
        looks.push_back({TenantId(static_cast<std::int32_t>(i)), each.shares[i], Millis(100) * tick * each.usedPermille[i] / 1000, true});
      fair.look(Instant(Seconds(5) + Millis(100) * tick), looks);
    }
    EXPECT_NEAR(fair.jainPermille(), each.jain, 2) << each.name;
  }
}

TEST(FairShare, EntitledIsTheShareWhileThereIsWork) {
  FairShare fair;
  for (int tick = 0; tick <= 10; ++tick) fair.look(Instant(Seconds(5) + Millis(100) * tick), {{kA, 750, {}, true}, {kB, 250, {}, false}});
  EXPECT_EQ(fair.entitled(kA), Millis(750));
  EXPECT_EQ(fair.entitled(kB), Millis(250));
  fair.look(Instant(Seconds(60)), {{kA, 1000, {}, true}});
  EXPECT_EQ(fair.entitled(kA), Millis(750)) << "nobody had work in between";
  fair.look(Instant(Seconds(60) + Millis(100)), {{kA, 1000, {}, true}});
  EXPECT_EQ(fair.entitled(kA), Millis(850));
}

TEST(FairShare, WhoDidNotWaitAllTheTimeIsNotInTheIndex) {
  FairShare fair;
  for (int tick = 0; tick <= 250; ++tick)
    fair.look(Instant(Seconds(5) + Millis(100) * tick), {{kA, 500, Millis(90) * tick, true}, {kB, 500, Millis(10) * tick, tick % 2 == 0}});
  EXPECT_EQ(fair.jainPermille(), 1000);
}

// A replaced model's station counts from nothing.
TEST(FairShare, AReplacedModelIsNoTheft) {
  FairShare fair;
  for (int tick = 0; tick <= 250; ++tick) {
    const auto charged = [&](int permille) { return Millis(100) * (tick < 150 ? tick : tick - 150) * permille / 1000; };
    fair.look(Instant(Seconds(5) + Millis(100) * tick), {{kA, 500, charged(500), true}, {kB, 500, charged(500), true}});
  }
  EXPECT_NEAR(fair.jainPermille(), 1000, 2);
}

}  // namespace
}  // namespace coterie::gateway
