#include "base/cpu_set.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace coterie {
namespace {

TEST(CpuSet, parsesAndPrintsTheKernelListFormat) {
  struct Row {
    const char* in;
    const char* out;
  } rows[] = {{"", ""}, {"0", "0"}, {"0-3,8\n", "0-3,8"}, {"1-1", "1"}, {"5,3,4", "3-5"}, {"1500-1501", "1500-1501"}};
  for (const auto& row : rows) {
    const auto set = CpuSet::parse(row.in);
    ASSERT_TRUE(set.ok()) << row.in;
    EXPECT_EQ(set->toString(), row.out);
  }
}

TEST(CpuSet, refusesWhatIsNotAList) {
  for (const char* bad : {"a", "-1", "3-1", "1,", ",1", "1--2", "1-", "99999999", "0x1", "1 2"}) EXPECT_FALSE(CpuSet::parse(bad).ok()) << bad;
}

TEST(CpuSet, isTheSameInItselfAndBeyond) {
  const CpuSet low{3, 200};
  for (const int id : {CpuSet::kInlineIds - 1, CpuSet::kInlineIds, 4095, CpuSet::kMaxId - 1}) {
    const CpuSet both = low | CpuSet{id};
    EXPECT_EQ(both.count(), 3) << id;
    EXPECT_EQ(both.last(), id) << id;
    EXPECT_EQ(both & low, low) << id;
    EXPECT_EQ(low & both, low) << id;
    EXPECT_EQ(both - low, CpuSet{id}) << id;
    EXPECT_TRUE(low.isSubsetOf(both) && !both.isSubsetOf(low)) << id;
    EXPECT_TRUE(low.intersects(both) && !low.intersects(CpuSet{id})) << id;
    EXPECT_EQ(CpuSet({id, 200}).firstIn(both), 200) << id;
    EXPECT_EQ(low.firstIn(CpuSet{id}), -1) << id;
    CpuSet shrunk = both;
    shrunk.remove(id);
    EXPECT_EQ(shrunk, low) << id;
    shrunk -= low;
    EXPECT_TRUE(shrunk.empty() && shrunk == CpuSet() && shrunk.last() == -1) << id;
    shrunk.clear();
    shrunk.add(id);
    EXPECT_EQ(shrunk, CpuSet{id});
  }
}

RC_GTEST_PROP(CpuSet, agreesWithAStandardSet, (const std::vector<std::uint16_t>& left, const std::vector<std::uint16_t>& right)) {
  std::set<int> a(left.begin(), left.end());
  std::set<int> b(right.begin(), right.end());
  CpuSet x, y;
  for (const int id : a) x.add(id);
  for (const int id : b) y.add(id);
  std::set<int> both, any = a, only = a;
  for (const int id : b) any.insert(id), only.erase(id);
  for (const int id : a)
    if (b.contains(id)) both.insert(id);
  const auto as = [](const std::set<int>& s) { return std::vector<int>(s.begin(), s.end()); };
  RC_ASSERT((x & y).toVector() == as(both));
  RC_ASSERT((x | y).toVector() == as(any));
  RC_ASSERT((x - y).toVector() == as(only));
  RC_ASSERT(x.count() == static_cast<int>(a.size()));
  RC_ASSERT(x.intersects(y) == !both.empty());
  RC_ASSERT(x.intersectionCount(y) == static_cast<int>(both.size()));
  RC_ASSERT(x.firstIn(y) == (both.empty() ? -1 : *both.begin()));
  RC_ASSERT(*CpuSet::parse(x.toString()) == x);
  RC_ASSERT(x.last() == (a.empty() ? -1 : *a.rbegin()));
}

}  // namespace
}  // namespace coterie
