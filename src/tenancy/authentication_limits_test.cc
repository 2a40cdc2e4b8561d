#include "tenancy/authentication_limits.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace coterie::tenancy {
namespace {

const Source kA{0, 1};
const Source kB{0, 2};
Instant at(std::int64_t nanos) { return Instant(Nanos(nanos)); }
constexpr std::int64_t kSecond = 1'000'000'000;

AuthenticationLimitOptions bounds(std::int64_t burst, std::int64_t perSecond, std::size_t sources = 8, std::size_t goodKeys = 8) {
  AuthenticationLimitOptions options;
  options.burst = burst;
  options.perSecond = perSecond;
  options.sources = sources;
  options.goodKeys = goodKeys;
  return options;
}

// As the gateway asks: true where the key was looked at.
bool attempt(AuthenticationLimits& limits, const Source& source, Instant now, const std::string& key = "bad") {
  if (limits.refuses(source, key, now)) return false;
  limits.failed(source, key, now);
  return true;
}

// How many of `attempts`, one every `gap`, are looked at.
TEST(AuthenticationLimits, BurstThenRate) {
  struct Row {
    std::int64_t burst, perSecond, gap;
    int attempts, lookedAt;
  };
  for (const Row& row : std::vector<Row>{
           {20, 2, 0, 1000, 20},                 // the defaults, all at once
           {20, 2, kSecond / 100, 1001, 40},     // 10 s of a flood: the burst, and 2 a second
           {20, 2, kSecond / 2, 1000, 1000},     // as fast as it fills
           {1, 1, kSecond, 50, 50},              //
           {1, 1, kSecond - 1, 50, 25},          // a nanosecond too early, so every other one
           {3, 1000, 0, 100, 3},                 //
           {0, 2, 0, 1000, 1000},                // no limit
           {1'000'000, 1'000'000, 0, 500, 500},  //
       }) {
    AuthenticationLimits limits(bounds(row.burst, row.perSecond));
    int lookedAt = 0;
    for (int i = 0; i < row.attempts; ++i) lookedAt += attempt(limits, kA, at(i * row.gap)) ? 1 : 0;
    EXPECT_EQ(lookedAt, row.lookedAt) << row.burst << " " << row.perSecond << " " << row.gap;
  }
}

TEST(AuthenticationLimits, RetryTimeIsTrueToTheNanosecondAndARefusalTakesNothing) {
  for (const std::int64_t rate : {1, 2, 3, 7, 997, 1'000'000}) {
    AuthenticationLimits limits(bounds(1, rate));
    EXPECT_TRUE(attempt(limits, kA, at(0)));
    const auto wait = limits.refuses(kA, "bad", at(0));
    ASSERT_TRUE(wait);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(attempt(limits, kA, at(wait->count() - 1))) << rate;
    EXPECT_TRUE(attempt(limits, kA, at(wait->count()))) << rate;
  }
}

TEST(AuthenticationLimits, SourcesAreApart) {
  AuthenticationLimits limits(bounds(2, 1));
  while (attempt(limits, kA, at(0))) {
  }
  EXPECT_TRUE(attempt(limits, kB, at(0)));
  EXPECT_TRUE(attempt(limits, Source{1, 1}, at(0)));  // the same network of another kind
}

TEST(AuthenticationLimits, AKeyThatWasGoodWithinTheMinutePassesFromThereOnly) {
  AuthenticationLimits limits(bounds(1, 1));
  limits.succeeded(kA, "good", at(0));
  EXPECT_EQ(limits.sourcesKept(), 0U);  // only failures take a place
  EXPECT_TRUE(attempt(limits, kA, at(60 * kSecond)));
  EXPECT_TRUE(attempt(limits, kB, at(60 * kSecond)));
  EXPECT_FALSE(limits.refuses(kA, "good", at(60 * kSecond)));
  EXPECT_TRUE(limits.refuses(kA, "good2", at(60 * kSecond)));
  EXPECT_TRUE(limits.refuses(kA, "goo", at(60 * kSecond)));
  EXPECT_TRUE(limits.refuses(kB, "good", at(60 * kSecond)));
  EXPECT_TRUE(limits.refuses(kA, "good", at(60 * kSecond + 1)));  // a minute is over
  limits.succeeded(kA, "good", at(60 * kSecond));                 // and each success begins another
  EXPECT_FALSE(limits.refuses(kA, "good", at(60 * kSecond + 1)));
}

TEST(AuthenticationLimits, AKeyThatStoppedBeingGoodIsForgotten) {
  AuthenticationLimits limits(bounds(1, 1));
  limits.succeeded(kA, "revoked", at(0));
  EXPECT_TRUE(attempt(limits, kA, at(0)));
  EXPECT_TRUE(attempt(limits, kA, at(0), "revoked"));  // let through to be looked at, once
  EXPECT_FALSE(attempt(limits, kA, at(0), "revoked"));
  EXPECT_EQ(limits.goodKeysKept(), 0U);
}

TEST(AuthenticationLimits, TablesAreBoundedAndTheOldestGivesWay) {
  AuthenticationLimits limits(bounds(1, 1, 2, 2));
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(attempt(limits, {0, n}, at(static_cast<std::int64_t>(n))));
  EXPECT_EQ(limits.sourcesKept(), 2U);
  EXPECT_FALSE(limits.refuses({0, 0}, "bad", at(3)));  // gave way
  EXPECT_TRUE(limits.refuses({0, 1}, "bad", at(3)));
  for (const char* key : {"k1", "k2", "k1", "k3"}) limits.succeeded({0, 1}, key, at(3));
  EXPECT_EQ(limits.goodKeysKept(), 2U);
  EXPECT_FALSE(limits.refuses({0, 1}, "k1", at(3)));
  EXPECT_TRUE(limits.refuses({0, 1}, "k2", at(3)));
}

TEST(AuthenticationLimits, TimeThatGoesBackFillsNothing) {
  AuthenticationLimits limits(bounds(1, 1));
  EXPECT_TRUE(attempt(limits, kA, at(5 * kSecond)));
  EXPECT_FALSE(attempt(limits, kA, at(0)));
  EXPECT_FALSE(attempt(limits, kA, at(6 * kSecond - 1)));
  EXPECT_TRUE(attempt(limits, kA, at(6 * kSecond)));
}

// The same in the plainest way: vectors, keys as they are, tokens counted a millisecond at a time.
class Oracle {
 public:
  explicit Oracle(const AuthenticationLimitOptions& options) : options_(options) {}
  bool refuses(std::uint64_t source, const std::string& key, std::int64_t millis) {
    fill(millis);
    const auto failing = std::find_if(failing_.begin(), failing_.end(), [&](const Failing& each) { return each.source == source; });
    if (failing == failing_.end() || failing->milliTokens >= 1000) return false;
    return std::none_of(good_.begin(), good_.end(),
                        [&](const Good& each) { return each.source == source && each.key == key && millis - each.millis <= 60'000; });
  }
  void failed(std::uint64_t source, const std::string& key, std::int64_t millis) {
    fill(millis);
    std::erase_if(good_, [&](const Good& each) { return each.source == source && each.key == key; });
    Failing it{source, options_.burst * 1000};
    for (const Failing& each : failing_) {
      if (each.source == source) it = each;
    }
    std::erase_if(failing_, [&](const Failing& each) { return each.source == source; });
    if (failing_.size() == options_.sources) failing_.erase(failing_.begin());
    it.milliTokens = std::max<std::int64_t>(0, it.milliTokens - 1000);
    failing_.push_back(it);
  }
  void succeeded(std::uint64_t source, const std::string& key, std::int64_t millis) {
    std::erase_if(good_, [&](const Good& each) { return each.source == source && each.key == key; });
    if (good_.size() == options_.goodKeys) good_.erase(good_.begin());
    good_.push_back({source, key, millis});
  }

 private:
  struct Failing {
    std::uint64_t source;
    std::int64_t milliTokens;
  };
  struct Good {
    std::uint64_t source;
    std::string key;
    std::int64_t millis;
  };
  void fill(std::int64_t millis) {
    for (Failing& each : failing_) each.milliTokens = std::min(options_.burst * 1000, each.milliTokens + (millis - filled_) * options_.perSecond);
    filled_ = millis;
  }
  AuthenticationLimitOptions options_;
  std::vector<Failing> failing_;  // the latest last
  std::vector<Good> good_;
  std::int64_t filled_{0};
};

RC_GTEST_PROP(AuthenticationLimitsProperty, DecidesAsTheOracle, ()) {
  const auto options = bounds(*rc::gen::inRange<std::int64_t>(1, 5), *rc::gen::inRange<std::int64_t>(1, 4), *rc::gen::inRange<std::size_t>(1, 4),
                              *rc::gen::inRange<std::size_t>(1, 5));
  AuthenticationLimits limits(options);
  Oracle oracle(options);
  std::int64_t millis = 0;
  int refused = 0;
  for (int step = 0; step < 200; ++step) {
    millis += *rc::gen::weightedOneOf<std::int64_t>(
        {{6, rc::gen::just<std::int64_t>(0)}, {3, rc::gen::inRange<std::int64_t>(0, 1200)}, {1, rc::gen::inRange<std::int64_t>(0, 61'000)}});
    const std::uint64_t source = *rc::gen::inRange<std::uint64_t>(0, 5);
    const std::string key(1, *rc::gen::inRange('a', 'e'));
    const bool good = *rc::gen::inRange(0, 4) == 0;
    const Instant now = at(millis * 1'000'000);
    const bool refuses = limits.refuses({0, source}, key, now).has_value();
    RC_ASSERT(refuses == oracle.refuses(source, key, millis));
    if (refuses) {
      ++refused;
    } else if (good) {
      limits.succeeded({0, source}, key, now);
      oracle.succeeded(source, key, millis);
    } else {
      limits.failed({0, source}, key, now);
      oracle.failed(source, key, millis);
    }
    RC_ASSERT(limits.sourcesKept() <= options.sources);
    RC_ASSERT(limits.goodKeysKept() <= options.goodKeys);
  }
  RC_CLASSIFY(refused > 20);
}

}  // namespace
}  // namespace coterie::tenancy
