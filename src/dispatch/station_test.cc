// Station: tables of the rules of order, cost and slots, one by one. Admission and caps are in station_admission_test.cc, histories against the
// oracle in station_oracle_test.cc, stories over time in station_stories_test.cc.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/station.h"
#include "dispatch/station_fixture.h"

namespace coterie::dispatch {
namespace {

TEST_F(StationTest, DispatchNamesRequestAndSlot) {
  const auto admission = put(kA, 1, ms(0));
  ASSERT_TRUE(admission.accepted());
  EXPECT_EQ(next(ms(0)), List{1});
  EXPECT_EQ(decisions.dispatches[0].request, admission.handle);
  EXPECT_EQ(decisions.dispatches[0].slot, slot);
  EXPECT_EQ(decisions.dispatches[0].slotCookie, 70U);
  EXPECT_EQ(station.busySlots(), 1);
  done(ms(10));
  EXPECT_EQ(station.busySlots(), 0);
}

TEST_F(StationTest, WithinATenantTheEarliestDeadlineThenTheEarliestArrival) {
  put(kA, 1, ms(0));
  next(ms(0));
  put(kA, 2, ms(0), Seconds(9));
  put(kA, 3, ms(0), Seconds(5));
  put(kA, 4, ms(0), Seconds(9));
  put(kA, 5, ms(0), Seconds(7));
  List order;
  for (int i = 1; i <= 4; ++i) {
    done(ms(10 * i));
    order.push_back(next(ms(10 * i)).at(0));
  }
  EXPECT_EQ(order, (List{3, 5, 2, 4}));
}

TEST_F(StationTest, TenantsTakeTurnsByCostWhateverTheirDeadlinesAndQueues) {
  put(kA, 1, ms(0));
  next(ms(0));
  for (std::uint64_t i = 2; i <= 5; ++i) put(kA, i, ms(0), Seconds(1));
  put(kB, 10, ms(0), Seconds(50));
  put(kB, 11, ms(0), Seconds(50));
  List order;
  for (int i = 1; i <= 6; ++i) {
    done(ms(10 * i));
    order.push_back(next(ms(10 * i)).at(0));
  }
  // A's tag is 10 ms ahead when B arrives at V = 0: B first; at equal tags the least id.
  EXPECT_EQ(order, (List{10, 2, 11, 3, 4, 5}));
}

TEST_F(StationTest, WeightsDivideCost) {
  station.setTenant(kB, {.weight = 300});
  put(kA, 1, ms(0));
  next(ms(0));
  for (std::uint64_t i = 2; i < 30; ++i) {
    put(kA, i, ms(0));
    put(kB, 100 + i, ms(0));
  }
  int b = 0;
  for (int i = 1; i <= 20; ++i) {
    done(ms(10 * i));
    b += next(ms(10 * i)).at(0) >= 100 ? 1 : 0;
  }
  EXPECT_EQ(b, 16);  // and the first was A's: 5 to 16 of 21
}

TEST_F(StationTest, IdleTimeIsNeverBanked) {
  put(kA, 1, ms(0));
  next(ms(0));
  for (int i = 1; i <= 100; ++i) {  // A alone for a second
    put(kA, 1, ms(10 * i));
    done(ms(10 * i));
    next(ms(10 * i));
  }
  for (std::uint64_t i = 0; i < 10; ++i) {
    put(kA, i, ms(1000));
    put(kB, 100 + i, ms(1000));
  }
  int b = 0;
  for (int i = 1; i <= 10; ++i) {
    done(ms(1000 + 10 * i));
    b += next(ms(1000 + 10 * i)).at(0) >= 100 ? 1 : 0;
  }
  EXPECT_LE(b, 6);  // not ten in a row for the second in which it did nothing
  EXPECT_GE(b, 5);
}

TEST_F(StationTest, DebtIsKeptThroughIdleness) {
  put(kA, 1, ms(0));
  next(ms(0));
  done(ms(100), Millis(100));  // ten times what was thought; A is idle now, and in debt by 100 ms
  put(kA, 2, ms(200));
  next(ms(200));
  for (std::uint64_t i = 0; i < 20; ++i) {
    put(kA, 50 + i, ms(200));
    put(kB, 100 + i, ms(200));
  }
  done(ms(300), Millis(100));
  List order;
  for (int i = 1; i <= 3; ++i) {
    order.push_back(next(ms(300 + i)).at(0));
    done(ms(300 + i), Millis(1));
  }
  for (const auto cookie : order) EXPECT_GE(cookie, 100);
}

TEST_F(StationTest, AStuckModelCannotHideItsCost) {
  put(kA, 1, ms(0));
  next(ms(0));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(10)));
  put(kB, 2, ms(0));
  EXPECT_EQ(station.nextEvent(), ms(20));
  next(ms(19));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(10)));
  next(ms(20));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(20)));
  next(ms(95));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(90)));
  done(ms(97), Millis(97));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(97)));
}

