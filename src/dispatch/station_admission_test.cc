// Station: tables of what is accepted, what is refused and why, and whose request gives way at a cap.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dispatch/station.h"
#include "dispatch/station_fixture.h"

namespace coterie::dispatch {
namespace {

TEST_F(StationTest, RefusalsByCause) {
  EXPECT_EQ(refused(put(kA, 1, ms(0), Nanos(0))), RefusalReason::DeadlinePassed);
  EXPECT_TRUE(put(kA, 1, ms(0), Millis(1)).accepted()) << "probe: nothing queued, a slot is free";
  EXPECT_EQ(next(ms(0)), List{1});
  EXPECT_EQ(refused(put(kA, 2, ms(0), Millis(9))), RefusalReason::DeadlineTooShort);
  EXPECT_EQ(refused(put(kA, 2, ms(0), Millis(19))), RefusalReason::NoSlotInTime);
  EXPECT_TRUE(put(kA, 2, ms(0), Millis(20)).accepted());
  const auto backlog = put(kA, 3, ms(0), Millis(25));
  EXPECT_EQ(refused(backlog), RefusalReason::TenantBacklog);
  EXPECT_EQ(backlog.refusal.retryAfter, Nanos(Seconds(1)));
  EXPECT_EQ(backlog.refusal.code(), Code::ResourceExhausted);
  EXPECT_EQ(station.stats(kA).refused, 4);
  EXPECT_EQ(station.stats(kA).arrivals, 6);
}

TEST_F(StationTest, ATenantsBacklogRefusesOnlyItself) {
  put(kA, 1, ms(0));
  next(ms(0));
  int accepted = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) accepted += put(kA, 2 + i, ms(0), Millis(500)).accepted() ? 1 : 0;
  EXPECT_EQ(accepted, 49);  // A alone has the slot: 10 ms residual, 48 before it, 10 ms its own
  EXPECT_TRUE(put(kB, 1, ms(0), Millis(20)).accepted());
}

TEST_F(StationTest, SharesCountEveryTenantActiveInTheLastTenSeconds) {
  put(kB, 1, ms(0));
  next(ms(0));
  done(ms(10));
  put(kA, 2, ms(10));
  next(ms(10));
  EXPECT_EQ(fill(ms(10)), 25);  // half of the slot is thought to be B's
  for (int i = 1; i <= 30; ++i) {
    done(ms(10 + 10 * i));
    next(ms(10 + 10 * i));
  }
  EXPECT_EQ(fill(ms(11'000)), 50);  // what runs is overdue by now: no residual is known
}

// Whoever had work here until a moment ago is active, though it came long before.
TEST_F(StationTest, ATenantIsActiveForTenSecondsFromTheEndOfItsLastRequest) {
  put(kB, 1, ms(0));
  next(ms(0));
  done(ms(9'000));
  put(kA, 2, ms(9'000));
  next(ms(9'000));
  EXPECT_EQ(fill(ms(19'000)), 25);
  EXPECT_EQ(fill(ms(19'001)), 25) << "and has the whole slot: 50 in all";
}

TEST_F(StationTest, ATenantIsActiveForTenSecondsFromWhenItsLastRequestLeftTheQueue) {
  put(kA, 1, ms(0));
  next(ms(0));
  const Admission waiting = put(kB, 2, ms(0));
  ASSERT_EQ(station.cancel(waiting.handle, ms(9'000)), CancelResult::Removed);
  EXPECT_EQ(fill(ms(19'000)), 25);
  EXPECT_EQ(fill(ms(19'001)), 25);
}

// On a machine where others compute, half of a run's time is waiting for a CPU: not charged, and yet gone for those behind it.
TEST_F(StationTest, WaitsArePredictedByTheClockNotByTheCharge) {
  for (int i = 0; i < 40; ++i) {
    put(kA, 1, ms(20 * i));
    next(ms(20 * i));
    station.completed(running, {Millis(20), Millis(10), Millis(10)}, Outcome::Succeeded, ms(20 * i + 20));
  }
  EXPECT_EQ(station.estimate(service, 1, 1).cost, Nanos(Millis(10)));
  put(kA, 1, ms(1000));
  next(ms(1000));
  int accepted = 0;
  while (put(kA, 1, ms(1000), Millis(100)).accepted()) ++accepted;
  EXPECT_EQ(accepted, 4) << "after the one that runs, at 40, 60, 80 and 100 ms";
}

TEST_F(StationTest, ANewcomerMustNotMakeAnAcceptedOneLate) {
  put(kA, 1, ms(0));
  next(ms(0));
  ASSERT_TRUE(put(kA, 2, ms(0), Millis(45)).accepted());  // starts at 10 by the estimates, must by 35
  ASSERT_TRUE(put(kA, 3, ms(0), Millis(40)).accepted());  // before it: 2 starts at 20
  ASSERT_TRUE(put(kA, 4, ms(0), Millis(40)).accepted());  // 2 starts at 30
  EXPECT_EQ(refused(put(kA, 5, ms(0), Millis(44))), RefusalReason::TenantBacklog);
  EXPECT_TRUE(put(kA, 6, ms(0), Millis(60)).accepted());  // after it: fine
}

TEST_F(StationTest, BadEstimatesCannotLockEveryoneOut) {
  put(kA, 1, ms(0));
  next(ms(0));
  done(ms(50'000), Seconds(50));
  EXPECT_EQ(station.estimate(service, 1, 1).t50, Nanos(Seconds(50)));
  ASSERT_TRUE(put(kA, 2, ms(50'000), Millis(100)).accepted());
  EXPECT_EQ(next(ms(50'000)), List{2});
  done(ms(50'010));
  EXPECT_EQ(station.estimate(service, 1, 1).t50, Nanos(Millis(10)));
}

TEST_F(StationTest, MarginAdaptsToLateness) {
  std::int64_t now = 0;
  for (int i = 0; i < 400; ++i) {  // every run takes 30 ms and ends late
    put(kA, 1, ms(now), Millis(20));
    next(ms(now));
    now += 30;
    done(ms(now), Millis(30));
  }
  EXPECT_GT(station.marginPermille(service), 1500);
  EXPECT_LE(station.marginPermille(service), 3000);
}

// --- Caps ---

class CappedStationTest : public StationTest {
 protected:
  CappedStationTest() : StationTest({.caps = {4, Bytes(100)}}) {
    put(kA, 999, ms(0), Seconds(60), Bytes(0));
    next(ms(0));
  }
};

TEST_F(CappedStationTest, TheTenantFurthestOverItsShareLosesItsLatestDeadline) {
  for (std::uint64_t i = 1; i <= 4; ++i) ASSERT_TRUE(put(kA, i, ms(0), Seconds(static_cast<int>(10 + i))).accepted());
  EXPECT_EQ(refused(put(kA, 5, ms(0), Seconds(20))), RefusalReason::StationFull);
  ASSERT_TRUE(put(kA, 6, ms(0), Seconds(5)).accepted());  // its own latest gives way
  ASSERT_TRUE(put(kB, 7, ms(0), Seconds(50)).accepted());
  EXPECT_EQ(next(ms(0)), (List{-4, -3}));
  EXPECT_EQ(decisions.drops[0].refusal.reason, RefusalReason::DisplacedByShare);
  EXPECT_EQ(decisions.drops[0].refusal.code(), Code::ResourceExhausted);
  EXPECT_EQ(decisions.drops[0].refusal.limit, 4);
  EXPECT_EQ(station.queued(), 4);
  ASSERT_TRUE(put(kB, 8, ms(0)).accepted());                          // 3 : 2 -> 2 : 2
  EXPECT_EQ(refused(put(kB, 9, ms(0))), RefusalReason::StationFull);  // 2 : 3 would not be fair
}

TEST_F(CappedStationTest, BytesByWeight) {
  station.setTenant(kB, {.weight = 300});
  ASSERT_TRUE(put(kA, 1, ms(0), Seconds(9), Bytes(30)).accepted());
  ASSERT_TRUE(put(kB, 2, ms(0), Seconds(9), Bytes(60)).accepted());
  ASSERT_TRUE(put(kB, 3, ms(0), Seconds(9), Bytes(20)).accepted());  // 80/300 < 30/100
  EXPECT_EQ(next(ms(0)), List{-1});
  EXPECT_EQ(refused(put(kB, 4, ms(0), Seconds(9), Bytes(101))), RefusalReason::RequestTooLarge);
  EXPECT_EQ(station.queuedBytes(), 80);
}

TEST_F(StationTest, EachCapBitesAndNamesItsLimit) {
  struct Row {
    const char* name;
    TenantOptions tenant;
    ServiceOptions service;
    RefusalReason reason;
    std::int64_t limit;
  };
  const std::vector<Row> rows{
      {"tenant requests", {.caps = {2, {}}}, {}, RefusalReason::TenantQueueFull, 2},
      {"tenant bytes", {.caps = {0, Bytes(20)}}, {}, RefusalReason::TenantBytesFull, 20},
      {"tenant seconds", {.queuedCost = Millis(20)}, {}, RefusalReason::TenantQueueFull, 20'000'000},
      {"service requests", {}, {.caps = {2, {}}}, RefusalReason::ServiceQueueFull, 2},
      {"service bytes", {}, {.caps = {0, Bytes(29)}}, RefusalReason::ServiceQueueFull, 29},
  };
  put(kA, 1, ms(0));
  next(ms(0));
  for (const Row& row : rows) {
    station.setTenant(kA, row.tenant);
    station.setService(service, row.service);
    std::vector<RequestHandle> waiting;
    Admission last;
    while ((last = put(kA, 2, ms(0), Seconds(60), Bytes(10))).accepted()) waiting.push_back(last.handle);
    EXPECT_EQ(waiting.size(), 2U) << row.name;
    EXPECT_EQ(last.refusal.reason, row.reason) << row.name;
    EXPECT_EQ(last.refusal.limit, row.limit) << row.name;
    EXPECT_GE(last.refusal.retryAfter, Nanos(Seconds(1))) << row.name;
    for (const auto handle : waiting) EXPECT_EQ(station.cancel(handle, ms(0)), CancelResult::Removed);
  }
}

// It was told to come again, for ever.
TEST_F(StationTest, WhatFitsUnderNoCapIsTooLargeAndNotToComeAgain) {
  const std::vector<std::pair<TenantOptions, ServiceOptions>> rows{{{.caps = {0, Bytes(20)}}, {}}, {{}, {.caps = {0, Bytes(20)}}}};
  for (const auto& [tenant, of] : rows) {
    station.setTenant(kA, tenant);
    station.setService(service, of);
    const Admission large = put(kA, 1, ms(0), Seconds(60), Bytes(21));
    EXPECT_EQ(large.refusal.reason, RefusalReason::RequestTooLarge);
    EXPECT_EQ(large.refusal.code(), Code::TooLarge);
    EXPECT_EQ(large.refusal.limit, 20);
    EXPECT_EQ(large.refusal.retryAfter, Nanos{});
    const Admission fits = put(kA, 1, ms(0), Seconds(60), Bytes(20));
    EXPECT_TRUE(fits.accepted());
    station.cancel(fits.handle, ms(0));
  }
}

}  // namespace
}  // namespace coterie::dispatch
