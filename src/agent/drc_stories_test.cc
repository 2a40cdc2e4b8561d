// Failures that others shipped, as stories.
#include "agent/drc.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "agent/drc_rig.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

// containerd#10583, #13733: one stuck update blocked the whole node.
TEST(DrcStories, AStuckWriteBlocksOnlyWhoWaitsForIt) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  ASSERT_EQ(rig.home(10).count(), 2);
  rig.kernel.hang(InstanceId(10), CpuChangeKind::HomeCpus);
  GroupSpec heavy = rig.spec(1, 10);  // 1 becomes light: 10 loses CPUs and hangs
  rig.drc->setGroup(heavy);
  rig.loop.advance(200ms);
  EXPECT_GE(rig.applier.helped(), 1);
  EXPECT_TRUE(rig.drc->explainGroup(GroupId(1))->containers[0].stuck);
  EXPECT_EQ(rig.home(20).count(), 2) << "the taker waits";
  static_cast<void>(rig.kernel.takeOperations());
  rig.ended(20);  // others go on: a new service takes what 20 had
  rig.add(3, 30);
  rig.loop.advance(200ms);
  EXPECT_FALSE(rig.home(30).empty());
  EXPECT_FALSE(rig.home(30).intersects(rig.home(10)));
  rig.kernel.heal();
  rig.applier.release(EINTR);
  rig.loop.advance(2100ms);
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(1))->containers[0].stuck);
  EXPECT_TRUE(rig.drc->settled());
  EXPECT_EQ((rig.home(10) | rig.home(30)).count(), 4);
  EXPECT_TRUE(rig.breaches.empty());
}

// The rule of the peers in that story: updates without a deadline, one after the other. It tells their rule from ours.
TEST(DrcStories, WithoutADeadlineAStuckWriteBlocksTheNode) {
  const auto homeOfTheNewcomer = [](Millis deadline) {
    DrcConfig config;
    config.writeDeadline = deadline;
    DrcRig rig(4, nullptr, config);
    rig.add(1, 10);
    rig.add(2, 20);
    rig.settle();
    rig.kernel.hang(InstanceId(10), CpuChangeKind::HomeCpus);
    rig.drc->setGroup(rig.spec(1, 10));  // 10 loses CPUs and hangs
    rig.loop.advance(200ms);
    rig.ended(20);
    rig.add(3, 30);
    rig.loop.advance(200ms);
    return rig.home(30);
  };
  EXPECT_FALSE(homeOfTheNewcomer(20ms).empty());
  EXPECT_TRUE(homeOfTheNewcomer(std::chrono::hours(1)).empty());
}

// The loop runs before the load for as long as a plan is wanted or under way; nothing that hangs, waits or is frozen keeps it there.
TEST(DrcStories, TheLoopHurriesWhileAPlanIsUnderWayAndNoLonger) {
  DrcRig rig(4);
  rig.add(1, 10);
  EXPECT_TRUE(rig.applier.hurries()) << "a plan is wanted";
  rig.settle();
  EXPECT_FALSE(rig.applier.hurries());
  bool throughout = true;
  rig.applier.setAfterStep([&] { throughout = throughout && rig.applier.hurries(); });
  rig.add(2, 20);
  rig.settle();
  EXPECT_TRUE(throughout) << "also while it is written";
  EXPECT_FALSE(rig.applier.hurries());
  rig.applier.setAfterStep(nullptr);
  rig.kernel.hang(InstanceId(10), CpuChangeKind::HomeCpus);
  rig.drc->setGroup(rig.spec(1, 10));
  rig.loop.advance(200ms);
  EXPECT_FALSE(rig.drc->settled());
  EXPECT_FALSE(rig.applier.hurries()) << "a write hangs";
  rig.kernel.heal();
  rig.applier.release();
  rig.settle();
  rig.drc->freeze();
  rig.drc->setGroup(rig.spec(1, 20));
  EXPECT_FALSE(rig.applier.hurries()) << "a plan is wanted, but not to be made now";
  rig.drc->unfreeze();
  EXPECT_TRUE(rig.applier.hurries());
  rig.drc->shutDown();
  EXPECT_FALSE(rig.applier.hurries());
}

