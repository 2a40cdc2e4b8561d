#include "linux/lane_spread.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace coterie::linux {
namespace {

using Lanes = std::vector<int>;

TEST(LaneSpread, Table) {
  EXPECT_EQ(spreadLanes({-1, -1}, CpuSet{4, 7}), (Lanes{4, 7}));
  EXPECT_EQ(spreadLanes({-1, -1, -1}, CpuSet{4, 7}), (Lanes{4, 7, -1})) << "more lanes than CPUs";
  EXPECT_EQ(spreadLanes({-1}, CpuSet{4, 7}), (Lanes{4})) << "more CPUs than lanes";
  EXPECT_EQ(spreadLanes({7, -1}, CpuSet{4, 7}), (Lanes{7, 4})) << "who has a CPU of the set keeps it";
  EXPECT_EQ(spreadLanes({4, 7}, CpuSet{7}), (Lanes{7, -1})) << "the first lanes are the ones that run";
  EXPECT_EQ(spreadLanes({7, 7}, CpuSet{4, 7}), (Lanes{7, 4}));
  EXPECT_EQ(spreadLanes({4, 7}, {}), (Lanes{-1, -1}));
  EXPECT_EQ(spreadLanes({}, CpuSet{4}), Lanes{});
}

TEST(LaneSpread, EveryLaneHasItsOwnCpuAndRepeatingMovesNobody) {
  EXPECT_TRUE(rc::check([] {
    CpuSet cpus;
    for (const int cpu : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 40))) cpus.add(cpu);
    const auto present = *rc::gen::container<Lanes>(rc::gen::inRange(-1, 40));
    const Lanes lanes = spreadLanes(present, cpus);
    RC_ASSERT(lanes.size() == present.size());
    CpuSet used;
    int placed = 0;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i] < 0) continue;
      RC_ASSERT(cpus.contains(lanes[i]));
      RC_ASSERT(!used.contains(lanes[i]));
      used.add(lanes[i]);
      RC_ASSERT(placed == static_cast<int>(i));  // the lanes in use are the first ones
      ++placed;
    }
    RC_ASSERT(placed == std::min(static_cast<int>(lanes.size()), cpus.count()));
    RC_ASSERT(spreadLanes(lanes, cpus) == lanes);
  }));
}

}  // namespace
}  // namespace coterie::linux