TEST_F(StationTest, SettlementIsExactWhateverTheOutcome) {
  struct Row {
    Outcome outcome;
    Usage usage;
    Nanos charged;
  };
  const std::vector<Row> rows{
      {Outcome::Succeeded, {Millis(30), Millis(5), {}}, Millis(25)},  // the run queue's wait is not the tenant's
      {Outcome::Succeeded, {Millis(3), {}, {}}, Millis(3)},           // less than the estimate: given back
      {Outcome::Succeeded, {Seconds(9), {}, {}}, Millis(40)},         // not more than was seen
      {Outcome::Succeeded, {Millis(5), Seconds(9), {}}, Nanos(0)},
      {Outcome::Succeeded, {Millis(-5), Millis(-9), {}}, Nanos(0)},
      {Outcome::Failed, {Millis(1), Millis(1), {}}, Millis(40)},  // the slot was held for 40 ms
      {Outcome::Cancelled, {}, Millis(40)},
      {Outcome::Crashed, {}, Millis(40)},
      {Outcome::NeverStarted, {Millis(9), {}, {}}, Nanos(0)},
  };
  Nanos total{};
  std::int64_t now = 0;
  for (const Row& row : rows) {
    put(kA, 1, ms(now));
    next(ms(now));
    now += 40;
    next(ms(now));
    station.completed(running, row.usage, row.outcome, ms(now));
    total += row.charged;
    EXPECT_EQ(station.stats(kA).charged, total) << static_cast<int>(row.outcome);
  }
}

TEST_F(StationTest, CancelledInTheQueueFreesItsPlaceAtOnceAndCostsNothing) {
  station.setTenant(kA, {.caps = {1, {}}});
  put(kB, 1, ms(0));
  next(ms(0));
  const auto waiting = put(kA, 2, ms(0));
  EXPECT_EQ(refused(put(kA, 3, ms(0))), RefusalReason::TenantQueueFull);
  EXPECT_EQ(station.cancel(waiting.handle, ms(0)), CancelResult::Removed);
  EXPECT_EQ(station.cancel(waiting.handle, ms(0)), CancelResult::Unknown);
  EXPECT_TRUE(put(kA, 4, ms(0)).accepted());
  EXPECT_EQ(station.stats(kA).charged, Nanos(0));
}

TEST_F(StationTest, CancelledWhileRunningKeepsSlotAndChargeUntilTheWorkerConfirms) {
  put(kA, 1, ms(0));
  next(ms(0));
  put(kA, 2, ms(0));
  EXPECT_EQ(station.cancel(running, ms(0)), CancelResult::Running);
  EXPECT_EQ(next(ms(5)), List{});
  EXPECT_EQ(station.stats(kA).inFlight, 1);
  const RequestHandle first = running;
  done(ms(7), Nanos{}, Outcome::Cancelled);
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(7)));
  EXPECT_EQ(next(ms(7)), List{2});
  station.completed(first, {}, Outcome::Succeeded, ms(8));  // a late second answer changes nothing
  EXPECT_EQ(station.busySlots(), 1);
}

TEST_F(StationTest, WhatCannotEndInTimeIsDroppedUnchargedAndTheNextGoesOn) {
  put(kA, 1, ms(0));
  next(ms(0));
  ASSERT_TRUE(put(kA, 2, ms(0), Millis(25)).accepted());
  ASSERT_TRUE(put(kA, 3, ms(0), Seconds(5)).accepted());
  EXPECT_EQ(station.nextEvent(), ms(15) + Nanos(1));
  EXPECT_EQ(next(ms(15)), List{});
  EXPECT_EQ(next(ms(15) + Nanos(1)), List{-2});
  EXPECT_EQ(decisions.drops[0].refusal.code(), Code::DeadlineExceeded);
  EXPECT_EQ(decisions.drops[0].refusal.reason, RefusalReason::ExpiredInQueue);
  done(ms(40), Millis(40));
  EXPECT_EQ(station.stats(kA).charged, Nanos(Millis(40)));
  EXPECT_EQ(next(ms(40)), List{3});
  EXPECT_EQ(station.stats(kA).dropped, 1);
}

TEST_F(StationTest, OwnSlotsBeforeLoanSlots) {
  const SlotId loan = station.addSlot(service, SlotClass::Loan, 71);
  put(kA, 1, ms(0));
  put(kA, 2, ms(0));
  next(ms(0));
  ASSERT_EQ(decisions.dispatches.size(), 2U);
  EXPECT_EQ(decisions.dispatches[0].slot, slot);
  EXPECT_EQ(decisions.dispatches[1].slot, loan);
}

