// Batches: who runs as one with whom, what each pays, and what happens to one that fails.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"
#include "dispatch/batch_costs.h"
#include "dispatch/station.h"
#include "dispatch/station_fixture.h"

namespace coterie::dispatch {
namespace {

TEST(BatchCosts, GrowAsTheyProveThemselves) {
  BatchCosts costs;
  EXPECT_TRUE(costs.growsTo(2)) << "to be tried";
  EXPECT_FALSE(costs.growsTo(3)) << "before two at once are known";
  EXPECT_EQ(costs.ratio(8), 1000);
  for (int i = 0; i < 4; ++i) costs.record(2, Millis(12), Millis(20));
  EXPECT_EQ(costs.ratio(2), 600);
  EXPECT_EQ(costs.ratio(8), 600) << "as the next smaller one";
  EXPECT_TRUE(costs.growsTo(4));
  EXPECT_FALSE(costs.growsTo(5));
  for (int i = 0; i < 4; ++i) costs.record(4, Millis(38), Millis(40));
  EXPECT_FALSE(costs.growsTo(3)) << "950 thousandths: not worth it";
  EXPECT_FALSE(costs.growsTo(5));
  int tried = 0;
  for (int i = 0; i < 1000; ++i) tried += costs.growsTo(4) ? (costs.record(4, Millis(38), Millis(40)), 1) : 0;
  EXPECT_EQ(tried, 3) << "again now and then: a model's speed may change";
  for (int i = 0; i < 100'000 && costs.ratio(4) > 900; ++i) {
    if (costs.growsTo(4)) costs.record(4, Millis(20), Millis(40));
  }
  EXPECT_TRUE(costs.growsTo(4));
}

class BatchTest : public StationTest {
 protected:
  BatchTest() {
    ServiceOptions options;
    options.maxBatch = 4;
    station.setService(service, options);
  }
  // Two at once cost as much as one and a bit, and so do four.
  void learn() {
    for (int i = 0; i < 12; ++i) {
      const Instant now = ms(-5000 + 100 * i);
      put(kA, 0, now, 9);
      next(now);
      const auto busy = running;
      for (int k = 0; k < 4; ++k) put(kA, 0, now, 1);
      running = busy;
      done(now + Millis(10));
      while (!next(now + Millis(20)).empty()) done(now + Millis(32), Millis(12));
    }
  }
  Admission put(TenantId tenant, std::uint64_t cookie, Instant now, std::uint64_t key, Nanos within = Seconds(60)) {
    return station.enqueue({tenant, service, 1, now + within, 1, Bytes(1), cookie, key}, now);
  }
  // Whether A's and B's requests may run in one batch with others'.
  void share(bool a, bool b) {
    TenantOptions options;
    options.sharesBatches = a;
    station.setTenant(kA, options);
    options.sharesBatches = b;
    station.setTenant(kB, options);
  }
  void occupy(Instant now) {
    put(kA, 99, now, 0);
    ASSERT_EQ(next(now), List{99});
  }
};

TEST_F(BatchTest, OnlyThoseThatWaitForASlotRunAsOne) {
  learn();
  put(kA, 1, ms(0), 7);
  EXPECT_EQ(next(ms(0)), List{1});
  for (std::uint64_t i = 2; i <= 6; ++i) put(kA, i, ms(1), 7);
  EXPECT_EQ(next(ms(1)), List{});
  done(ms(10));
  EXPECT_EQ(next(ms(10)), (List{2, 3, 4, 5})) << "the most that may run as one";
  EXPECT_FALSE(decisions.dispatches[0].together);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_TRUE(decisions.dispatches[i].together);
    EXPECT_EQ(decisions.dispatches[i].slot, slot);
  }
  EXPECT_EQ(station.busySlots(), 1);
  EXPECT_EQ(station.stats(kA).inFlight, 4);
  done(ms(30), Millis(20));
  EXPECT_EQ(station.busySlots(), 0);
  EXPECT_EQ(station.stats(kA).inFlight, 0);
  EXPECT_EQ(next(ms(30)), List{6});
}

TEST_F(BatchTest, ThoseThatAFreeSlotCouldRunAreLeftToIt) {
  learn();
  const SlotId other = station.addSlot(service, SlotClass::Own, 71);
  station.setSlotOpen(other, false);
  occupy(ms(0));
  for (std::uint64_t i = 1; i <= 4; ++i) put(kA, i, ms(1), 7);
  station.setSlotOpen(other, true);
  station.setSlotOpen(slot, true);
  done(ms(10));
  EXPECT_EQ(next(ms(10)), (List{1, 2, 3, 4}));
  EXPECT_FALSE(decisions.dispatches[2].together) << "two on each of the two slots";
}

TEST_F(BatchTest, OtherKeysAndNoKeyRunAlone) {
  learn();
  occupy(ms(0));
  put(kA, 1, ms(1), 7);
  put(kA, 2, ms(2), 8);
  put(kA, 3, ms(3), 7);
  put(kA, 4, ms(4), 0);
  put(kA, 5, ms(5), 0);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    done(ms(10 * static_cast<std::int64_t>(i)));
    EXPECT_EQ(next(ms(10 * static_cast<std::int64_t>(i))), List{static_cast<std::int64_t>(i)}) << "order is kept";
  }
}

