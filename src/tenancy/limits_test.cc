#include "tenancy/limits.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace coterie::tenancy {
namespace {

Instant at(std::int64_t nanos) { return Instant(Nanos(nanos)); }
constexpr std::int64_t kSecond = 1'000'000'000;

RequestLimits quota(std::int64_t rate, std::int64_t concurrent = 0, std::int64_t bytes = 0) {
  RequestLimits q;
  q.requestsPerSecond = rate;
  q.concurrentRequests = concurrent;
  q.queuedBytes = Bytes(bytes);
  return q;
}

TEST(Limits, NoQuotaIsNoLimit) {
  RequestLimiter limits;
  limits.set({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limits.start(at(0)));
  EXPECT_FALSE(limits.hold(Bytes(std::int64_t{1} << 60)));
}

TEST(Limits, BurstIsOneSecondsWorthThenExactSpacing) {
  RequestLimiter limits;
  limits.set(quota(3));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limits.start(at(0)));
  const auto refused = limits.start(at(0));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, LimitKind::RequestRate);
  EXPECT_EQ(refused->limit, 3);
  EXPECT_EQ(refused->retryAfter, Nanos(333'333'334));  // a third of a second, rounded up to what is surely enough
  EXPECT_TRUE(limits.start(at(333'333'333)));
  EXPECT_FALSE(limits.start(at(333'333'334)));
}

TEST(Limits, RetryTimeIsTrueToTheNanosecond) {
  for (const std::int64_t rate : {1, 2, 3, 7, 997, 100'000}) {
    RequestLimiter limits;
    limits.set(quota(rate));
    while (!limits.start(at(0))) {
    }
    const auto refused = limits.start(at(0));
    ASSERT_TRUE(refused);
    EXPECT_TRUE(limits.start(at(refused->retryAfter.count() - 1))) << rate;
    EXPECT_FALSE(limits.start(at(refused->retryAfter.count()))) << rate;
  }
}

TEST(Limits, ConcurrencyCountsFromStartToFinishAndTakesNoToken) {
  RequestLimiter limits;
  limits.set(quota(2, 1));
  EXPECT_FALSE(limits.start(at(0)));
  for (int i = 0; i < 5; ++i) {
    const auto refused = limits.start(at(0));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->kind, LimitKind::Concurrency);
  }
  limits.finish();
  EXPECT_FALSE(limits.start(at(0)));  // the second token is still there
  EXPECT_EQ(limits.concurrent(), 1);
}

TEST(Limits, BytesAreExactAndOverflowSafe) {
  RequestLimiter limits;
  limits.set(quota(0, 0, 100));
  EXPECT_FALSE(limits.hold(Bytes(60)));
  EXPECT_TRUE(limits.hold(Bytes(41)));
  EXPECT_TRUE(limits.hold(Bytes(std::numeric_limits<std::int64_t>::max())));
  EXPECT_FALSE(limits.hold(Bytes(40)));
  limits.release(Bytes(60), Bytes(60));
  EXPECT_EQ(limits.queuedBytes(), Bytes(40));
  limits.queueAgain(Bytes(90));
  EXPECT_EQ(limits.queuedBytes(), Bytes(130)) << "let in before";
  EXPECT_TRUE(limits.hold(Bytes(1)));
  limits.release(Bytes(130), Bytes(40));
}

TEST(Limits, ChangedQuotaBitesAtOnceAndKeepsWhatIsInUse) {
  RequestLimiter limits;
  limits.set(quota(1000, 10));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limits.start(at(0)));
  limits.set(quota(1000, 5));
  EXPECT_TRUE(limits.start(at(0)));
  for (int i = 0; i < 6; ++i) limits.finish();
  EXPECT_FALSE(limits.start(at(0)));
  limits.set(quota(1));
  EXPECT_FALSE(limits.start(at(0)));  // what was left of 1000 is cut to one second's worth of the new rate
  EXPECT_TRUE(limits.start(at(0)));
}

