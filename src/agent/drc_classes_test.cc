// Cache classes as the controller keeps them: who asks for isolation has ways of its own, the threads are in their class, and what the kernel lacks
// or others do to it is said and lived with.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/drc_rig.h"
#include "base/rng.h"

namespace coterie::agent {
namespace {

using namespace std::chrono_literals;

const Machine kOneCache = testing::regularMachine("one", {1, 1, 1, 8, 1});    // CPUs 0-7
const Machine kTwoNodes = testing::regularMachine("nodes", {2, 1, 1, 4, 1});  // CPUs 0-3, 4-7

CacheControl oneCache() {
  CacheControl control = testing::twoCaches();
  control.caches = {{0, CpuSet::range(0, 7), 0xfff}};
  return control;
}

class DrcClasses : public ::testing::Test {
 protected:
  void use(const Machine& machine, const CacheControl& control, CacheClassMode mode = CacheClassMode::Auto) {
    use(machine, std::make_unique<testing::FakeCacheClasses>(control), mode);
  }
  void use(const Machine& machine, std::unique_ptr<testing::FakeCacheClasses> classes, CacheClassMode mode = CacheClassMode::Auto) {
    DrcConfig config;
    config.cacheClasses = mode;
    rig.emplace(machine, nullptr, config);
    rig->useClasses(std::move(classes));
  }
  // A group of a tenant of its own, with one instance: 10 times its number.
  void add(int id, Isolation isolation = Isolation::None, std::int64_t ceiling = 4000) {
    GroupSpec group = rig->spec(id);
    group.isolation = isolation;
    group.ceiling = MilliCpu(ceiling);
    rig->drc->setGroup(group);
    rig->ready(id, id * 10, 8);
    rig->settle();
  }
  [[nodiscard]] testing::FakeCacheClasses& kernel() { return *rig->classes; }
  [[nodiscard]] std::string classOf(int instance) { return kernel().classOf(rig->processes.at(InstanceId(instance)).pid); }
  [[nodiscard]] CacheWays waysOf(const std::string& name, int cache = 0) {
    const auto shares = kernel().shares(name);
    return shares && shares->count(cache) > 0 ? shares->at(cache).ways : 0;
  }
  [[nodiscard]] std::vector<std::string> conditions() { return rig->drc->view().classes.conditions; }
  [[nodiscard]] bool says(const std::string& words) {
    const auto all = conditions();
    return std::any_of(all.begin(), all.end(), [&](const std::string& one) { return one.find(words) != std::string::npos; });
  }
  void TearDown() override { EXPECT_TRUE(rig->breaches.empty()) << rig->breaches.front(); }

  std::optional<DrcRig> rig;
};

TEST_F(DrcClasses, WhoIsIsolatedHasWaysOfItsOwnByItsCpusAndTheOthersShare) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2, Isolation::None, 3000);
  add(3, Isolation::None, 3000);
  ASSERT_EQ(rig->home(10).count(), 2);
  EXPECT_EQ(classOf(10), "t1");
  EXPECT_EQ(classOf(20), "rest");
  EXPECT_EQ(classOf(30), "rest");
  EXPECT_EQ(waysOf("t1") & waysOf("rest"), 0U);
  EXPECT_EQ(waysOf("t1") | waysOf("rest"), 0xfffU);
  EXPECT_EQ(std::popcount(waysOf("t1")), 3) << "two of eight CPUs";
  EXPECT_TRUE(conditions().empty());
  EXPECT_EQ(rig->drc->explainGroup(GroupId(1))->cacheClass, "its tenant has a cache class of its own: cache 0, 3 ways, bandwidth of a core 100 %");
  EXPECT_NE(rig->drc->explainGroup(GroupId(2))->cacheClass.find("shares a cache class with all"), std::string::npos);
}

TEST_F(DrcClasses, WaysFollowTheCpusAndGoWhenTheLastThatAskedHasGone) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2, Isolation::None, 6000);
  const CacheWays before = waysOf("t1");
  GroupSpec grown = rig->spec(1);
  grown.isolation = Isolation::Core;
  grown.ceiling = MilliCpu(4000);
  rig->drc->setGroup(grown);
  rig->settle();
  ASSERT_EQ(rig->home(10).count(), 4);
  EXPECT_EQ(std::popcount(waysOf("t1")), 6);
  EXPECT_NE(waysOf("t1"), before);
  rig->ended(10);
  rig->drc->removeGroup(GroupId(1));
  rig->settle();
  EXPECT_TRUE(kernel().list().empty());
  EXPECT_EQ(classOf(20), "") << "nobody asks: the kernel's default";
}

TEST_F(DrcClasses, WhereNobodyAsksNothingIsWrittenAndNothingSaid) {
  use(kOneCache, std::make_unique<testing::FakeCacheClasses>(Error{Code::Unavailable, "NoCacheClasses", "no classes here"}));
  add(1);
  add(2);
  rig->loop.advance(5s);
  EXPECT_TRUE(conditions().empty());
  EXPECT_FALSE(rig->drc->view().classes.ways);
  use(kOneCache, oneCache());
  add(1);
  add(2);
  rig->loop.advance(5s);
  EXPECT_EQ(kernel().writes + kernel().joins, 0);
  EXPECT_EQ(kernel().readings, 1);
  EXPECT_TRUE(rig->drc->view().classes.ways) << "it could be had";
  EXPECT_EQ(rig->drc->view().classes.othersBandwidth, 50);
}

