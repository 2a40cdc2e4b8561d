#include "agent/drc.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "agent/drc_rig.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

TEST(Drc, AServiceAloneHasTheMachineANewcomerHalves) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.settle();
  EXPECT_EQ(rig.home(10), CpuSet::range(0, 3));
  EXPECT_EQ(rig.allowed(10).ownLanes, 4);
  rig.add(2, 20);
  rig.settle();
  EXPECT_EQ(rig.home(10).count(), 2);
  EXPECT_EQ(rig.home(20).count(), 2);
  EXPECT_FALSE(rig.home(10).intersects(rig.home(20)));
  EXPECT_EQ(rig.allowed(10).ownLanes, 2);
  EXPECT_EQ(rig.allowed(20).ownLanes, 2);
  rig.ended(20);
  rig.settle();
  EXPECT_EQ(rig.home(10), CpuSet::range(0, 3));
  EXPECT_EQ(rig.allowed(10).ownLanes, 4);
  EXPECT_TRUE(rig.breaches.empty()) << rig.breaches.front();
}

TEST(Drc, ATenantsCapEndsWhatItsServicesOwnTogetherAndIsFollowed) {
  DrcRig rig(8);
  const auto tell = [&](int id, int tenant, std::int64_t cap) {
    GroupSpec spec = rig.spec(id);
    spec.tenant = TenantId(tenant);
    spec.tenantCap = MilliCpu(cap);
    rig.drc->setGroup(spec);
  };
  for (const int id : {1, 2, 3}) {
    tell(id, id == 3 ? 2 : 1, 0);
    rig.ready(id, id * 10, 8);
  }
  rig.settle();
  EXPECT_EQ(rig.home(10).count() + rig.home(20).count(), 4);
  for (const int id : {1, 2}) tell(id, 1, 2000);
  rig.settle();
  EXPECT_EQ(rig.home(10).count() + rig.home(20).count(), 2);
  EXPECT_EQ(rig.home(30).count(), 6) << "what the cap leaves goes to others";
  for (const int id : {1, 2}) tell(id, 1, 0);
  rig.settle();
  EXPECT_EQ(rig.home(10).count() + rig.home(20).count(), 4);
  EXPECT_TRUE(rig.breaches.empty()) << rig.breaches.front();
}

TEST(Drc, EventsOfOneTurnMakeOnePlan) {
  DrcRig rig(8);
  rig.settle();
  const std::int64_t before = rig.drc->view().plans;
  for (int group = 1; group <= 4; ++group) rig.add(group, group * 10);
  rig.settle();
  EXPECT_EQ(rig.drc->view().plans, before + 1);
  for (int group = 1; group <= 4; ++group) EXPECT_EQ(rig.home(group * 10).count(), 2);
}

TEST(Drc, OnShrinkLanesGoFirstThenCpusOnGrowCpusFirst) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.settle();
  rig.lanes.events.clear();
  rig.kernel.hang(InstanceId(10), CpuChangeKind::HomeCpus);  // the narrowing does not happen yet
  rig.add(2, 20);
  rig.settle();
  EXPECT_EQ(rig.lanes.events, std::vector<std::string>{"lanes 10: 1+0"}) << "told before the CPUs went, and nobody has gained";
  EXPECT_EQ(rig.home(10), (CpuSet{0, 1}));
  EXPECT_TRUE(rig.home(20).empty());
  rig.kernel.heal();
  EXPECT_EQ(linux::executeChange(*rig.kernel.prepare({CpuChangeKind::HomeCpus, InstanceId(10), rig.drc->plannedHome(InstanceId(10)), 0})), 0);
  rig.applier.release();
  rig.settle();
  EXPECT_EQ(rig.home(10).count(), 1);
  EXPECT_EQ(rig.home(20), (CpuSet{0, 1}) - rig.home(10));
  EXPECT_EQ(rig.lanes.events.back(), "lanes 20: 1+0");
}

TEST(Drc, AnIdleNodeHasNoTickAndThePlanIsNotMadeAgain) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  rig.loop.advance(10s);
  const std::int64_t plans = rig.drc->view().plans;
  const std::size_t callbacks = rig.loop.callbacksRun();
  static_cast<void>(rig.kernel.takeOperations());
  rig.loop.advance(10s);
  EXPECT_EQ(rig.drc->view().plans, plans);
  EXPECT_LE(rig.loop.callbacksRun() - callbacks, 11U) << "one poll a second, nothing else";
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
}

