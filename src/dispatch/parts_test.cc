// Index heap, deadline tree, estimates, margin, arrival rate, refusals: each against its naive definition.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "dispatch/deadline_tree.h"
#include "dispatch/estimates.h"
#include "dispatch/index_heap.h"
#include "dispatch/rate.h"
#include "dispatch/request.h"

namespace coterie::dispatch {
namespace {

Instant at(std::int64_t nanos) { return Instant(Nanos(nanos)); }

RC_GTEST_PROP(IndexHeapProperty, TopIsTheLeastUnderAnyChanges, ()) {
  IndexHeap heap;
  std::vector<int> keys(20, 0);
  std::set<IndexHeap::Index> in;
  const auto less = [&](IndexHeap::Index a, IndexHeap::Index b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
  const auto steps = *rc::gen::container<std::vector<std::pair<int, int>>>(rc::gen::pair(rc::gen::inRange(0, 20), rc::gen::inRange(0, 1000)));
  for (const auto& [which, key] : steps) {
    const auto i = static_cast<IndexHeap::Index>(which);
    if (in.count(i) == 0) {
      keys[i] = key;
      heap.push(i, less);
      in.insert(i);
    } else if (key % 3 == 0) {
      heap.erase(i, less);
      in.erase(i);
    } else {
      keys[i] = key;
      heap.update(i, less);
    }
    RC_ASSERT(heap.size() == in.size());
    if (!in.empty()) RC_ASSERT(heap.top() == *std::min_element(in.begin(), in.end(), less));
  }
}

RC_GTEST_PROP(DeadlineTreeProperty, AnswersAsASortedListDoes, ()) {
  DeadlineTree tree;
  DeadlineTree::Root root;
  std::map<std::pair<std::int64_t, std::uint64_t>, std::pair<DeadlineTree::Index, DeadlineTree::Item>> list;
  std::map<DeadlineTree::Index, std::pair<std::int64_t, std::uint64_t>> where;
  std::uint64_t arrival = 0;
  const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
      rc::gen::tuple(rc::gen::inRange(0, 30), rc::gen::inRange(0, 40), rc::gen::inRange(0, 100)));
  for (const auto& [which, deadline, load] : steps) {
    const auto id = static_cast<DeadlineTree::Index>(which);
    if (where.count(id) != 0) {
      tree.erase(root, id);
      list.erase(where[id]);
      where.erase(id);
    } else {
      const DeadlineTree::Item item{at(deadline), ++arrival, Nanos(load), at(deadline - load / 2)};
      tree.insert(root, id, item);
      where[id] = {deadline, arrival};
      list[where[id]] = {id, item};
    }
    RC_ASSERT(tree.first(root) == (list.empty() ? DeadlineTree::kNone : list.begin()->second.first));
    RC_ASSERT(tree.last(root) == (list.empty() ? DeadlineTree::kNone : list.rbegin()->second.first));
    for (int asked = -1; asked <= 41; asked += 6) {
      Nanos before{};
      Instant least = Instant::max();
      Nanos sum{};
      for (const auto& [key, entry] : list) {
        if (key.first <= asked) {
          before += entry.second.load;
        } else {
          least = std::min(least, entry.second.latestStart - sum);
        }
        sum += entry.second.load;
      }
      const auto around = tree.look(root, at(asked));
      RC_ASSERT(around.loadBefore == before);
      RC_ASSERT(around.leastLatestStart == least);
      RC_ASSERT(tree.totalLoad(root) == sum);
    }
    if (load % 5 == 0) {
      const auto doubled = [&](DeadlineTree::Index i) { return list[where[i]].second.load * 2; };
      tree.rescale(root, doubled);
      for (auto& [key, entry] : list) entry.second.load *= 2;
    }
  }
}

TEST(Estimates, BeforeAnythingWasMeasuredTheInitialRunCounts) {
  const Estimates estimates(Millis(7));
  EXPECT_EQ(estimates.get(1, 1000), (Estimate{Millis(7), Millis(7), Millis(7), Millis(7)}));
}

TEST(Estimates, BucketsByPowersOfTwoAndTheNearestAnswersForAnEmptyOne) {
  Estimates estimates(Millis(7));
  estimates.record(1, 1024, Millis(10), Millis(10));
  estimates.record(1, 16384, Millis(100), Millis(100));
  EXPECT_EQ(estimates.get(1, 2047).t50, Nanos(Millis(10)));
  EXPECT_EQ(estimates.get(1, 4096).t50, Nanos(Millis(10)));  // two away from either: the smaller
  EXPECT_EQ(estimates.get(1, 8192).t50, Nanos(Millis(100)));
  EXPECT_EQ(estimates.get(1, 0).t50, Nanos(Millis(10)));
  EXPECT_EQ(estimates.get(1, ~std::uint64_t{0}).t50, Nanos(Millis(100)));
  EXPECT_EQ(estimates.get(2, 1024).t50, Nanos(Millis(7)));  // another version
}

TEST(Estimates, QuantilesAreNearestRankOverTheLast32) {
  Estimates estimates(Millis(7));
  for (int i = 0; i < 100; ++i) estimates.record(1, 1, Millis(1000), Millis(1000));
  for (int i = 1; i <= 32; ++i) estimates.record(1, 1, Millis(i), Millis(i));
  EXPECT_EQ(estimates.get(1, 1).t50, Nanos(Millis(16)));
  EXPECT_EQ(estimates.get(1, 1).t90, Nanos(Millis(29)));
}

TEST(Estimates, OneOddRunNeitherStarvesNorEnriches) {
  Estimates estimates(Millis(10));
  for (int i = 0; i < 40; ++i) estimates.record(1, 1, Millis(10), Millis(10));
  estimates.record(1, 1, Seconds(1000), Seconds(1000));
  EXPECT_EQ(estimates.get(1, 1).cost, Nanos(Millis(100)));  // 10 x t50
  for (int i = 0; i < 100; ++i) estimates.record(1, 1, Millis(10), Nanos(0));
  EXPECT_EQ(estimates.get(1, 1).cost, Nanos(Millis(1)));  // 0.1 x t50
}

TEST(Estimates, MemoryIsBoundedTheLeastUsedVersionGoes) {
  Estimates estimates(Millis(7));
  for (std::uint32_t version = 0; version < 100; ++version) {
    estimates.record(7777, 1, Millis(3), Millis(3));
    estimates.record(version, 1, Millis(20), Millis(20));
  }
  EXPECT_EQ(estimates.get(7777, 1).t50, Nanos(Millis(3)));
  EXPECT_EQ(estimates.get(99, 1).t50, Nanos(Millis(20)));
  EXPECT_EQ(estimates.get(50, 1).t50, Nanos(Millis(7)));
}

TEST(Margin, GrowsWhileMoreThanOneInAHundredIsLateAndShrinksSlowly) {
  Margin margin;
  std::int64_t second = 1;
  const auto play = [&](int seconds, int late) {
    for (; seconds > 0; --seconds, ++second) {
      for (int i = 0; i < 100; ++i) margin.record(i >= late, at(second * 1'000'000'000 + i));
    }
    return margin.permille(at(second * 1'000'000'000));
  };
  EXPECT_EQ(play(5, 1), 1000);  // exactly 99 % is enough
  EXPECT_EQ(play(1, 2), 1050);
  EXPECT_EQ(play(100, 50), 3000);
  EXPECT_EQ(play(1, 0), 2970);
  EXPECT_EQ(margin.permille(at((second + 100'000) * 1'000'000'000)), 1000);
}

TEST(ArrivalRate, ConvergesWithATimeConstantOfOneSecond) {
  ArrivalRate rate;
  std::int64_t now = 50'000'000'000;
  for (int i = 0; i < 1000; ++i) {  // 100 a second for 10 s
    rate.arrive(at(now));
    now += 10'000'000;
  }
  EXPECT_NEAR(static_cast<double>(rate.at(at(now)).value), 100'000, 3'000);
  EXPECT_NEAR(static_cast<double>(rate.at(at(now + 1'000'000'000)).value), 100'000 * std::exp(-1), 1'500);
  EXPECT_EQ(rate.at(at(now + 60'000'000'000)).value, 0);
}

// Truth table of status codes (llm-d-router#2097: time-to-live, cancellation, internal error and capacity answered alike).
TEST(Refusal, OneCauseOneCode) {
  const std::map<RefusalReason, Code> table{
      {RefusalReason::TenantBacklog, Code::ResourceExhausted},    {RefusalReason::TenantQueueFull, Code::ResourceExhausted},
      {RefusalReason::TenantBytesFull, Code::ResourceExhausted},  {RefusalReason::ServiceQueueFull, Code::ResourceExhausted},
      {RefusalReason::StationFull, Code::ResourceExhausted},      {RefusalReason::RequestTooLarge, Code::TooLarge},
      {RefusalReason::DisplacedByShare, Code::ResourceExhausted}, {RefusalReason::NoInstance, Code::Unavailable},
      {RefusalReason::NoSlotInTime, Code::Unavailable},           {RefusalReason::ServiceRemoved, Code::Unavailable},
      {RefusalReason::DeadlinePassed, Code::DeadlineExceeded},    {RefusalReason::DeadlineTooShort, Code::DeadlineExceeded},
      {RefusalReason::ExpiredInQueue, Code::DeadlineExceeded}};
  std::set<std::string_view> names;
  for (const auto& [reason, code] : table) {
    EXPECT_EQ(refusalCode(reason), code) << refusalReasonName(reason);
    names.insert(refusalReasonName(reason));
  }
  EXPECT_EQ(names.size(), table.size());
}

TEST(Refusal, RetryAfterIsWholeSecondsSpreadByAFifth) {
  Rng rng(1);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(retryAfterSeconds(Seconds(10), rng));
  EXPECT_EQ(*seen.begin(), 8);
  EXPECT_EQ(*seen.rbegin(), 12);
  EXPECT_EQ(seen.size(), 5U);
  EXPECT_EQ(retryAfterSeconds(Nanos(1), rng), 1);
}

}  // namespace
}  // namespace coterie::dispatch