TEST_F(DrcClasses, WhatTheKernelLacksIsACondition) {
  use(kOneCache, std::make_unique<testing::FakeCacheClasses>(Error{Code::Unavailable, "NoCacheClasses", "no classes here"}));
  add(1, Isolation::Core, 2000);
  add(2);
  rig->loop.advance(5s);
  EXPECT_EQ(conditions(), std::vector<std::string>{"no classes here"});
  EXPECT_EQ(kernel().writes, 0);
  EXPECT_EQ(rig->drc->explainGroup(GroupId(1))->cacheClass, "");
  EXPECT_FALSE(rig->home(10).empty()) << "it serves all the same";
}

TEST_F(DrcClasses, AllGivesEveryTenantItsOwnAndOffNone) {
  use(kOneCache, oneCache(), CacheClassMode::All);
  add(1, Isolation::None, 3000);
  add(2, Isolation::None, 5000);
  EXPECT_EQ(classOf(10), "t1");
  EXPECT_EQ(classOf(20), "t2");
  use(kOneCache, oneCache(), CacheClassMode::Off);
  add(1, Isolation::Core, 2000);
  add(2);
  EXPECT_EQ(kernel().readings + kernel().writes + kernel().joins, 0);
}

TEST_F(DrcClasses, PoolMembersAreWithTheRest) {
  use(kOneCache, oneCache(), CacheClassMode::All);
  for (const int id : {1, 2}) add(id, Isolation::None, 500);
  add(3, Isolation::None, 4000);
  EXPECT_EQ(classOf(10), "rest");
  EXPECT_EQ(classOf(20), "rest");
  EXPECT_EQ(classOf(30), "t3");
}

TEST_F(DrcClasses, BandwidthIsHeldWhereANodesTenantAsks) {
  use(kTwoNodes, testing::twoCaches());
  add(1, Isolation::Node);
  add(2);
  const CpuSet mine = rig->home(10);
  ASSERT_EQ(mine.count(), 4);
  const int here = mine.contains(0) ? 0 : 1;
  EXPECT_EQ(kernel().shares("t1")->at(here).bandwidth, 100);
  EXPECT_EQ(kernel().shares("rest")->at(here).bandwidth, 50) << "whoever comes to its memory";
  EXPECT_EQ(kernel().shares("rest")->at(1 - here).bandwidth, 100);
  EXPECT_EQ(waysOf("t1", here), 0xfffU);
}

TEST_F(DrcClasses, OutOfClassesTheTenantsShareAndThatIsSaid) {
  CacheControl control = oneCache();
  control.classes = 2;
  use(kOneCache, control);
  for (const int id : {1, 2, 3}) add(id, Isolation::Core, 2000);
  EXPECT_EQ(classOf(10), "t1");
  EXPECT_EQ(classOf(20), "rest");
  EXPECT_EQ(classOf(30), "rest");
  EXPECT_TRUE(says("2 tenants share the cache with all others: the kernel has classes for 2")) << conditions().front();
}

TEST_F(DrcClasses, ClassesThatOthersTookMeanwhileAreDoneWithout) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2, Isolation::Core, 2000);
  add(3);
  ASSERT_EQ(kernel().list().size(), 3U);
  rig->ended(20);
  rig->drc->removeGroup(GroupId(2));
  rig->settle();
  kernel().takenByOthers(4711);
  add(4, Isolation::Core, 2000);
  EXPECT_EQ(classOf(10), "t1");
  EXPECT_EQ(classOf(40), "rest");
  EXPECT_TRUE(says("1 tenant shares the cache"));
}

TEST_F(DrcClasses, WhatIsRefusedIsSaidAndTriedAgainAfterAMinute) {
  use(kOneCache, oneCache());
  kernel().refusal = Error{Code::PermissionDenied, "ClassesNotWritable", "cache classes cannot be written here"};
  add(1, Isolation::Core, 2000);
  add(2);
  EXPECT_EQ(conditions(), std::vector<std::string>{"cache classes cannot be written here"});
  EXPECT_EQ(classOf(10), "");
  const int tried = kernel().writes;
  rig->loop.advance(30s);
  EXPECT_EQ(kernel().writes, tried);
  kernel().refusal.reset();
  rig->loop.advance(40s);
  EXPECT_EQ(classOf(10), "t1");
  EXPECT_TRUE(conditions().empty());
}

TEST_F(DrcClasses, SomebodyElsesWriteIsPutRightWithinASecondAndAFightIsNotFought) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2);
  const CacheWays mine = waysOf("t1");
  kernel().overwrite("t1", 0, {0x003, 100});
  rig->loop.advance(1s);
  EXPECT_EQ(waysOf("t1"), mine);
  kernel().remove("t1");
  rig->loop.advance(1s);
  EXPECT_EQ(waysOf("t1"), mine);
  EXPECT_EQ(classOf(10), "t1") << "and its threads are back in it";
  for (int i = 0; i < 10; ++i) {
    kernel().overwrite("t1", 0, {0x003, 100});
    rig->loop.advance(1s);
  }
  EXPECT_EQ(waysOf("t1"), 0x003U);
  EXPECT_TRUE(says("somebody else keeps writing"));
}

