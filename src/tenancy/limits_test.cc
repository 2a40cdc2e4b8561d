#include "tenancy/limits.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace coterie::tenancy {
namespace {

const TenantId kA(0);
const TenantId kB(1);
Instant at(std::int64_t nanos) { return Instant(Nanos(nanos)); }
constexpr std::int64_t kSecond = 1'000'000'000;

TenantQuota quota(std::int64_t rate, std::int64_t concurrent = 0, std::int64_t bytes = 0) {
  TenantQuota q;
  q.requestsPerSecond = rate;
  q.concurrentRequests = concurrent;
  q.queuedBytes = Bytes(bytes);
  return q;
}

TEST(Limits, NoQuotaIsNoLimit) {
  TenantLimits limits;
  limits.setTenant(kA, {});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limits.start(kA, at(0)));
  EXPECT_FALSE(limits.queue(kA, Bytes(std::int64_t{1} << 60)));
}

TEST(Limits, BurstIsOneSecondsWorthThenExactSpacing) {
  TenantLimits limits;
  limits.setTenant(kA, quota(3));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(limits.start(kA, at(0)));
  const auto refused = limits.start(kA, at(0));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, LimitKind::RequestRate);
  EXPECT_EQ(refused->limit, 3);
  EXPECT_EQ(refused->retryAfter, Nanos(333'333'334));  // a third of a second, rounded up to what is surely enough
  EXPECT_TRUE(limits.start(kA, at(333'333'333)));
  EXPECT_FALSE(limits.start(kA, at(333'333'334)));
}

TEST(Limits, RetryTimeIsTrueToTheNanosecond) {
  for (const std::int64_t rate : {1, 2, 3, 7, 997, 100'000}) {
    TenantLimits limits;
    limits.setTenant(kA, quota(rate));
    while (!limits.start(kA, at(0))) {
    }
    const auto refused = limits.start(kA, at(0));
    ASSERT_TRUE(refused);
    EXPECT_TRUE(limits.start(kA, at(refused->retryAfter.count() - 1))) << rate;
    EXPECT_FALSE(limits.start(kA, at(refused->retryAfter.count()))) << rate;
  }
}

TEST(Limits, ConcurrencyCountsFromStartToFinishAndTakesNoToken) {
  TenantLimits limits;
  limits.setTenant(kA, quota(2, 1));
  EXPECT_FALSE(limits.start(kA, at(0)));
  for (int i = 0; i < 5; ++i) {
    const auto refused = limits.start(kA, at(0));
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->kind, LimitKind::Concurrency);
  }
  limits.finish(kA);
  EXPECT_FALSE(limits.start(kA, at(0)));  // the second token is still there
  EXPECT_EQ(limits.concurrent(kA), 1);
}

TEST(Limits, BytesAreExactAndOverflowSafe) {
  TenantLimits limits;
  limits.setTenant(kA, quota(0, 0, 100));
  EXPECT_FALSE(limits.queue(kA, Bytes(60)));
  EXPECT_TRUE(limits.queue(kA, Bytes(41)));
  EXPECT_TRUE(limits.queue(kA, Bytes(std::numeric_limits<std::int64_t>::max())));
  EXPECT_FALSE(limits.queue(kA, Bytes(40)));
  limits.unqueue(kA, Bytes(60));
  EXPECT_EQ(limits.queuedBytes(kA), Bytes(40));
  limits.queueAgain(kA, Bytes(90));
  EXPECT_EQ(limits.queuedBytes(kA), Bytes(130)) << "let in before";
  EXPECT_TRUE(limits.queue(kA, Bytes(1)));
  limits.unqueue(kA, Bytes(130));
}

TEST(Limits, OneTenantsUseIsNotAnothers) {
  TenantLimits limits;
  limits.setTenant(kA, quota(1, 1, 10));
  limits.setTenant(kB, quota(1, 1, 10));
  EXPECT_FALSE(limits.start(kA, at(0)));
  EXPECT_TRUE(limits.start(kA, at(0)));
  EXPECT_FALSE(limits.start(kB, at(0)));
}

TEST(Limits, ChangedQuotaBitesAtOnceAndKeepsWhatIsInUse) {
  TenantLimits limits;
  limits.setTenant(kA, quota(1000, 10));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limits.start(kA, at(0)));
  limits.setTenant(kA, quota(1000, 5));
  EXPECT_TRUE(limits.start(kA, at(0)));
  for (int i = 0; i < 6; ++i) limits.finish(kA);
  EXPECT_FALSE(limits.start(kA, at(0)));
  limits.setTenant(kA, quota(1));
  EXPECT_FALSE(limits.start(kA, at(0)));  // what was left of 1000 is cut to one second's worth of the new rate
  EXPECT_TRUE(limits.start(kA, at(0)));
}

TEST(Limits, MessageNamesFieldLimitAndRetry) {
  const Error error = LimitRefusal{LimitKind::RequestRate, 50, Millis(20)}.toError();
  EXPECT_EQ(error.code, Code::ResourceExhausted);
  EXPECT_EQ(error.reason, "RequestRateExceeded");
  EXPECT_EQ(error.message, "the tenant's quota.requestsPerSecond of 50 is in use; try again in 20 ms, or ask for a larger quota.requestsPerSecond");
}

// Against the definition: in no window of t seconds are more than rate * (1 + t) requests let through, and a token that is due is never withheld.
RC_GTEST_PROP(LimitsProperty, NeverMoreThanRateAndBurstNeverLess, ()) {
  const auto rate = *rc::gen::inRange<std::int64_t>(1, 50);
  const auto gaps = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, kSecond / 5));
  TenantLimits limits;
  limits.setTenant(kA, quota(rate));
  std::vector<std::int64_t> passed;
  std::int64_t now = 0;
  // Oracle: the bucket as an exact fraction, units of 1/kSecond request.
  std::int64_t level = rate * kSecond;
  for (const std::int64_t gap : gaps) {
    now += gap;
    level = std::min(rate * kSecond, level + gap * rate);
    const bool wanted = level >= kSecond;
    if (wanted) level -= kSecond;
    const bool got = !limits.start(kA, at(now)).has_value();
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