TEST_F(BatchTest, NobodyJoinsWhoWouldMakeSomebodyLate) {
  learn();
  occupy(ms(0));
  put(kA, 1, ms(0), 7, Millis(21));
  for (std::uint64_t i = 2; i <= 4; ++i) put(kA, i, ms(0), 7, Seconds(50));
  done(ms(10));
  EXPECT_EQ(next(ms(10)), List{1}) << "11 ms are left to it, and two at once take 12";
  done(ms(20));
  EXPECT_EQ(next(ms(20)), (List{2, 3, 4}));
}

TEST_F(BatchTest, TenantsMixOnlyWhereBothSaySo) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      share(a, b);
      learn();
      occupy(ms(0));
      put(kA, 1, ms(1), 7);
      put(kB, 2, ms(1), 7);
      done(ms(10));
      EXPECT_EQ(next(ms(10)).size(), a && b ? 2U : 1U);
      done(ms(30));
      while (!next(ms(30)).empty()) done(ms(30));
    }
  }
}

TEST_F(BatchTest, EachPaysItsPartByEstimate) {
  share(true, true);
  learn();
  occupy(ms(0));
  put(kA, 1, ms(1), 7);
  put(kB, 2, ms(1), 7);
  put(kB, 3, ms(1), 7);
  done(ms(10));
  const Nanos a = station.stats(kA).charged;
  const Nanos b = station.stats(kB).charged;
  ASSERT_EQ(next(ms(10)).size(), 3U);
  done(ms(22), Millis(12));
  EXPECT_EQ(station.stats(kA).charged - a, Millis(4));
  EXPECT_EQ(station.stats(kB).charged - b, Millis(8));
}

TEST_F(BatchTest, AStuckBatchIsChargedToAllOfIt) {
  share(true, true);
  learn();
  occupy(ms(0));
  put(kA, 1, ms(1), 7);
  put(kB, 2, ms(1), 7);
  done(ms(10));
  ASSERT_EQ(next(ms(10)).size(), 2U);
  const Nanos a = station.stats(kA).charged;
  const Nanos b = station.stats(kB).charged;
  next(ms(1010));
  EXPECT_NEAR(static_cast<double>((station.stats(kA).charged - a).count()), 490e6, 10e6);
  EXPECT_NEAR(static_cast<double>((station.stats(kB).charged - b).count()), 490e6, 10e6);
}

TEST_F(BatchTest, OneThatFailedIsRunAgainOneByOne) {
  learn();
  occupy(ms(0));
  for (std::uint64_t i = 1; i <= 3; ++i) put(kA, i, ms(1), 7);
  done(ms(10));
  ASSERT_EQ(next(ms(10)).size(), 3U);
  EXPECT_EQ(station.cancel(decisions.dispatches[1].request, ms(11)), CancelResult::Shared);
  const auto cancelled = decisions.dispatches[1].request;
  EXPECT_TRUE(station.completed(running, {}, Outcome::Failed, ms(20)));
  EXPECT_EQ(station.cancel(cancelled, ms(20)), CancelResult::Unknown) << "nobody waits for it: it is not run again";
  EXPECT_EQ(station.queued(), 2);
  EXPECT_EQ(next(ms(20)), List{1});
  EXPECT_FALSE(station.completed(running, {}, Outcome::Failed, ms(30))) << "the culprit's own answer";
  EXPECT_EQ(next(ms(30)), List{3});
  done(ms(40));
  EXPECT_EQ(station.stats(kA).queued + station.stats(kA).inFlight, 0);
}

TEST_F(BatchTest, TheLaneIsToldToStopOnlyWhenNobodyWaitsForIt) {
  learn();
  occupy(ms(0));
  put(kA, 1, ms(1), 7);
  put(kA, 2, ms(1), 7);
  done(ms(10));
  ASSERT_EQ(next(ms(10)).size(), 2U);
  EXPECT_EQ(station.cancel(decisions.dispatches[0].request, ms(11)), CancelResult::Shared);
  EXPECT_EQ(station.cancel(decisions.dispatches[0].request, ms(11)), CancelResult::Shared) << "twice is once";
  EXPECT_EQ(station.cancel(decisions.dispatches[1].request, ms(11)), CancelResult::Running);
}

TEST_F(BatchTest, WhereItGainsNothingRequestsRunAlone) {
  for (int i = 0; i < 40; ++i) {  // two at once cost twice as much
    const Instant now = ms(1000 * i);
    occupy(now);
    for (std::uint64_t k = 1; k <= 4; ++k) put(kA, k, now, 7);
    done(now + Millis(10));
    for (Instant at = now + Millis(10);; at += Millis(40)) {
      const std::size_t together = next(at).size();
      if (together == 0) break;
      if (i > 20) {
        EXPECT_EQ(together, 1U);
      }
      done(at + Millis(10) * static_cast<std::int64_t>(together), Millis(10) * static_cast<std::int64_t>(together));
    }
  }
}

}  // namespace
}  // namespace coterie::dispatch
