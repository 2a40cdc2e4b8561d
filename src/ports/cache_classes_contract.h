// The contract of CacheClasses as tests: each adapter instantiates them with a kernel of two divisible caches of twelve ways (ids 0 and 1), bandwidth
// in steps of ten percent, and classes for three of ours.
//
//   INSTANTIATE_TEST_SUITE_P(Fake, CacheClassesContract, ::testing::Values(CacheClassesFactory{"fake", makeFake}), cacheClassesName);
#pragma once

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "ports/cache_classes.h"

namespace coterie::contract {

struct CacheClassesHarness {
  std::unique_ptr<CacheClasses> classes;
  int process{0};                                           // lives, has several threads
  int gone{0};                                              // has ended
  std::function<std::set<int>()> threads;                   // of the process, now
  std::function<std::set<int>(const std::string&)> within;  // threads in a class of ours; "": in the default
  std::function<void(int pid)> takenByOthers;               // somebody else puts it into a class of his, which takes one
  std::function<bool(int pid)> isOthers;                    // and there it is
  std::shared_ptr<void> keep;
};
struct CacheClassesFactory {
  std::string name;
  std::function<CacheClassesHarness()> make;
  friend void PrintTo(const CacheClassesFactory& factory, std::ostream* out) { *out << factory.name; }
};
inline std::string cacheClassesName(const ::testing::TestParamInfo<CacheClassesFactory>& info) { return info.param.name; }

class CacheClassesContract : public ::testing::TestWithParam<CacheClassesFactory> {
 protected:
  CacheClasses& classes() { return *harness_.classes; }
  [[nodiscard]] static CacheClass one(const std::string& name, CacheWays zero, CacheWays first, int bandwidth = 100) {
    return {name, {{0, {zero, bandwidth}}, {1, {first, bandwidth}}}};
  }
  [[nodiscard]] bool allIn(const std::string& name) {
    const std::set<int> inside = harness_.within(name);
    const std::set<int> threads = harness_.threads();
    return std::includes(inside.begin(), inside.end(), threads.begin(), threads.end());
  }
  CacheClassesHarness harness_{GetParam().make()};
};

TEST_P(CacheClassesContract, SaysWhatCanBeHad) {
  const auto control = classes().read();
  ASSERT_TRUE(control.ok()) << control.error().message;
  ASSERT_EQ(control->caches.size(), 2U);
  for (const CacheInstance& cache : control->caches) {
    EXPECT_EQ(cache.ways, 0xfffU);
    EXPECT_FALSE(cache.cpus.empty());
  }
  EXPECT_FALSE(control->caches[0].cpus.intersects(control->caches[1].cpus));
  EXPECT_EQ(control->classes, 3);
  EXPECT_EQ(control->leastWays, 2);
  EXPECT_EQ(control->leastBandwidth, 10);
  EXPECT_EQ(control->bandwidthStep, 10);
  EXPECT_TRUE(control->lacks.empty());
}

TEST_P(CacheClassesContract, AClassHasWhatItWasGivenAndIsChangedInPlace) {
  ASSERT_TRUE(classes().set(one("b", 0x03f, 0xfff, 50)).ok());
  ASSERT_TRUE(classes().set(one("a", 0xfc0, 0xc00)).ok());
  EXPECT_EQ(classes().list(), (std::vector<CacheClass>{one("a", 0xfc0, 0xc00), one("b", 0x03f, 0xfff, 50)}));
  ASSERT_TRUE(classes().set({"b", {{0, {0x00f, 0}}}}).ok());
  CacheClass changed = one("b", 0x00f, 0xfff, 50);
  EXPECT_EQ(classes().list()[1], changed) << "what is not named stays";
  EXPECT_EQ(classes().read()->classes, 3) << "ours count as ours";
}

TEST_P(CacheClassesContract, AllThreadsOfAProcessMoveAndGoBackToTheDefault) {
  ASSERT_TRUE(classes().set(one("a", 0x03f, 0x03f)).ok());
  ASSERT_TRUE(classes().set(one("b", 0xfc0, 0xfc0)).ok());
  const auto joined = classes().join("a", {harness_.process, harness_.gone});
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_TRUE(joined->empty());
  EXPECT_TRUE(allIn("a"));
  ASSERT_TRUE(classes().join("b", {harness_.process}).ok());
  EXPECT_TRUE(allIn("b"));
  EXPECT_FALSE(allIn("a"));
  ASSERT_TRUE(classes().join("", {harness_.process, harness_.gone}).ok());
  EXPECT_TRUE(allIn("")) << "it is nobody's any more";
  ASSERT_TRUE(classes().join("b", {harness_.process}).ok());
  classes().remove("b");
  EXPECT_TRUE(allIn(""));
  classes().remove("b");  // unknown: nothing
  EXPECT_EQ(classes().list().size(), 1U);
}

TEST_P(CacheClassesContract, AClassThatIsNotThereIsNotJoined) {
  const auto joined = classes().join("nobody", {harness_.process});
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().reason, "UnknownClass");
}

TEST_P(CacheClassesContract, OutOfClassesIsSaidAndHarmsNobody) {
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(classes().set(one(name, 0x00f, 0x00f)).ok());
  const Status refused = classes().set(one("d", 0x0f0, 0x0f0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::ResourceExhausted);
  EXPECT_EQ(refused.error().reason, "NoClassLeft");
  EXPECT_EQ(classes().list().size(), 3U);
  classes().remove("a");
  EXPECT_TRUE(classes().set(one("d", 0x0f0, 0x0f0)).ok()) << "one is free again";
}

TEST_P(CacheClassesContract, WhatTheKernelRefusesIsSaidAndTheNewClassIsNotThere) {
  for (const CacheWays ways : {CacheWays{0x005}, CacheWays{0x001}, CacheWays{0x1fff}}) {  // holes, too few, beyond the cache
    const Status refused = classes().set(one("a", ways, 0x00f));
    ASSERT_FALSE(refused.ok()) << ways;
    EXPECT_EQ(refused.error().reason, "ClassRefused");
  }
  EXPECT_TRUE(classes().list().empty());
  ASSERT_TRUE(classes().set(one("a", 0x00f, 0x00f)).ok());
  EXPECT_FALSE(classes().set({"a", {{0, {0x0f0, 50}}, {1, {0x005, 50}}}}).ok());
  EXPECT_EQ(classes().list(), std::vector<CacheClass>{one("a", 0x00f, 0x00f)}) << "as a whole or not at all";
}

TEST_P(CacheClassesContract, OfSomebodyElsesClassesNothingIsTaken) {
  harness_.takenByOthers(harness_.process);
  EXPECT_EQ(classes().read()->classes, 2) << "his counts";
  ASSERT_TRUE(classes().set(one("a", 0x00f, 0x00f)).ok());
  const auto joined = classes().join("a", {harness_.process});
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(*joined, std::vector<int>{harness_.process});
  EXPECT_TRUE(harness_.isOthers(harness_.process));
  classes().restore();
  EXPECT_TRUE(classes().list().empty());
  EXPECT_TRUE(harness_.isOthers(harness_.process));
}

}  // namespace coterie::contract
