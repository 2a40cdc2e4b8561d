// Loans between other people's servers: who gets what, when it ends, and what never happens.
#include "foreign/lending.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "base/rng.h"

namespace coterie::foreign {
namespace {

using namespace std::chrono_literals;

Use using_(std::int64_t used, std::int64_t wanted) { return {1s, MilliCpu(used), MilliCpu(wanted), 8, 4}; }

LendingGroup group(int id, const CpuSet& home, std::int64_t used) {
  LendingGroup made;
  made.tenant = TenantId(id);
  made.window = made.last = using_(used, used);
  made.containers = {{InstanceId(id), home}};
  return made;
}

using Groups = std::map<std::size_t, LendingGroup>;

struct Story {
  Lending lending;
  Groups groups;
  Instant now{100s};
  CpuSet loans(int id) {
    const auto found = lending.loans().find(InstanceId(id));
    return found == lending.loans().end() ? CpuSet{} : found->second;
  }
  void look(Nanos later = 100ms) {
    now += later;
    static_cast<void>(lending.look(now, groups));
  }
  // Long enough for a need to count.
  void settle() {
    look();
    look(1s);
  }
  void uses(std::size_t number, std::int64_t used) { groups[number].last = groups[number].window = using_(used, used); }
};

TEST(LendingTest, ABusyGroupGetsWhatAnIdleOneWouldNotUse) {
  Story story;
  story.groups = {{0, group(1, CpuSet{0, 1}, 2000)}, {1, group(2, CpuSet{2, 3}, 0)}};
  story.look();
  EXPECT_TRUE(story.loans(1).empty()) << "a need must last a second";
  story.look(900ms);
  EXPECT_TRUE(story.loans(1).empty());
  story.look(100ms);
  EXPECT_EQ(story.loans(1), (CpuSet{2, 3}));
  EXPECT_TRUE(story.loans(2).empty());
}

TEST(LendingTest, TheOwnerTakesBackAtTheNextLook) {
  Story story;
  story.groups = {{0, group(1, CpuSet{0, 1}, 2000)}, {1, group(2, CpuSet{2, 3}, 0)}};
  story.settle();
  ASSERT_EQ(story.loans(1).count(), 2);
  story.uses(0, 4000);
  story.look();
  EXPECT_EQ(story.loans(1).count(), 2) << "it uses them";
  story.groups[1].last = using_(400, 800);  // awake, and half of the time it waits: it would use 800
  story.look();
  EXPECT_EQ(story.loans(1), (CpuSet{3})) << "the loan that was made first stays";
  story.groups[1].last = using_(900, 1500);
  story.look();
  EXPECT_TRUE(story.loans(1).empty());
  story.groups[1].last = using_(0, 0);
  story.groups[1].window = using_(700, 1000);
  story.look(5s);
  EXPECT_TRUE(story.loans(1).empty()) << "idle now, but not of late";
}

TEST(LendingTest, WhoNeedsNoMoreGivesBack) {
  Story story;
  story.groups = {{0, group(1, CpuSet{0, 1}, 2000)}, {1, group(2, CpuSet{2, 3}, 0)}};
  story.settle();
  story.uses(0, 1500);
  story.look();
  EXPECT_TRUE(story.loans(1).empty());
  story.uses(0, 2000);
  story.look(500ms);
  EXPECT_TRUE(story.loans(1).empty()) << "a new need begins";
}

TEST(LendingTest, WhatIsNotLent) {
  struct Case {
    const char* name;
    void (*change)(Groups&);
    int lent;
  };
  for (const Case& one :
       {Case{"nothing changed", [](Groups&) {}, 2},
        {"the owner never lends", [](Groups& groups) { groups[1].lends = false; }, 0},
        {"the owner is isolated", [](Groups& groups) { groups[1].isolation = Isolation::Core; }, 0},
        {"the borrower is isolated", [](Groups& groups) { groups[0].isolation = Isolation::Core; }, 0},
        {"isolated, of one tenant", [](Groups& groups) { groups[0].isolation = Isolation::Core, groups[1].tenant = TenantId(1); }, 2},
        {"the owner is in the pool", [](Groups& groups) { groups[1].apart = true; }, 0},
        {"the borrower is in the pool", [](Groups& groups) { groups[0].apart = true; }, 0},
        {"the owner uses a little", [](Groups& groups) { groups[1].last = groups[1].window = using_(500, 500); }, 1},
        {"the owner was not seen yet", [](Groups& groups) { groups[1].last = {}; }, 0},
        {"the ceiling", [](Groups& groups) { groups[0].ceiling = MilliCpu(3000); }, 1},
        {"the ceiling is reached", [](Groups& groups) { groups[0].ceiling = MilliCpu(2000); }, 0}}) {
    Story story;
    story.groups = {{0, group(1, CpuSet{0, 1}, 2000)}, {1, group(2, CpuSet{2, 3}, 0)}};
    one.change(story.groups);
    story.settle();
    EXPECT_EQ(story.loans(1).count(), one.lent) << one.name;
  }
}

TEST(LendingTest, SeveralBorrowersShareAndContainersToo) {
  Story story;
  story.groups = {{0, group(1, CpuSet{0}, 1000)}, {1, group(2, CpuSet{1}, 1000)}, {2, group(3, CpuSet::range(2, 5), 0)}};
  story.groups[0].containers.push_back({InstanceId(11), CpuSet{6}});
  story.uses(0, 2000);
  story.settle();
  EXPECT_EQ(story.loans(1).count() + story.loans(11).count(), 2);
  EXPECT_EQ(story.loans(1).count(), 1);
  EXPECT_EQ(story.loans(2).count(), 1);
  EXPECT_FALSE(story.loans(2).intersects(story.loans(1) | story.loans(11)));
}

TEST(LendingTest, WhoGoesTakesHisLoansAlong) {
  Story story;
  story.groups = {{0, group(1, CpuSet{0, 1}, 2000)}, {1, group(2, CpuSet{2, 3}, 0)}};
  story.settle();
  story.groups[1].containers[0].home = CpuSet{3};  // a new plan: 2 is somebody else's
  story.look();
  EXPECT_EQ(story.loans(1), (CpuSet{3}));
  story.groups.erase(1);
  story.look();
  EXPECT_TRUE(story.lending.loans().empty());
}

TEST(LendingTest, WhateverHappensEachCpuIsLentOnceByWhoCanSpareIt) {
  Rng rng(11);
  Story story;
  for (int step = 0; step < 20'000; ++step) {
    if (rng.between(0, 20) == 0 || story.groups.empty()) {
      story.groups.clear();
      int cpu = 0;
      for (int g = 0; g < rng.between(1, 5); ++g) {
        const int count = static_cast<int>(rng.between(1, 4));
        story.groups[static_cast<std::size_t>(g)] = group(g + 1, CpuSet::range(cpu, cpu + count - 1), 0);
        story.groups[static_cast<std::size_t>(g)].isolation = rng.between(0, 4) == 0 ? Isolation::Core : Isolation::None;
        cpu += count;
      }
    }
    for (auto& [number, one] : story.groups) {
      const std::int64_t used = rng.between(0, 1) == 0 ? 0 : rng.between(0, 6000);
      one.last = using_(used, used + rng.between(0, 1) * rng.between(0, 3000));
      if (rng.between(0, 3) == 0) one.window = one.last;
    }
    story.look(Millis(rng.between(50, 1500)));
    CpuSet lent;
    std::map<std::size_t, int> ofOwner;
    for (const auto& [id, cpus] : story.lending.loans()) {
      EXPECT_FALSE(lent.intersects(cpus)) << "step " << step;
      lent |= cpus;
      const auto borrower = static_cast<std::size_t>(id.value - 1);
      for (const int cpu : cpus) {
        const auto owner =
            std::find_if(story.groups.begin(), story.groups.end(), [&](const auto& entry) { return entry.second.containers[0].home.contains(cpu); });
        ASSERT_NE(owner, story.groups.end()) << "step " << step;
        EXPECT_NE(owner->first, borrower);
        EXPECT_EQ(owner->second.isolation, Isolation::None);
        EXPECT_EQ(story.groups.at(borrower).isolation, Isolation::None);
        ++ofOwner[owner->first];
      }
    }
    for (const auto& [number, count] : ofOwner) {
      const LendingGroup& owner = story.groups.at(number);
      EXPECT_LE(owner.last.used.value * 6 / 5 + 1000 * count, 1000 * owner.containers[0].home.count()) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace coterie::foreign
