// Isolation as the controller keeps it: no other tenant in a unit of an isolated group after any write, and who owns whole units neither lends nor
// borrows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "agent/drc_rig.h"
#include "agent/kernel_watch.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

const Machine kFourCores = testing::regularMachine("smt", {1, 1, 1, 4, 2});  // siblings i, i+4
const Machine kTwoCores = testing::regularMachine("smt", {1, 1, 1, 2, 2});   // siblings i, i+2
const Machine kTwoNodes = testing::regularMachine("nodes", {2, 1, 1, 4, 1});

class DrcIsolation : public ::testing::Test {
 protected:
  void use(const Machine& machine, HomeJournal* journal = nullptr) {
    rig.emplace(machine, journal);
    rig->applier.setAfterStep([this] {
      rig->checkHomes();
      // Who was there before may still be leaving; nobody comes.
      const std::set<Trespass> now = trespasses();
      if (!std::includes(known.begin(), known.end(), now.begin(), now.end())) ++entered;
      known = now;
    });
  }
  GroupSpec spec(int id, Isolation isolation, std::int64_t floor = 0, std::int64_t ceiling = 0) {
    GroupSpec group = rig->spec(id);
    group.isolation = isolation;
    group.floor = MilliCpu(floor);
    group.ceiling = MilliCpu(ceiling);
    return group;
  }
  void tell(const GroupSpec& group) { rig->drc->setGroup(group); }
  void add(const GroupSpec& group, int lanes = 8) {
    tell(group);
    rig->ready(group.id.value, group.id.value * 10, lanes);
    rig->settle();
  }
  [[nodiscard]] std::set<Trespass> trespasses() const {
    std::map<GroupId, CpuSet> homes;
    for (const auto& [instance, group] : rig->groupOf) homes[group] |= rig->home(instance.value);
    return trespassesOf(*rig, rig->drc->machine(), homes);
  }
  void TearDown() override {
    EXPECT_EQ(entered, 0) << "somebody entered a unit that is not his";
    EXPECT_TRUE(trespasses().empty());
    EXPECT_TRUE(rig->breaches.empty()) << rig->breaches.front();
  }

  std::optional<DrcRig> rig;
  std::set<Trespass> known;
  int entered{0};
};

TEST_F(DrcIsolation, ANewcomerAtCoreGetsAWholeCoreThatTheOthersLeftBefore) {
  use(kFourCores);
  add(spec(1, Isolation::None));
  ASSERT_EQ(rig->home(10).count(), 8);
  add(spec(2, Isolation::Core, 1000, 1000));
  EXPECT_EQ(rig->home(20).count(), 2) << "a core of two threads for a floor of one CPU";
  EXPECT_EQ(rig->allowed(20).ownLanes, 1) << "its ceiling";
  EXPECT_EQ(rig->home(10).count(), 6);
  const auto view = rig->drc->explainGroup(GroupId(2));
  const auto charged = std::find_if(view->reasons.begin(), view->reasons.end(),
                                    [](const allocation::Reason& reason) { return reason.code == allocation::ReasonCode::IsolationCharged; });
  ASSERT_NE(charged, view->reasons.end());
  EXPECT_EQ(charged->a, 2);
}

TEST_F(DrcIsolation, TheLevelOfARunningServiceIsChangedWithoutEndingIt) {
  use(kTwoNodes);
  add(spec(1, Isolation::None));
  add(spec(2, Isolation::None));
  const auto places = [this] { return std::pair(rig->home(10).count(), rig->home(20).count()); };
  ASSERT_EQ(places(), std::pair(4, 4));
  add(spec(3, Isolation::None, 0, 1000));
  for (const Isolation level : {Isolation::Core, Isolation::Cache, Isolation::Node, Isolation::None, Isolation::Node, Isolation::None}) {
    known = {};
    tell(spec(1, level));
    known = trespasses();
    rig->settle();
    rig->loop.advance(2s);
    EXPECT_TRUE(trespasses().empty()) << isolationName(level);
    EXPECT_FALSE(rig->home(10).empty());
    EXPECT_FALSE(rig->home(20).empty());
    EXPECT_FALSE(rig->home(30).empty());
    if (level == Isolation::Node) {
      EXPECT_EQ(rig->home(10).count(), 4) << "a node";
    }
  }
}

TEST_F(DrcIsolation, WhoseNeighbourCannotLeaveItsCoreStaysOffTheWholeOfIt) {
  use(kTwoCores);
  add(spec(1, Isolation::None, 0, 1000));
  add(spec(2, Isolation::None));
  ASSERT_EQ(rig->home(10).count(), 1);
  ASSERT_EQ(rig->home(20).count(), 3);
  for (const auto& [instance, hangs] : {std::pair(10, true), std::pair(20, true), std::pair(10, false), std::pair(20, false)}) {
    use(kTwoCores);
    known = {};
    add(spec(1, Isolation::None, 0, 1000));
    add(spec(2, Isolation::None));
    rig->kernel.fail(InstanceId(instance), CpuChangeKind::HomeCpus, hangs ? testing::FakeCpuController::kHangs : EIO);
    const CpuSet stuckOn = rig->home(instance);
    tell(spec(3, Isolation::Core, 1000, 2000));
    rig->ready(3, 30, 8);
    for (int i = 0; i < 5; ++i) {
      rig->settle();
      rig->loop.advance(1s);
      EXPECT_TRUE(trespasses().empty()) << "instance " << instance << (hangs ? " hangs on " : " fails on ") << stuckOn.toString()
                                        << ", the newcomer is on " << rig->home(30).toString();
    }
    rig->kernel.heal();
    rig->applier.release();
    for (int i = 0; i < 5; ++i) {
      rig->settle();
      rig->loop.advance(1s);
    }
    EXPECT_EQ(rig->home(30).count(), 2);
    EXPECT_EQ(rig->home(10).count(), 1);
    EXPECT_EQ(rig->home(20).count(), 1);
  }
}