TEST_F(DrcClasses, ProcessesThatCameLaterAreMovedAndThoseOfOthersClassesStay) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2);
  kernel().takenByOthers(901);
  rig->moreProcesses[InstanceId(10)] = {900, 901};
  rig->loop.advance(1s);
  EXPECT_EQ(kernel().classOf(900), "t1");
  EXPECT_EQ(kernel().classOf(901), "");
  EXPECT_TRUE(says("in classes of somebody else's"));
}

TEST_F(DrcClasses, CpusThatGoOfflineAreAnotherMachine) {
  use(kTwoNodes, testing::twoCaches());
  add(1, Isolation::Core, 2000);
  add(2, Isolation::None, 6000);
  Machine half = testing::regularMachine("half", {1, 1, 1, 4, 1});
  CacheControl control = testing::twoCaches();
  control.caches.pop_back();
  kernel().setControl(control);
  rig->machine.set(half);
  rig->kernel.setOnline(half.online);
  rig->loop.advance(2s);
  EXPECT_EQ(waysOf("t1") | waysOf("rest"), 0xfffU);
  EXPECT_EQ(waysOf("t1") & waysOf("rest"), 0U);
  EXPECT_TRUE(conditions().empty()) << conditions().front();
}

// Tenants come, go, change their mind and are disturbed; a moment later everybody is where it should be.
TEST_F(DrcClasses, AfterAnyHistoryEverybodyIsInItsClassAndWaysAreNobodyElses) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const bool two = rng.chance(50);
    use(two ? kTwoNodes : kOneCache, two ? testing::twoCaches() : oneCache(), rng.chance(30) ? CacheClassMode::All : CacheClassMode::Auto);
    std::map<int, GroupSpec> groups;
    for (int step = 0; step < 30; ++step) {
      const int id = static_cast<int>(rng.between(1, 5));
      GroupSpec group = rig->spec(id);
      group.isolation = rng.chance(50) ? Isolation::Core : Isolation::None;
      group.ceiling = MilliCpu(rng.between(1, 6) * 500);
      if (groups.count(id) > 0 && rng.chance(40)) {
        rig->ended(id * 10);
        rig->drc->removeGroup(GroupId(id));
        groups.erase(id);
      } else {
        rig->drc->setGroup(group);
        if (!groups.emplace(id, group).second) groups[id] = group;
        if (rig->groupOf.count(InstanceId(id * 10)) == 0) rig->ready(id, id * 10, 8);
      }
      rig->settle();
      const auto classes = kernel().list();
      if (classes.empty() || !rng.chance(20)) continue;
      const std::string& victim = classes.front().name;
      rng.chance(50) ? kernel().remove(victim) : kernel().overwrite(victim, 0, {0x003, 100});
      rig->loop.advance(1s);
    }
    rig->loop.advance(2s);
    ASSERT_TRUE(rig->breaches.empty()) << rig->breaches.front();
    std::map<std::string, CpuSet> owned;
    for (const GroupView& group : rig->drc->groups()) {
      if (group.containers.empty() || group.containers.front().home.empty()) continue;
      const int instance = group.containers.front().instance.value;
      const std::string name = classOf(instance);
      owned[name] |= rig->home(instance);
      const bool own = name == "t" + std::to_string(group.spec.tenant.value);
      EXPECT_EQ(name.empty(), kernel().list().empty()) << "seed " << seed;
      EXPECT_TRUE(name.empty() || own || name == "rest") << "seed " << seed << ": " << name;
      EXPECT_FALSE(own && group.inPool) << "seed " << seed;
    }
    for (const auto& [one, cpus] : owned) {
      for (const auto& [other, theirs] : owned) {
        if (one >= other || one.empty()) continue;
        for (const CacheInstance& cache : (two ? testing::twoCaches() : oneCache()).caches) {
          if (!cpus.intersects(cache.cpus) || !theirs.intersects(cache.cpus)) continue;
          EXPECT_EQ(waysOf(one, cache.id) & waysOf(other, cache.id), 0U) << "seed " << seed << ": " << one << ", " << other;
        }
      }
    }
  }
}

TEST_F(DrcClasses, AtTheEndAllAreRemovedAndWhileSwitchedOffNothingIsPutRight) {
  use(kOneCache, oneCache());
  add(1, Isolation::Core, 2000);
  add(2);
  rig->drc->freeze();
  kernel().overwrite("t1", 0, {0x003, 100});
  rig->loop.advance(3s);
  EXPECT_EQ(waysOf("t1"), 0x003U);
  rig->drc->unfreeze();
  rig->loop.advance(2s);
  EXPECT_NE(waysOf("t1"), 0x003U);
  rig->drc->shutDown();
  EXPECT_TRUE(kernel().list().empty());
}

}  // namespace
}  // namespace coterie::agent
