// Own lanes on CPUs of their own: who keeps to one, and who floats.
#include <gtest/gtest.h>

#include <cerrno>

#include "agent/drc.h"
#include "agent/drc_rig.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

// Left to the kernel, an added lane was woken on its sibling's CPU and stayed there for up to 100 ms (measured, bench elastic).
TEST(DrcLanes, LanesOfAHomeOwnedAloneKeepToOneCpuEach) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.settle();
  EXPECT_EQ(rig.kernel.laneCpus(InstanceId(10)), CpuSet::range(0, 3));
  rig.add(2, 20);
  rig.settle();
  EXPECT_EQ(rig.kernel.laneCpus(InstanceId(10)), rig.home(10));
  EXPECT_EQ(rig.kernel.laneCpus(InstanceId(20)), rig.home(20));
  for (int group = 3; group <= 5; ++group) rig.add(group, group * 10);
  rig.settle();
  for (int group = 1; group <= 5; ++group) EXPECT_LE(rig.home(group * 10).count(), 4);
  for (const GroupView& view : rig.drc->groups()) {
    if (!view.inPool) continue;
    EXPECT_TRUE(rig.kernel.laneCpus(view.containers.front().instance).empty()) << "who shares CPUs is balanced by the kernel";
  }
}

TEST(DrcLanes, LanesFloatWhenTheirHomeBecomesThePoolUnchanged) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.settle();
  ASSERT_EQ(rig.kernel.laneCpus(InstanceId(10)), (CpuSet{0, 1}));
  for (int group = 2; group <= 5; ++group) rig.add(group, group * 10);  // 400 milli-CPUs each: all share both CPUs
  rig.settle();
  ASSERT_EQ(rig.home(10), (CpuSet{0, 1}));
  EXPECT_TRUE(rig.kernel.laneCpus(InstanceId(10)).empty());
}

// `coterie get` showed the CPUs of before: a home that changed without changing the number of lanes was told to nobody.
TEST(DrcLanes, AHomeThatChangesUnderTheSameLanesIsTold) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 1);
  const LaneAllowance before = rig.allowed(10);
  const int told = rig.lanes.told[GroupId(1)];
  for (int group = 3; group <= 5; ++group) rig.add(group, group * 10);
  rig.settle();
  ASSERT_EQ(rig.home(10), (CpuSet{0, 1})) << "now in the pool";
  ASSERT_EQ(rig.allowed(10), before);
  EXPECT_GT(rig.lanes.told[GroupId(1)], told);
  rig.loop.advance(5s);
  const int quiet = rig.lanes.told[GroupId(1)];
  rig.loop.advance(5s);
  EXPECT_EQ(rig.lanes.told[GroupId(1)], quiet);
}

TEST(DrcLanes, ASpreadThatFailsIsTriedAgainAndHoldsNobodyUp) {
  DrcRig rig(2);
  rig.kernel.fail(InstanceId(10), CpuChangeKind::LaneCpus, EINVAL);
  rig.add(1, 10);
  rig.settle();
  EXPECT_EQ(rig.allowed(10).ownLanes, 2) << "the lanes float, and work";
  EXPECT_TRUE(rig.kernel.laneCpus(InstanceId(10)).empty());
  rig.kernel.heal();
  rig.loop.advance(3s);
  EXPECT_EQ(rig.kernel.laneCpus(InstanceId(10)), (CpuSet{0, 1}));
}

// Found by the random histories: lanes of a container that could not be placed were put on CPUs that others still had.
TEST(DrcLanes, LanesOfWhoIsNotPlacedFloat) {
  DrcRig rig(4);
  rig.kernel.fail(InstanceId(10), CpuChangeKind::HomeCpus, EIO);
  rig.add(1, 10);
  rig.loop.advance(3s);
  EXPECT_TRUE(rig.home(10).empty());
  EXPECT_TRUE(rig.kernel.laneCpus(InstanceId(10)).empty());
  rig.kernel.heal();
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.kernel.laneCpus(InstanceId(10)), rig.home(10));
}

// Each lane of a wide container needs several CPUs: fewer of them are opened, and the kernel places a run's threads.
TEST(DrcLanes, AWideContainerOpensALanePerSoManyCpus) {
  DrcRig rig(8);
  rig.drc->setGroup(rig.spec(1));
  rig.ready(1, 10, 4, 0, {}, 2);
  rig.settle();
  EXPECT_EQ(rig.allowed(10), (LaneAllowance{InstanceId(10), 4, 0}));
  EXPECT_TRUE(rig.kernel.laneCpus(InstanceId(10)).empty());
  rig.add(2, 20);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 4);
  EXPECT_EQ(rig.allowed(10).ownLanes, 2);
  for (int group = 3; group <= 8; ++group) rig.add(group, group * 10);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 1);
  EXPECT_EQ(rig.allowed(10).ownLanes, 1) << "one CPU carries one lane, whatever its width";
  rig.loop.advance(5s);
  const int told = rig.lanes.told[GroupId(1)];
  rig.loop.advance(5s);
  EXPECT_EQ(rig.lanes.told[GroupId(1)], told);
  ASSERT_TRUE(rig.drc->shareOf(GroupId(1)));
  EXPECT_EQ(rig.drc->shareOf(GroupId(1))->home, rig.home(10));
  EXPECT_FALSE(rig.drc->shareOf(GroupId(99)));
}

// Found by the random histories: an agent that was killed had lent its workers' lanes; the next one knew nothing of it, and the lanes stayed out.
TEST(DrcLanes, LoanLanesThatADeadAgentLeftOutComeHome) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  rig.queue(1, 80, 50ms);
  rig.loop.advance(100ms);
  ASSERT_FALSE(rig.loans(10).isSubsetOf(rig.home(10)));
  rig.queue(1, 0, 50ms);
  rig.restart(ManualApplier::InFlight::Lost, rig.ownJournal, {rig.spec(1), rig.spec(2)});
  rig.loop.advance(3s);
  EXPECT_EQ(rig.loans(10), rig.home(10));
  static_cast<void>(rig.kernel.takeOperations());
  rig.loop.advance(5s);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
}

}  // namespace
}  // namespace coterie::agent