TEST(Drc, AQueueBorrowsIdleCpusAndGivesThemBack) {
  DrcRig rig(2);
  rig.add(1, 10, 2, 2);
  rig.add(2, 20, 2, 2);
  rig.settle();
  const CpuSet own = rig.home(10);
  const CpuSet other = rig.home(20);
  rig.queue(1, 50, 20ms);
  rig.settle();
  EXPECT_EQ(rig.allowed(10).loanLanes, 1);
  EXPECT_EQ(rig.loans(10), other);
  EXPECT_EQ(rig.home(10), own) << "load moves no home";
  EXPECT_EQ(rig.home(20), other);
  EXPECT_EQ(rig.allowed(20).loanLanes, 0);
  rig.queue(1, 0, 20ms);
  rig.loop.advance(50ms);
  EXPECT_EQ(rig.allowed(10).loanLanes, 1) << "parked only after 100 ms";
  rig.loop.advance(100ms);
  EXPECT_EQ(rig.allowed(10).loanLanes, 0);
  EXPECT_EQ(rig.loans(10), own) << "parked on its own home";
  rig.loop.advance(50ms);
  const std::size_t callbacks = rig.loop.callbacksRun();
  rig.loop.advance(900ms);
  EXPECT_LE(rig.loop.callbacksRun() - callbacks, 3U) << "no tick once nothing is queued or lent";
}

TEST(Drc, LendingOffWakesNobody) {
  DrcRig rig(2);
  rig.drc->setLending(false);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.queue(1, 50, 20ms);
  rig.loop.advance(50ms);
  EXPECT_EQ(rig.allowed(10).loanLanes, 0);
}

TEST(Drc, AStarvedLoanLaneMovesToItsOwnGroupsIdleCpuAndBack) {
  DrcRig rig(2);
  rig.add(1, 10, 2, 1);
  rig.add(2, 20, 2, 1);
  rig.settle();
  const int lane = rig.processes.at(InstanceId(10)).loanLaneThreads[0];
  rig.queue(1, 50, 20ms);
  rig.settle();
  ASSERT_EQ(rig.allowed(10).loanLanes, 1);
  rig.demand[GroupId(1)].queuedBeyondOwnLanes = false;  // an own lane came free
  rig.kernel.setThreadUse(lane, {5ms, true, false});    // wants to run, does not: the owner is busy; its own lanes idle
  rig.loop.advance(15ms);
  EXPECT_EQ(rig.kernel.lanePlace(InstanceId(10), 0), LanePlace::Loans);
  rig.loop.advance(30ms);
  EXPECT_EQ(rig.kernel.lanePlace(InstanceId(10), 0), LanePlace::Home);
  EXPECT_EQ(rig.drc->explainGroup(GroupId(1))->counters.lanesMoved, 1);
  rig.kernel.setThreadUse(lane, {25ms, false, false});  // done
  rig.loop.advance(20ms);
  EXPECT_EQ(rig.kernel.lanePlace(InstanceId(10), 0), LanePlace::Loans);
}

TEST(Drc, AStarvedLoanLaneStaysWhereItsOwnGroupHasNoIdleCpu) {
  DrcRig rig(2);
  rig.add(1, 10, 1, 1);
  rig.add(2, 20, 1, 1);
  rig.settle();
  rig.queue(1, 50, 20ms);
  rig.settle();
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).loanLaneThreads[0], {5ms, true, false});
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).ownLaneThreads[0], {5ms, true, false});
  rig.loop.advance(200ms);
  EXPECT_EQ(rig.kernel.lanePlace(InstanceId(10), 0), LanePlace::Loans);
}

// Found by the in-node bench: looking at every lane every 10 ms took 2 % of a CPU from a machine whose services were all flooded.
TEST(Drc, AFloodHasNoThreadsLookedAt) {
  DrcRig rig(2);
  rig.add(1, 10, 1, 1);
  rig.add(2, 20, 1, 1);
  rig.queue(1, 50, 20ms);
  rig.queue(2, 50, 20ms);
  rig.settle();
  const int before = rig.kernel.threadLooks();
  rig.loop.advance(1s);
  EXPECT_LE(rig.kernel.threadLooks() - before, 8) << "the account of use, once a second";
}

// With fewer lanes than CPUs, a queue says nothing of idle CPUs.
TEST(Drc, AStarvedLoanLaneMovesHomeBesideAQueueThatItsOwnLanesCannotServe) {
  DrcRig rig(4);
  rig.add(1, 10, 1, 1);
  rig.add(2, 20, 2, 1);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 2);
  rig.queue(1, 200, 20ms);
  rig.settle();
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).loanLaneThreads[0], {5ms, true, false});
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).ownLaneThreads[0], {5ms, true, false});
  rig.loop.advance(50ms);
  EXPECT_EQ(rig.kernel.lanePlace(InstanceId(10), 0), LanePlace::Home);
}