TEST_F(DrcIsolation, ACoreIsNeitherLentNorBorrowedOn) {
  use(kTwoCores);
  add(spec(1, Isolation::Core, 2000, 2000));
  add(spec(2, Isolation::None, 0, 0));
  rig->queue(2, 50, 20ms);
  rig->settle();
  EXPECT_EQ(rig->allowed(20).loanLanes, 0);
  const auto view = rig->drc->explainGroup(GroupId(2));
  const auto refused = std::find_if(view->reasons.begin(), view->reasons.end(),
                                    [](const allocation::Reason& reason) { return reason.code == allocation::ReasonCode::LoanRefusedIsolation; });
  ASSERT_NE(refused, view->reasons.end());
  EXPECT_EQ(refused->other, GroupId(1));
  tell(spec(1, Isolation::None, 2000, 2000));
  rig->settle();
  rig->queue(2, 50, 20ms);
  rig->settle();
  EXPECT_GT(rig->allowed(20).loanLanes, 0) << "lent again as soon as it is not isolated";
}

TEST_F(DrcIsolation, AfterARestartItHasTheUnitsThatItHad) {
  MemoryHomeJournal journal;
  use(kFourCores, &journal);
  add(spec(1, Isolation::None, 1000, 1000));
  add(spec(2, Isolation::Core, 3000, 3000));
  add(spec(3, Isolation::None));
  const std::map<int, CpuSet> before{{10, rig->home(10)}, {20, rig->home(20)}, {30, rig->home(30)}};
  EXPECT_EQ(before.at(20).count(), 4);
  use(kFourCores, &journal);
  known = {};
  tell(spec(1, Isolation::None, 1000, 1000));
  tell(spec(2, Isolation::Core, 3000, 3000));
  tell(spec(3, Isolation::None));
  for (const int id : {3, 2, 1}) rig->starting(id, id * 10);
  for (const int id : {3, 1, 2}) {
    rig->ready(id, id * 10, 8);
    rig->settle();
    EXPECT_TRUE(trespasses().empty());
  }
  for (const auto& [instance, home] : before) EXPECT_EQ(rig->home(instance), home) << instance;
}

TEST_F(DrcIsolation, ANewcomerIsCountedInUnits) {
  use(kTwoCores);
  add(spec(1, Isolation::None, 3000));
  EXPECT_EQ(rig->drc->missingForFloor(spec(2, Isolation::None, 1000)), MilliCpu(0));
  EXPECT_EQ(rig->drc->missingForFloor(spec(2, Isolation::Core)), MilliCpu(1000));
  EXPECT_EQ(rig->drc->missingForFloor(spec(2, Isolation::Node, 1000)), MilliCpu(3000));
  EXPECT_EQ(rig->drc->isolationUnits().sizes.core, 2);
  EXPECT_EQ(rig->drc->isolationUnits().cores, 2);
  EXPECT_EQ(rig->drc->isolationUnits().nodes, 1);
  rig->machine.set(testing::withOnline(kTwoCores, CpuSet{0, 1}, CpuSet{0, 1}));
  rig->kernel.setOnline(CpuSet{0, 1});
  rig->loop.advance(1s);
  EXPECT_EQ(rig->drc->isolationUnits().sizes.core, 1) << "the second threads went offline";
}

TEST_F(DrcIsolation, ServicesOfOneTenantMayStandBesideEachOther) {
  use(kTwoCores);
  add(spec(1, Isolation::None));
  GroupSpec isolated = spec(2, Isolation::Core, 1000, 1000);
  add(isolated);
  GroupSpec sibling = spec(3, Isolation::None, 1000, 1000);
  sibling.tenant = isolated.tenant;
  add(sibling);
  rig->loop.advance(2s);
  for (const int instance : {10, 20, 30}) EXPECT_FALSE(rig->home(instance).empty()) << instance;
}

// A place that was only planned is no claim any more when its group has become isolated meanwhile and another tenant stands in the unit by right.
TEST_F(DrcIsolation, AGroupThatBecomesIsolatedBeforeItWasPlacedWaitsForTheUnit) {
  use(kTwoNodes);
  add(spec(1, Isolation::None));
  add(spec(2, Isolation::None));
  ASSERT_EQ(rig->home(10), CpuSet::range(0, 3));
  rig->kernel.fail(InstanceId(20), CpuChangeKind::HomeCpus, EIO);
  GroupSpec third = spec(3, Isolation::None, 6000);
  add(third);  // what it shall have is left by both, and one of them cannot be written
  ASSERT_TRUE(rig->home(30).empty());
  ASSERT_TRUE(rig->drc->plannedHome(InstanceId(30)).intersects(CpuSet::range(0, 3))) << rig->drc->plannedHome(InstanceId(30)).toString();
  ASSERT_TRUE(rig->home(10).isSubsetOf(CpuSet::range(0, 3)));
  third.isolation = Isolation::Node;
  third.floor = MilliCpu(3000);
  tell(third);
  rig->settle();
  rig->kernel.heal();
  rig->loop.advance(2s);
}

}  // namespace
}  // namespace coterie::agent