// A late write came back while another of its batch still ran; when that ended, nobody was left to tell, and the container counted as stuck for good.
// Found by `./dev bench apply`.
TEST(DrcStories, ALateWriteThatReturnsBeforeTheLastOfItsBatchIsNotWaitedForForEver) {
  DrcRig rig(4);
  for (const int instance : {10, 20}) rig.kernel.hang(InstanceId(instance), CpuChangeKind::HomeCpus);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.loop.advance(25ms);  // 10 is late; who helps out hangs with 20
  ASSERT_EQ(rig.applier.helped(), 1);
  rig.kernel.heal();
  rig.applier.release();
  rig.settle();
  EXPECT_TRUE(rig.drc->settled());
  for (const int group : {1, 2}) EXPECT_FALSE(rig.drc->explainGroup(GroupId(group))->containers[0].stuck);
  EXPECT_EQ((rig.home(10) | rig.home(20)).count(), 4);
}

// systemd#40438, runc#1605, koordinator#3129: a daemon-reload or another agent resets cpusets.
TEST(DrcStories, SomebodyElsesWriteIsSeenAndRepaired) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet first = rig.home(10);
  const CpuSet second = rig.home(20);
  rig.kernel.disturb(InstanceId(10), CpuSet::range(0, 3));
  rig.kernel.disturb(InstanceId(20), first);
  rig.mayOverlap = true;  // made by somebody else
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.home(10), first);
  EXPECT_EQ(rig.home(20), second);
  EXPECT_EQ(rig.drc->explainGroup(GroupId(1))->counters.driftRepairs, 1);
}

// The rule of the peers in that story: a set that was written counts as in force. It tells their rule from ours.
TEST(DrcStories, WrittenOnceAndNeverLookedAtADriftStays) {
  const auto repaired = [](Millis poll) {
    DrcConfig config;
    config.pollInterval = poll;
    DrcRig rig(4, nullptr, config);
    rig.add(1, 10);
    rig.add(2, 20);
    rig.settle();
    const CpuSet first = rig.home(10);
    rig.kernel.disturb(InstanceId(10), CpuSet::range(0, 3));
    rig.mayOverlap = true;  // made by somebody else
    rig.loop.advance(1100ms);
    return rig.home(10) == first;
  };
  EXPECT_TRUE(repaired(1000ms));
  EXPECT_FALSE(repaired(std::chrono::hours(1)));
}

// systemd#40438 again, where the other does not give in: two controllers that overwrite each other all day.
TEST(DrcStories, AFightIsFoughtAFewTimesAMinuteAndThenSaid) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet mine = rig.home(10);
  rig.mayOverlap = true;  // made by somebody else
  for (int second = 0; second < 30; ++second) {
    rig.kernel.disturb(InstanceId(10), CpuSet::range(0, 3));
    rig.loop.advance(1000ms);
  }
  const auto view = rig.drc->explainGroup(GroupId(1));
  EXPECT_EQ(view->counters.driftRepairs, 6);
  EXPECT_EQ(view->counters.conflicts, 1);
  EXPECT_TRUE(view->containers[0].contested);
  EXPECT_EQ(rig.drc->view().rivals, "kubelet");
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(2))->containers[0].contested);
  rig.loop.advance(40s);  // the other has given up
  EXPECT_EQ(rig.home(10), mine);
  rig.loop.advance(61s);
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(1))->containers[0].contested);
  EXPECT_EQ(rig.drc->explainGroup(GroupId(1))->counters.conflicts, 1);
}

// A fight over one container, which the other keeps on all CPUs, left nobody a CPU of his own to be put back to: drift of all others stayed, unsaid,
// and the next plan built on it.
TEST(DrcStories, AFightOverOneContainerLeavesNobodyElseWhereSomebodyPutIt) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet fought = rig.home(10), other = rig.home(20);
  rig.mayOverlap = true;  // made by somebody else
  for (int second = 0; second < 12; ++second) {
    rig.kernel.disturb(InstanceId(10), CpuSet::range(0, 3));
    rig.loop.advance(1000ms);
  }
  ASSERT_TRUE(rig.drc->explainGroup(GroupId(1))->containers[0].contested);
  ASSERT_EQ(rig.home(10), CpuSet::range(0, 3));
  rig.kernel.disturb(InstanceId(20), fought);
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.home(20), other) << "beside him whom nobody can keep away, not on the other's CPUs";
  EXPECT_EQ(rig.drc->explainGroup(GroupId(2))->counters.driftRepairs, 1);
  rig.kernel.disturb(InstanceId(20), fought);
  rig.drc->setGroup(rig.spec(2, 101));  // and before a plan builds on it
  rig.settle();
  EXPECT_EQ(rig.home(20), other);
  EXPECT_EQ(rig.drc->plannedHome(InstanceId(10)), fought);
}