TEST(Drc, LentAndBorrowedTimeAgree) {
  DrcRig rig(2);
  rig.add(1, 10, 2, 1);
  rig.add(2, 20, 2, 1);
  rig.settle();
  rig.queue(1, 50, 20ms);
  rig.settle();
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).loanLaneThreads[0], {300ms, false, false});
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(20)).ownLaneThreads[0], {100ms, false, false});
  rig.loop.advance(1s);
  const GroupCounters borrower = rig.drc->explainGroup(GroupId(1))->counters;
  const GroupCounters owner = rig.drc->explainGroup(GroupId(2))->counters;
  EXPECT_EQ(borrower.borrowed, Nanos{300ms});
  EXPECT_EQ(borrower.used, Nanos{300ms});
  EXPECT_EQ(owner.lent, Nanos{300ms});
  EXPECT_EQ(owner.used, Nanos{100ms});
}

// Entitled to a CPU for a second, it used 100 ms of it, and a borrower 300.
TEST(Drc, EntitledTimeThatNobodyUsedIsIdle) {
  DrcRig rig(2);
  rig.add(1, 10, 2, 1);
  rig.add(2, 20, 2, 1);
  rig.settle();
  rig.queue(1, 50, 20ms);
  rig.settle();
  rig.loop.advance(1s);
  const auto idle = [&](int group) { return rig.drc->explainGroup(GroupId(group))->counters.idle; };
  ASSERT_EQ(rig.drc->explainGroup(GroupId(2))->entitlement, MilliCpu(1000));
  const Nanos borrower = idle(1);
  const Nanos owner = idle(2);
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(10)).loanLaneThreads[0], {300ms, false, false});
  rig.kernel.setThreadUse(rig.processes.at(InstanceId(20)).ownLaneThreads[0], {100ms, false, false});
  rig.loop.advance(1s);
  EXPECT_EQ(idle(2) - owner, Nanos{600ms});
  EXPECT_EQ(idle(1) - borrower, Nanos{1s}) << "what it borrowed is not of its own";
}

TEST(Drc, FrozenItPlansNothingAndCatchesUpAfterwards) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.settle();
  rig.drc->freeze();
  rig.add(2, 20);
  rig.queue(1, 100, 20ms);
  rig.loop.advance(3s);
  EXPECT_EQ(rig.home(10), CpuSet::range(0, 3));
  EXPECT_TRUE(rig.home(20).empty()) << "it floats";
  EXPECT_EQ(rig.allowed(20).ownLanes, 1) << "and answers";
  rig.drc->unfreeze();
  rig.settle();
  EXPECT_EQ(rig.home(10).count(), 2);
  EXPECT_EQ(rig.home(20).count(), 2);
}

TEST(Drc, AFailedWriteIsCountedAndPlannedAgainAtTheNextPoll) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.settle();
  rig.kernel.fail(InstanceId(10), CpuChangeKind::HomeCpus, EIO);
  rig.add(2, 20);
  rig.settle();
  EXPECT_TRUE(rig.home(20).empty()) << "it waits for the CPU that was not given up";
  EXPECT_GE(rig.drc->explainGroup(GroupId(1))->counters.applyErrors, 1);
  rig.kernel.heal();
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.home(10).count(), 1);
  EXPECT_EQ(rig.home(20).count(), 1);
  EXPECT_TRUE(rig.breaches.empty());
}

TEST(Drc, ExplainSaysWhyAndWhatChanged) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.settle();
  rig.add(2, 20);
  rig.settle();
  const auto view = rig.drc->explainGroup(GroupId(1));
  ASSERT_TRUE(view.has_value());
  EXPECT_FALSE(view->reasons.empty());
  ASSERT_EQ(view->changes.size(), 2U);
  EXPECT_EQ(view->changes[1].from.count(), 4);
  EXPECT_EQ(view->changes[1].to.count(), 2);
  EXPECT_EQ(view->entitlement, MilliCpu(2000));
  EXPECT_EQ(view->grant, MilliCpu(2000));
  EXPECT_EQ(view->containers[0].observed->home, rig.home(10));
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(9)).has_value());
  EXPECT_EQ(rig.drc->view().controller, "fake-v1");
}

TEST(Drc, ANewcomersFloorCountsThosePromisedButNotStarted) {
  DrcRig rig(4);
  GroupSpec promised = rig.spec(1);
  promised.floor = MilliCpu(3000);
  rig.drc->setGroup(promised);
  rig.settle();
  GroupSpec newcomer = rig.spec(2);
  newcomer.floor = MilliCpu(1000);
  EXPECT_EQ(rig.drc->missingForFloor(newcomer), MilliCpu(0));
  newcomer.floor = MilliCpu(2000);
  EXPECT_EQ(rig.drc->missingForFloor(newcomer), MilliCpu(1000));
}