TEST_F(StationTest, AClosedSlotFinishesWhatItRunsAndGetsNothingNew) {
  put(kA, 1, ms(0));
  next(ms(0));
  put(kA, 2, ms(0));
  station.setSlotOpen(slot, false);
  done(ms(10));
  EXPECT_EQ(next(ms(10)), List{});
  EXPECT_EQ(refused(put(kB, 3, ms(10))), RefusalReason::NoInstance);  // nothing may run it
  station.setSlotOpen(slot, true);
  EXPECT_EQ(next(ms(11)), List{2});
}

TEST_F(StationTest, ASlotRemovedWhileBusyIsReusedOnlyAfterItsRequestEnded) {
  put(kA, 1, ms(0));
  next(ms(0));
  station.removeSlot(slot);
  const SlotId other = station.addSlot(service, SlotClass::Own, 72);
  EXPECT_NE(other, slot);
  done(ms(10));
  EXPECT_EQ(station.addSlot(service, SlotClass::Own, 73), slot);
}

TEST_F(StationTest, ARemovedServiceDropsItsQueueAndRefuses) {
  put(kA, 1, ms(0));
  next(ms(0));
  put(kA, 2, ms(0));
  put(kB, 3, ms(0));
  station.removeSlot(slot);
  station.removeService(service, ms(0));
  EXPECT_EQ(next(ms(0)).size(), 2U);
  EXPECT_EQ(decisions.drops[0].refusal.reason, RefusalReason::ServiceRemoved);
  EXPECT_EQ(refused(put(kA, 4, ms(0))), RefusalReason::NoInstance);
  done(ms(10));
  EXPECT_EQ(station.queued(), 0);
  EXPECT_EQ(station.queuedBytes(), 0);
}

// --- Several services on one station ---

TEST(StationServices, ConcurrencyBoundsSlotsInUseAndWeightsDivideATenantsTime) {
  Station station({.concurrency = 1});
  station.setTenant(kA, {});
  const ServiceId heavy = station.addService({.weight = 300});
  const ServiceId light = station.addService({.weight = 100});
  for (const ServiceId id : {heavy, light}) station.addSlot(id, SlotClass::Own, 0);
  std::vector<int> runs(2, 0);
  Decisions decisions;
  Instant now = ms(0);
  for (int i = 0; i < 20; ++i) {
    for (const ServiceId id : {heavy, light})
      (void)station.enqueue({kA, id, 1, now + Seconds(60), 1, Bytes(1), static_cast<std::uint64_t>(id.value)}, now);
  }
  for (int i = 0; i < 20; ++i) {
    decisions.clear();
    station.next(now, decisions);
    ASSERT_EQ(decisions.dispatches.size(), 1U);
    ++runs[decisions.dispatches[0].cookie];
    now += Millis(10);
    station.completed(decisions.dispatches[0].request, {Millis(10), {}, {}}, Outcome::Succeeded, now);
  }
  EXPECT_EQ(runs, (std::vector<int>{15, 5}));
}

TEST(StationServices, ABlockedTenantCatchesUpByOneRequestAtMost) {
  Station station({.concurrency = 1});
  station.setTenant(kA, {});
  station.setTenant(kB, {});
  const ServiceId mine = station.addService({});
  const ServiceId theirs = station.addService({});
  const SlotId slot = station.addSlot(mine, SlotClass::Own, 0);
  station.addSlot(theirs, SlotClass::Own, 1);
  Instant now = ms(0);
  for (std::uint64_t i = 0; i < 200; ++i) {
    (void)station.enqueue({kA, mine, 1, now + Seconds(60), 1, Bytes(1), 0}, now);
    (void)station.enqueue({kB, theirs, 1, now + Seconds(60), 1, Bytes(1), 1}, now);
  }
  Decisions decisions;
  const auto run = [&](int times) {
    std::string who;
    for (int i = 0; i < times; ++i) {
      decisions.clear();
      station.next(now, decisions);
      who += decisions.dispatches.at(0).cookie == 0 ? 'A' : 'B';
      now += Millis(10);
      station.completed(decisions.dispatches[0].request, {Millis(10), {}, {}}, Outcome::Succeeded, now);
    }
    return who;
  };
  station.setSlotOpen(slot, false);
  EXPECT_EQ(run(50), std::string(50, 'B'));
  station.setSlotOpen(slot, true);
  EXPECT_EQ(run(8), "AABABABA");  // one because B has just run, one by the tie; not fifty
}

TEST_F(StationTest, DemandCountsRefusedArrivals) {
  for (int i = 0; i < 3000; ++i) (void)put(kA, 1, ms(i), Millis(i % 2 == 0 ? 1 : 0));
  EXPECT_NEAR(static_cast<double>(station.demand(service, ms(3000)).arrivals.value), 1'000'000 * 0.95, 50'000);
  EXPECT_EQ(station.demand(service, ms(3000)).queued, station.queued());
}

}  // namespace
}  // namespace coterie::dispatch