// koordinator#3129 on cgroups v2: the set above is narrowed, and every container still "has" what it asked for. What counts is what is granted.
TEST(DrcStories, ASetThatIsCutFromAboveIsSeenAndRepaired) {
  DrcRig rig(flatMachine(4), nullptr, {}, testing::KernelRules::CgroupV2);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet first = rig.home(10);
  rig.kernel.disturbTree(rig.home(20));
  rig.mayOverlap = true;  // made by somebody else
  ASSERT_NE(rig.kernel.observe(InstanceId(10))->effective, first);
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.kernel.observe(InstanceId(10))->effective, first);
  EXPECT_EQ(rig.drc->explainGroup(GroupId(1))->counters.driftRepairs, 1);
}

TEST(DrcStories, DriftIsRepairedBeforeTheNextPlanBuildsOnIt) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet first = rig.home(10);
  rig.kernel.disturb(InstanceId(10), CpuSet::range(0, 3) - first);
  rig.mayOverlap = true;
  rig.drc->setGroup(rig.spec(2, 101));
  rig.settle();
  EXPECT_EQ(rig.home(10), first);
}

// kubernetes#140989: after a restart a pod on CPUs 1-2 must stay on 1-2. #113130: whatever the order in which things come back.
TEST(DrcStories, AfterARestartEveryoneHasTheHomeItHadWhateverTheOrder) {
  MemoryHomeJournal journal;
  std::map<int, CpuSet> before;
  {
    DrcRig rig(8, &journal);
    for (const int group : {1, 2, 3}) rig.add(group, group * 10);
    rig.settle();
    rig.ended(20);  // a history that no fresh plan would repeat
    rig.settle();
    rig.add(4, 40);
    rig.settle();
    rig.drc->setGroup(rig.spec(3, 300));
    rig.settle();
    for (const int group : {1, 3, 4}) before[group] = rig.home(group * 10);
  }
  for (const std::vector<int>& order : {std::vector{1, 3, 4}, std::vector{4, 3, 1}, std::vector{3, 1, 4}}) {
    DrcRig rig(8, &journal);
    for (const int group : order) {
      rig.drc->setGroup(rig.spec(group, group == 3 ? 300 : 100));
      rig.starting(group, group * 10 + 1);
    }
    rig.settle();
    for (auto group = order.rbegin(); group != order.rend(); ++group) {  // ready one by one, in another order
      rig.ready(*group, *group * 10 + 1);
      rig.loop.advance(300ms);
    }
    for (const int group : order) EXPECT_EQ(rig.home(group * 10 + 1), before[group]) << "group " << group;
    EXPECT_TRUE(rig.breaches.empty());
  }
}

TEST(DrcStories, LosingTheJournalCostsOnlyLocality) {
  DrcRig rig(4);
  for (const int group : {1, 2}) {
    rig.drc->setGroup(rig.spec(group));
    rig.starting(group, group * 10);
  }
  rig.settle();
  rig.ready(1, 10);
  rig.ready(2, 20);
  rig.settle();
  EXPECT_EQ(rig.home(10).count() + rig.home(20).count(), 4);
}

TEST(DrcStories, AHintThatSomebodyHasNowIsNotTaken) {
  MemoryHomeJournal journal;
  journal.save(
      {{{"ns", "service1"}, 0, CpuSet{0, 1}, false}, {{"ns", "service2"}, 0, CpuSet{1, 2}, false}, {{"ns", "service3"}, 0, CpuSet{90}, false}});
  DrcRig rig(4, &journal);
  for (const int group : {1, 2, 3}) rig.add(group, group * 10);
  rig.settle();
  EXPECT_TRUE(rig.breaches.empty());
  EXPECT_FALSE(rig.home(30).contains(90));
  EXPECT_EQ((rig.home(10) | rig.home(20) | rig.home(30)).count(), 4);
}