TEST(Limits, MessageNamesWhoseFieldLimitAndRetry) {
  const ServiceName service{"na", "m"};
  const Error error = LimitRefusal{LimitKind::RequestRate, 50, Millis(20), LimitScope::Tenant}.toError(TenantName("a"), service);
  EXPECT_EQ(error.code, Code::ResourceExhausted);
  EXPECT_EQ(error.reason, "RequestRateExceeded");
  EXPECT_EQ(error.message,
            "tenant \"a\": quota.requestsPerSecond of 50 is in use; try again in 20 ms, or ask the platform for a larger quota.requestsPerSecond");
  EXPECT_EQ((LimitRefusal{LimitKind::QueuedTime, 2'500'000'000, Seconds(1), LimitScope::TenantAtService}.toError(TenantName("a"), service).message),
            "tenant \"a\" at service \"na/m\": tenantLimits.queuedSeconds of 2.5 is in use; try again in 1000 ms, or ask the service's owner for a "
            "larger tenantLimits.queuedSeconds");
}

TEST(Limits, BurstMayBeMoreOrLessThanASecondsWorth) {
  for (const std::int64_t burst : {1, 2, 10, 25}) {
    RequestLimiter limits;
    RequestLimits wanted = quota(10);
    wanted.burstRequests = burst;
    limits.set(wanted);
    const auto passedAt = [&](std::int64_t nanos) {
      std::int64_t passed = 0;
      while (!limits.start(at(nanos))) ++passed;
      return passed;
    };
    EXPECT_EQ(passedAt(0), burst);
    EXPECT_EQ(passedAt(99'999'999), 0) << burst;
    EXPECT_EQ(passedAt(100'000'000), 1) << burst;
    EXPECT_EQ(passedAt(100 * kSecond), burst) << "a pause fills the bucket and no more";
  }
}

TEST(Limits, BytesInFlightStayUntilTheEnd) {
  RequestLimiter limits(LimitScope::TenantAtService);
  RequestLimits wanted;
  wanted.inFlightBytes = Bytes(100);
  limits.set(wanted);
  EXPECT_FALSE(limits.hold(Bytes(80)));
  limits.release(Bytes(80), Bytes(0));  // dispatched
  const auto refused = limits.hold(Bytes(21));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, LimitKind::InFlightBytes);
  EXPECT_EQ(refused->field(), "tenantLimits.inFlightBytes");
  EXPECT_EQ(limits.roomForBytes(), Bytes(20));
  EXPECT_EQ(limits.queuedBytes(), Bytes(0)) << "a refused one holds nothing";
  limits.release(Bytes(0), Bytes(80));
  EXPECT_FALSE(limits.hold(Bytes(100)));
}

TEST(Limits, TheQueueIsBoundedInLengthAndInSeconds) {
  RequestLimiter limits;
  RequestLimits wanted;
  wanted.queuedRequests = 2;
  wanted.queuedTime = Seconds(3);
  limits.set(wanted);
  EXPECT_FALSE(limits.queueFull(Seconds(9))) << "nothing of its own waits";
  limits.enterQueue();
  const auto seconds = limits.queueFull(Seconds(5));
  ASSERT_TRUE(seconds);
  EXPECT_EQ(seconds->kind, LimitKind::QueuedTime);
  EXPECT_EQ(seconds->retryAfter, Seconds(2)) << "until as much has run";
  EXPECT_FALSE(limits.queueFull(Seconds(2)));
  limits.enterQueue();
  const auto length = limits.queueFull(Nanos(0));
  ASSERT_TRUE(length);
  EXPECT_EQ(length->kind, LimitKind::QueuedRequests);
  limits.leaveQueue();
  EXPECT_FALSE(limits.queueFull(Nanos(0)));
  limits.enterQueue();
  limits.enterQueue();  // one that was let in before waits again
  EXPECT_TRUE(limits.queueFull(Nanos(0)));
  const auto uses = limits.uses(at(0), Seconds(4));
  ASSERT_EQ(uses.size(), kAllLimits.size());
  EXPECT_EQ(uses[4].used, 3);
  EXPECT_EQ(uses[4].hits, 2);
  EXPECT_EQ(uses[5].used, Nanos(Seconds(4)).count());
  EXPECT_EQ(uses[5].hits, 1);
}

TEST(Limits, WhatIsUsedOfARateIsWhatItsBurstHasSpent) {
  RequestLimiter limits;
  limits.set(quota(2));
  EXPECT_FALSE(limits.start(at(0)));
  EXPECT_FALSE(limits.start(at(0)));
  EXPECT_TRUE(limits.start(at(0)));
  EXPECT_EQ(limits.uses(at(0), {}).front().used, 2);
  EXPECT_EQ(limits.uses(at(kSecond / 2), {}).front().used, 1);
  EXPECT_EQ(limits.uses(at(kSecond), {}).front().used, 0);
  EXPECT_EQ(limits.uses(at(kSecond), {}).front().hits, 1);
}

// Against the definition: in no window of t seconds are more than rate * (1 + t) requests let through, and a token that is due is never withheld.
RC_GTEST_PROP(LimitsProperty, NeverMoreThanRateAndBurstNeverLess, ()) {
  const auto rate = *rc::gen::inRange<std::int64_t>(1, 50);
  const auto gaps = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, kSecond / 5));
  RequestLimiter limits;
  limits.set(quota(rate));
  std::vector<std::int64_t> passed;
  std::int64_t now = 0;
  // Oracle: the bucket as an exact fraction, units of 1/kSecond request.
  std::int64_t level = rate * kSecond;
  for (const std::int64_t gap : gaps) {
    now += gap;
    level = std::min(rate * kSecond, level + gap * rate);
    const bool wanted = level >= kSecond;
    if (wanted) level -= kSecond;
    const bool got = !limits.start(at(now)).has_value();
    RC_ASSERT(got == wanted);
    if (got) passed.push_back(now);
  }
  for (std::size_t i = 0; i < passed.size(); ++i) {
    for (std::size_t j = i; j < passed.size(); ++j) {
      RC_ASSERT(static_cast<std::int64_t>(j - i + 1) * kSecond <= rate * (kSecond + passed[j] - passed[i]));
    }
  }
}

}  // namespace
}  // namespace coterie::tenancy
