// Station: tables of the rules one by one. Histories against the oracle are in station_oracle_test.cc, stories over time in station_stories_test.cc.
#include "dispatch/station.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace coterie::dispatch {
namespace {

const TenantId kA(0);
const TenantId kB(1);
Instant ms(std::int64_t millis) { return Instant(Seconds(100)) + Millis(millis); }

class StationTest : public ::testing::Test {
 protected:
  explicit StationTest(const StationOptions& options = {}) : station(options) {
    station.setTenant(kA, {});
    station.setTenant(kB, {});
    service = station.addService({});  // 10 ms a run
    slot = station.addSlot(service, SlotClass::Own, 70);
  }
  Admission put(TenantId tenant, std::uint64_t cookie, Instant now, Nanos within = Seconds(60), Bytes bytes = Bytes(1)) {
    return station.enqueue({tenant, service, 1, now + within, 1, bytes, cookie}, now);
  }
  // Cookies dispatched by next(), dropped ones with a minus sign.
  std::vector<std::int64_t> next(Instant now) {
    decisions.clear();
    station.next(now, decisions);
    std::vector<std::int64_t> cookies;
    for (const auto& drop : decisions.drops) cookies.push_back(-static_cast<std::int64_t>(drop.cookie));
    for (const auto& dispatch : decisions.dispatches) {
      cookies.push_back(static_cast<std::int64_t>(dispatch.cookie));
      running = dispatch.request;
    }
    return cookies;
  }
  void done(Instant now, Nanos held = Millis(10), Outcome outcome = Outcome::Succeeded) {
    station.completed(running, {held, Nanos{}, held}, outcome, now);
  }
  // How many more of A's requests that must end within half a second are accepted.
  int fill(Instant now) {
    int accepted = 0;
    while (put(kA, 3, now, Millis(500)).accepted()) ++accepted;
    return accepted;
  }
  RefusalReason refused(const Admission& admission) {
    EXPECT_FALSE(admission.accepted());
    return admission.refusal.reason;
  }

  using List = std::vector<std::int64_t>;
  Station station;
  ServiceId service;
  SlotId slot;
  Decisions decisions;
  RequestHandle running;
};

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

// --- Admission ---

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
  EXPECT_EQ(run(8), "AAABABAB");  // one to catch up, one because B has just run, one by the tie; not fifty
}

TEST_F(StationTest, DemandCountsRefusedArrivals) {
  for (int i = 0; i < 3000; ++i) (void)put(kA, 1, ms(i), Millis(i % 2 == 0 ? 1 : 0));
  EXPECT_NEAR(static_cast<double>(station.demand(service, ms(3000)).arrivals.value), 1'000'000 * 0.95, 50'000);
  EXPECT_EQ(station.demand(service, ms(3000)).queued, station.queued());
}

}  // namespace
}  // namespace coterie::dispatch