// kubernetes#71622, #98121, #67500; nri-plugins#92: CPUs that go and come.
TEST(DrcStories, CpusThatGoOfflineAreLeftAndTakenBackWhenTheyReturn) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const Machine whole = *rig.machine.read();
  const CpuSet left = CpuSet::range(0, 2);
  rig.kernel.setOnline(left);
  rig.machine.set(testing::withOnline(whole, left, left));
  rig.loop.advance(1100ms);
  EXPECT_EQ((rig.home(10) | rig.home(20)), left);
  EXPECT_TRUE(rig.breaches.empty());
  rig.kernel.setOnline(whole.online);  // cgroup v1 does not give it back by itself
  rig.machine.set(whole);
  rig.loop.advance(1100ms);
  EXPECT_EQ((rig.home(10) | rig.home(20)), whole.online);
  EXPECT_TRUE(rig.breaches.empty());
}

TEST(DrcStories, AContainerWhoseWholeHomeWentOfflineIsPlacedAgain) {
  DrcRig rig(2);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const Machine whole = *rig.machine.read();
  const CpuSet left = rig.home(20);
  rig.kernel.setOnline(left);
  rig.machine.set(testing::withOnline(whole, left, left));
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.home(10), left) << "both share what is left";
  EXPECT_EQ(rig.home(20), left);
  EXPECT_EQ(rig.allowed(10).ownLanes, 1);
}

// kubernetes#124066, #140495: a reserved CPU is never handed out, even under pressure.
TEST(DrcStories, ReservedCpusAreNeverHandedOut) {
  DrcConfig config;
  config.reserved = CpuSet{0};
  DrcRig rig(4, nullptr, config);
  for (int group = 1; group <= 6; ++group) rig.add(group, group * 10);
  rig.settle();
  for (int group = 1; group <= 6; ++group) {
    EXPECT_FALSE(rig.home(group * 10).contains(0));
    EXPECT_FALSE(rig.home(group * 10).empty()) << "kubernetes: zero-request groups still get a CPU";
  }
  EXPECT_EQ(rig.kernel.system(), CpuSet{0});
}

// kubernetes#105114, #107906: what a removed group's container still holds is not given away.
TEST(DrcStories, ARemovedGroupKeepsItsCpusUntilItsContainersHaveEnded) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  rig.drc->removeGroup(GroupId(2));
  rig.settle();
  EXPECT_FALSE(rig.home(10).intersects(rig.home(20)));
  rig.ended(20);
  rig.settle();
  EXPECT_EQ(rig.home(10).count(), 4);
  EXPECT_FALSE(rig.drc->explainGroup(GroupId(2)).has_value());
}

// k#89949, nri-plugins#727: a container is known by its id. The end of the old instance comes late, when the new one runs: under the peers' rule, by
// name, it took the new one's CPUs along.
TEST(DrcStories, TheLateEndOfAnOldInstanceTakesNothingFromTheNewOne) {
  enum class KnownBy : std::uint8_t { Id, Name };
  const auto homeOfTheNew = [](KnownBy known) {
    DrcRig rig(4);
    rig.add(1, 10);
    rig.add(2, 20);
    rig.settle();
    rig.ready(1, 11);  // the same container, begun anew: two are there
    rig.settle();
    rig.ended(known == KnownBy::Id ? 10 : 11);
    rig.settle();
    return rig.drc->plannedHome(InstanceId(11));
  };
  EXPECT_EQ(homeOfTheNew(KnownBy::Id).count(), 2);
  EXPECT_TRUE(homeOfTheNew(KnownBy::Name).empty());
}