TEST(Drc, BaselinePoliciesFloatAndTheWayBackSplitsAgain) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  rig.mayOverlap = true;
  rig.drc->setPolicy(allocation::PolicyName::NoneMulti);
  rig.settle();
  EXPECT_EQ(rig.home(10), CpuSet::range(0, 3));
  EXPECT_EQ(rig.home(20), CpuSet::range(0, 3));
  rig.drc->setPolicy(allocation::PolicyName::Drc);
  rig.settle();
  EXPECT_EQ(rig.home(10).count(), 2);
  EXPECT_FALSE(rig.home(10).intersects(rig.home(20)));
}

TEST(Drc, AQueueKeepsTheTickGoingOnlyWhileItLasts) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.settle();
  rig.queue(1, 3, 1ms);
  rig.loop.advance(30ms);
  EXPECT_GE(rig.loop.pendingTimers(), 2U);
  rig.queue(1, 0, 1ms);
  rig.loop.advance(30ms);
  EXPECT_EQ(rig.loop.pendingTimers(), 1U) << "the poll alone";
}

TEST(Drc, ShutDownGivesEverythingBack) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.settle();
  rig.drc->shutDown();
  EXPECT_FALSE(rig.kernel.observe(InstanceId(10)).ok());
  EXPECT_EQ(rig.loop.pendingTimers(), 0U);
  rig.drc.reset();
  rig.loop.advance(5s);
}

TEST(Reserved, WholeCoresFromEightCpusUp) {
  EXPECT_TRUE(defaultReserved(flatMachine(4)).empty());
  const Machine big = testing::bigMachine(64);
  const CpuSet reserved = defaultReserved(big);
  EXPECT_GE(reserved.count(), 2);
  for (const int cpu : reserved) EXPECT_TRUE(big.domains[static_cast<std::size_t>(big.findCpu(cpu)->core)].cpus.isSubsetOf(reserved));
}

// A set that the kernel refused was written each second for ever, and meanwhile nobody's drift was counted.
TEST(Drc, AWriteThatIsRefusedAgainAndAgainIsTriedAFewTimesAMinuteAndSaid) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 2);
  rig.kernel.fail(InstanceId(10), CpuChangeKind::HomeCpus, EACCES);
  rig.ended(20);
  rig.loop.advance(50s);
  const GroupView refused = *rig.drc->explainGroup(GroupId(1));
  EXPECT_TRUE(refused.containers[0].contested);
  EXPECT_EQ(refused.counters.conflicts, 1);
  EXPECT_LE(refused.counters.applyErrors, 2 * rig.settings.repairsPerMinute);
  rig.kernel.heal();
  rig.loop.advance(130s);
  EXPECT_EQ(rig.home(10).count(), 4);
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(1))->containers[0].contested);
}

// Docker's parent cgroup had CPU 1 of 0-1 alone: CPU 0 was asked for twelve times a minute, for ever, and nobody was told which cgroup refuses it.
TEST(Drc, WhatASetAboveDoesNotAllowIsAskedForOnceAndSaidByName) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet before = rig.home(10);
  rig.kernel.limit(InstanceId(10), before);
  rig.ended(20);
  rig.loop.advance(100ms);
  EXPECT_EQ(rig.drc->limitOf(InstanceId(10)), "cgroup /docker allows only " + before.toString()) << "at once";
  EXPECT_TRUE(rig.drc->explainGroup(GroupId(1))->containers[0].contested);
  rig.loop.advance(200s);
  const GroupView limited = *rig.drc->explainGroup(GroupId(1));
  EXPECT_EQ(limited.counters.applyErrors, 1) << "the kernel was asked again";
  EXPECT_EQ(limited.counters.conflicts, 1);
  EXPECT_EQ(limited.containers[0].limit, "cgroup /docker allows only " + before.toString());
  EXPECT_EQ(rig.home(10), before);
  rig.kernel.limit(InstanceId(10), std::nullopt);
  rig.loop.advance(3s);
  EXPECT_EQ(rig.home(10).count(), 4) << "widened: it is taken up";
  EXPECT_EQ(rig.drc->limitOf(InstanceId(10)), "");
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(1))->containers[0].contested);
}

TEST(Drc, AFightIsSaidAlsoWhileTheKernelRefusesAnother) {
  DrcRig rig(4);
  for (int group = 1; group <= 3; ++group) rig.add(group, group * 10);
  rig.settle();
  rig.kernel.fail(InstanceId(10), CpuChangeKind::HomeCpus, EACCES);
  rig.ended(20);
  for (int second = 0; second < 10; ++second) {
    rig.kernel.disturb(InstanceId(30), CpuSet::range(0, 3));
    rig.loop.advance(1s);
  }
  EXPECT_TRUE(rig.drc->explainGroup(GroupId(3))->containers[0].contested);
}

}  // namespace
}  // namespace coterie::agent