// k#105114, #107906 for a pod whose init ends late, as the agent sees it: what the init held is its app's, and nobody's twice.
TEST(DrcStories, AnInitsCpusAreItsAppsWhenItHasGone) {
  DrcRig rig(4);
  GroupSpec pod = rig.spec(1);
  pod.floor = MilliCpu(1000);
  pod.ceiling = MilliCpu(1000);
  rig.drc->setGroup(pod);
  rig.drc->instanceStarting(GroupId(1), InstanceId(10), {}, {ContainerRole::Init, MilliCpu(2000)});
  rig.ready(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet large = rig.home(10);
  EXPECT_EQ(large.count(), 2);
  rig.ready(1, 11);
  rig.settle();
  EXPECT_EQ(rig.home(11), large);
  rig.ended(10);
  rig.settle();
  EXPECT_EQ(rig.home(11).count(), 1);
  EXPECT_TRUE(rig.home(11).isSubsetOf(large));
  EXPECT_EQ((rig.home(11) | rig.home(20)).count(), 4) << "what only the init needed is given back";
  EXPECT_TRUE(rig.breaches.empty());
}

TEST(DrcStories, AReplacementInTheSameTurnMovesNobodyElse) {
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet first = rig.home(10);
  const CpuSet second = rig.home(20);
  rig.ended(20);
  rig.starting(2, 21);
  rig.settle();
  EXPECT_EQ(rig.home(10), first);
  EXPECT_EQ(rig.drc->plannedHome(InstanceId(21)), second);
  rig.ready(2, 21);
  rig.settle();
  EXPECT_EQ(rig.home(21), second);
}

// A pod of a hundred containers that starts, or a rollout: each event alone would be a plan, a hundred plans a hundred moves.
TEST(DrcStories, ABurstOfAHundredEventsCostsAtMostTwoPlansAndALoneOneActsAtOnce) {
  for (const Millis apart : {Millis(0), Millis(1)}) {
    for (const bool slow : {false, true}) {  // the writes of the first plan outlast the burst
      DrcRig rig(flatMachine(8), nullptr, {}, testing::KernelRules::CgroupV1, Bursts::AsInTheProduct);
      rig.add(1, 1);
      rig.loop.advance(Seconds(1));
      const auto plans = [&] { return rig.drc->view().plans; };
      std::int64_t before = plans();
      rig.add(2, 2);
      rig.settle();
      EXPECT_EQ(plans(), before + 1) << "a lone event acts in its own turn of the loop";
      EXPECT_EQ(rig.home(2).count(), 4);
      rig.loop.advance(Seconds(1));
      before = plans();
      if (slow) rig.kernel.hang(InstanceId(1), CpuChangeKind::HomeCpus);
      for (int event = 0; event < 100; ++event) {
        switch (event % 4) {
          case 0: rig.add(3 + event / 4, 3 + event / 4); break;
          case 1: rig.drc->setGroup(rig.spec(1, 100 + event)); break;
          case 2: rig.drc->setGroup(rig.spec(2, 300 + event)); break;
          default: rig.ended(3 + event / 4); break;
        }
        rig.settle();
        rig.loop.advance(apart);
      }
      rig.kernel.heal();
      if (slow) rig.applier.release();
      rig.loop.advance(Millis(99));
      EXPECT_LE(plans(), before + 2) << apart.count() << " ms apart";
      EXPECT_TRUE(slow || rig.drc->settled());
      rig.loop.advance(Seconds(3));
      EXPECT_TRUE(rig.drc->settled());
      EXPECT_EQ(rig.home(1) | rig.home(2), CpuSet::range(0, 7)) << "the last event's word holds";
      EXPECT_GT(rig.home(2).count(), rig.home(1).count());
      EXPECT_TRUE(rig.breaches.empty());
    }
  }
}

// Events that never pause are not put off for ever.
TEST(DrcStories, EventsWithoutEndActATenthOfASecondLaterAtMost) {
  DrcRig rig(flatMachine(8), nullptr, {}, testing::KernelRules::CgroupV1, Bursts::AsInTheProduct);
  rig.add(1, 1);
  rig.add(2, 2);
  rig.loop.advance(Seconds(1));
  const std::int64_t before = rig.drc->view().plans;
  for (int event = 0; event < 1000; ++event) {
    rig.drc->setGroup(rig.spec(1, 100 + event));
    rig.loop.advance(Millis(1));
  }
  EXPECT_GE(rig.drc->view().plans, before + 9);
  EXPECT_LE(rig.drc->view().plans, before + 12);
}

// Found by the random histories: parked on its own home, which it could not leave, a group's loan lanes were taken to be on the other's CPU.
TEST(DrcStories, NobodyBorrowsACpuThatItsOwnHomeHasNotLeft) {
  DrcRig rig(2);
  rig.add(1, 10, 2, 1);
  rig.settle();
  rig.kernel.fail(InstanceId(10), CpuChangeKind::HomeCpus, EIO);
  rig.queue(1, 50, 20ms);
  rig.add(2, 20, 2, 1);
  for (int second = 0; second < 3; ++second) {
    rig.loop.advance(1s);
    EXPECT_EQ(rig.loans(10), (CpuSet{0, 1})) << "parked";
    EXPECT_EQ(rig.allowed(10).loanLanes, 0);
  }
  rig.kernel.heal();
  rig.loop.advance(1100ms);
  EXPECT_EQ(rig.loans(10), rig.home(20));
  EXPECT_EQ(rig.allowed(10).loanLanes, 1);
}

// Found by cutting plans at every step: a killed agent's successor put everybody back to where the journal said, across each other.
TEST(DrcStories, AnAgentThatFindsWhatAnotherLeftGoesOnFromThere) {
  MemoryHomeJournal journal;
  journal.save({{{"ns", "service1"}, 0, CpuSet{2, 3}, false}, {{"ns", "service2"}, 0, CpuSet{0, 1}, false}});
  DrcRig rig(4);
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  const CpuSet first = rig.home(10);
  ASSERT_EQ(first, (CpuSet{0, 1})) << "not as in the journal";
  static_cast<void>(rig.kernel.takeOperations());
  rig.restart(ManualApplier::InFlight::Lost, journal, {rig.spec(1), rig.spec(2)});
  rig.loop.advance(2s);
  EXPECT_EQ(rig.home(10), first);
  EXPECT_TRUE(rig.kernel.takeOperations().empty());
  EXPECT_TRUE(rig.breaches.empty());
}

// Found by cutting plans at every step: two writes of the set above all containers, of which the first hung, were under way at once.
TEST(DrcStories, TheSetAboveAllHasOneWriter) {
  DrcRig rig(4);
  const Machine whole = *rig.machine.read();
  rig.add(1, 10);
  rig.add(2, 20);
  rig.settle();
  rig.kernel.setOnline(CpuSet::range(0, 2));
  rig.machine.set(testing::withOnline(whole, CpuSet::range(0, 2), CpuSet::range(0, 2)));
  rig.loop.advance(1100ms);
  rig.kernel.hang({}, CpuChangeKind::AncestorCpus);
  rig.kernel.setOnline(whole.online);
  rig.machine.set(whole);
  rig.loop.advance(1100ms);
  rig.kernel.heal();
  static_cast<void>(rig.kernel.takeOperations());
  rig.add(3, 30);
  rig.loop.advance(3s);
  for (const std::string& operation : rig.kernel.takeOperations()) EXPECT_FALSE(operation.starts_with("tree")) << operation;
  rig.applier.release(EINTR);
  rig.loop.advance(2100ms);
  EXPECT_TRUE(rig.drc->settled());
  EXPECT_EQ((rig.home(10) | rig.home(20) | rig.home(30)), whole.online);
  EXPECT_TRUE(rig.breaches.empty());
}

// Found by the random histories: a second worker came with a hint of the time when its service was in the pool, and the pool's members walked onto
// the CPUs that the first one owned.
TEST(DrcStories, AHintOfTheTimeInThePoolMakesNoMemberOfAnOwner) {
  MemoryHomeJournal journal;
  journal.save({{{"ns", "service1"}, 1, CpuSet{3}, true}});
  DrcRig rig(4, &journal);
  for (const auto& [id, weight] : {std::pair{1, 100}, std::pair{2, 10}, std::pair{3, 10}}) {
    rig.drc->setGroup(rig.spec(id, weight));
    rig.ready(id, id * 10);
  }
  rig.settle();
  ASSERT_EQ(rig.home(20), CpuSet{3});
  ASSERT_EQ(rig.home(30), CpuSet{3});
  ASSERT_FALSE(rig.drc->shareOf(GroupId(1))->inPool);
  rig.starting(1, 11);
  EXPECT_FALSE(rig.drc->shareOf(GroupId(1))->inPool);
  rig.ready(1, 11);
  rig.settle();
  EXPECT_TRUE(rig.breaches.empty());
}

}  // namespace
}  // namespace coterie::agent
