// Who has a class and which ways: a table, an oracle that looks at every division and every order, properties of random histories.
#include "allocation/cache_classes.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "base/rng.h"

namespace coterie::allocation {
namespace {

CacheControl controlOf(std::vector<CacheInstance> caches, int classes = 8, int leastWays = 1) {
  CacheControl control;
  control.caches = std::move(caches);
  control.classes = classes;
  control.leastWays = leastWays;
  return control;
}

const CacheInstance kTwelveWays{0, CpuSet::range(0, 7), 0xfff};
const CacheInstance kOtherTwelve{1, CpuSet::range(8, 15), 0xfff};

enum class Asks : std::uint8_t { Nothing, Ways, WaysAndBandwidth };
ClassClaim claimOf(int tenant, Asks asks, std::map<int, MilliCpu> owned, CpuSet near = {}) {
  return {TenantId(tenant), asks != Asks::Nothing, asks == Asks::WaysAndBandwidth, std::move(owned), std::move(near)};
}
const auto cpus = [](int count) { return MilliCpu(1000 * count); };

CacheWays waysOf(const ClassPlan& plan, std::optional<int> tenant, int cache = 0) {
  const ClassTarget* target = plan.of(tenant ? std::optional(TenantId(*tenant)) : std::nullopt);
  return target == nullptr || target->shares.count(cache) == 0 ? 0 : target->shares.at(cache).ways;
}

TEST(CacheClasses, WaysFollowTheCpusOwnedBelowEachCache) {
  struct Row {
    const char* what;
    std::vector<MilliCpu> weights;
    int ways, least;
    std::vector<int> wanted;
  };
  const std::vector<Row> rows{
      {"equal", {cpus(4), cpus(4)}, 12, 1, {6, 6}},
      {"by CPUs", {cpus(2), cpus(6)}, 12, 1, {3, 9}},
      {"the odd way to the lowest", {cpus(1), cpus(1)}, 11, 1, {6, 5}},
      {"the least is kept", {cpus(1), cpus(31)}, 12, 2, {2, 10}},
      {"what the small have beyond their share the large give in proportion", {cpus(1), cpus(20), cpus(10)}, 11, 2, {2, 6, 3}},
      {"just enough", {cpus(1), cpus(9), cpus(3)}, 6, 2, {2, 2, 2}},
      {"alone", {cpus(3)}, 20, 2, {20}},
      {"nobody", {}, 20, 2, {}},
  };
  for (const Row& row : rows) EXPECT_EQ(divideWays(row.ways, row.least, row.weights), row.wanted) << row.what;
}

TEST(CacheClasses, WhoAsksHasItsOwnAndTheOthersShareTheRest) {
  const CacheControl control = controlOf({kTwelveWays, kOtherTwelve});
  const ClassPlan plan = planClasses(control,
                                     {claimOf(1, Asks::Ways, {{0, cpus(4)}}), claimOf(2, Asks::Nothing, {{0, cpus(2)}, {1, cpus(4)}}),
                                      claimOf(3, Asks::Nothing, {{0, cpus(2)}, {1, cpus(4)}})},
                                     {});
  ASSERT_EQ(plan.classes.size(), 2U);
  EXPECT_EQ(waysOf(plan, 1), 0x03fU);
  EXPECT_EQ(waysOf(plan, std::nullopt), 0xfc0U);
  EXPECT_EQ(waysOf(plan, std::nullopt, 1), 0xfffU) << "where it is alone it has everything";
  EXPECT_EQ(waysOf(plan, 1, 1), 0x800U) << "a visitor: the least, at the end";
  EXPECT_TRUE(plan.without.empty());
}

TEST(CacheClasses, NobodyAsksOrNobodyElseIsThereThenThereAreNone) {
  const CacheControl control = controlOf({kTwelveWays});
  EXPECT_TRUE(planClasses(control, {claimOf(1, Asks::Nothing, {{0, cpus(4)}}), claimOf(2, Asks::Nothing, {{0, cpus(4)}})}, {}).classes.empty());
  EXPECT_TRUE(planClasses(control, {claimOf(1, Asks::Ways, {{0, cpus(4)}})}, {}).classes.empty());
  EXPECT_TRUE(planClasses(control, {}, {}).classes.empty());
  const ClassPlan none =
      planClasses(controlOf({kTwelveWays}, 0), {claimOf(1, Asks::Ways, {{0, cpus(4)}}), claimOf(2, Asks::Ways, {{0, cpus(4)}})}, {});
  EXPECT_TRUE(none.classes.empty());
  EXPECT_EQ(none.without.size(), 2U) << "they asked";
}

TEST(CacheClasses, OutOfClassesTheLargestHaveTheirOwnAndHoldersStay) {
  const CacheControl control = controlOf({kTwelveWays}, 3);
  std::vector<ClassClaim> claims;
  for (const int tenant : {1, 2, 3, 4}) claims.push_back(claimOf(tenant, Asks::Ways, {{0, cpus(tenant == 4 ? 3 : 2)}}));
  const ClassPlan plan = planClasses(control, claims, {});
  ASSERT_EQ(plan.classes.size(), 3U);
  EXPECT_NE(waysOf(plan, 4), 0U) << "it owns most";
  EXPECT_NE(waysOf(plan, 1), 0U) << "of equals the lowest";
  EXPECT_EQ(plan.without, (std::vector<TenantId>{TenantId(2), TenantId(3)}));
  ClassPlan before;
  before.classes = {{TenantId(3), {}}, {TenantId(4), {}}, {std::nullopt, {}}};
  const ClassPlan kept = planClasses(control, claims, before);
  EXPECT_NE(waysOf(kept, 3), 0U) << "of equals the one that has a class keeps it";
  const ClassPlan exact = planClasses(control, {claims[0], claims[1], claims[2]}, {});
  EXPECT_EQ(exact.classes.size(), 3U) << "nobody else is there, so nobody else needs one";
  EXPECT_TRUE(exact.without.empty());
}

TEST(CacheClasses, ACacheWithoutRoomForAllPutsTheSmallestTogether) {
  const CacheControl control = controlOf({{0, CpuSet::range(0, 7), 0x3f}}, 8, 2);  // six ways, two at least
  const ClassPlan plan = planClasses(control,
                                     {claimOf(1, Asks::Ways, {{0, cpus(2)}}), claimOf(2, Asks::Ways, {{0, cpus(3)}}),
                                      claimOf(3, Asks::Ways, {{0, cpus(2)}}), claimOf(4, Asks::Nothing, {{0, cpus(1)}})},
                                     {});
  ASSERT_EQ(plan.classes.size(), 3U);
  EXPECT_EQ(plan.without, std::vector<TenantId>{TenantId(3)});
  EXPECT_EQ(waysOf(plan, 1) | waysOf(plan, 2) | waysOf(plan, std::nullopt), 0x3fU);
}

// Falsified once in thousands of random histories: whoever a cache had no room for kept a class from the next in rank, who got it at the plan after.
TEST(CacheClasses, WhoHasNoRoomKeepsNoClassFromTheNext) {
  const CacheControl control = controlOf({{0, CpuSet::range(0, 7), 0x3}, kOtherTwelve}, 3, 2);
  const std::vector<ClassClaim> claims{claimOf(0, Asks::Ways, {{1, cpus(1)}}), claimOf(1, Asks::Ways, {{1, cpus(1)}}),
                                       claimOf(2, Asks::Ways, {{0, cpus(1)}}), claimOf(3, Asks::Nothing, {{0, cpus(1)}})};
  ClassPlan before;
  before.classes = {{TenantId(1), {}}, {TenantId(2), {}}};
  const ClassPlan plan = planClasses(control, claims, before);
  EXPECT_NE(plan.of(TenantId(0)), nullptr);
  EXPECT_NE(plan.of(TenantId(1)), nullptr);
  EXPECT_EQ(plan.without, std::vector<TenantId>{TenantId(2)});
  EXPECT_EQ(planClasses(control, claims, plan), plan);
}

TEST(CacheClasses, BandwidthOfTheOthersOnTheSameMemoryIsHeldOnlyWhereAsked) {
  CacheControl control = controlOf({kTwelveWays, kOtherTwelve});
  control.leastBandwidth = 10;
  control.bandwidthStep = 20;
  const auto bandwidth = [&](const ClassPlan& plan, std::optional<int> tenant, int cache) {
    return plan.of(tenant ? std::optional(TenantId(*tenant)) : std::nullopt)->shares.at(cache).bandwidth;
  };
  const ClassPlan asked = planClasses(
      control, {claimOf(1, Asks::WaysAndBandwidth, {{0, cpus(4)}}, kTwelveWays.cpus), claimOf(2, Asks::Nothing, {{0, cpus(4)}, {1, cpus(8)}})}, {});
  EXPECT_EQ(bandwidth(asked, 1, 0), 100);
  EXPECT_EQ(bandwidth(asked, std::nullopt, 0), 60) << "half, in the steps that there are";
  EXPECT_EQ(bandwidth(asked, std::nullopt, 1), 100) << "other memory";
  const ClassPlan not_asked = planClasses(control, {claimOf(1, Asks::Ways, {{0, cpus(4)}}), claimOf(2, Asks::Nothing, {{0, cpus(4)}})}, {});
  EXPECT_EQ(bandwidth(not_asked, std::nullopt, 0), 100);
  control.caches = {{0, kTwelveWays.cpus, 0}};  // bandwidth without ways
  const ClassPlan only =
      planClasses(control, {claimOf(1, Asks::WaysAndBandwidth, {{0, cpus(4)}}, kTwelveWays.cpus), claimOf(2, Asks::Nothing, {{0, cpus(4)}})}, {});
  EXPECT_EQ(waysOf(only, 1), 0U);
  EXPECT_EQ(bandwidth(only, std::nullopt, 0), 60);
}

TEST(CacheClasses, ANewcomerMovesAsFewMasksAsCanBe) {
  const CacheControl control = controlOf({kTwelveWays});
  const auto four = [](int a, int b, int c) {
    return std::vector<ClassClaim>{claimOf(1, Asks::Ways, {{0, cpus(a)}}), claimOf(2, Asks::Ways, {{0, cpus(b)}}),
                                   claimOf(3, Asks::Ways, {{0, cpus(c)}})};
  };
  const ClassPlan before = planClasses(control, four(2, 2, 4), {});
  ASSERT_EQ(waysOf(before, 3), 0xfc0U);
  // Tenant 2 has gone, tenant 4 has come with as much: it takes that place, and nobody moves.
  std::vector<ClassClaim> claims = four(2, 2, 4);
  claims[1].tenant = TenantId(4);
  const ClassPlan after = planClasses(control, claims, before);
  EXPECT_EQ(waysOf(after, 1), waysOf(before, 1));
  EXPECT_EQ(waysOf(after, 3), waysOf(before, 3));
  EXPECT_EQ(waysOf(after, 4), waysOf(before, 2));
}

// Every division by its squared distance to the exact shares (times their sum, so that it is a whole number).
std::int64_t distanceOf(int ways, const std::vector<MilliCpu>& weights, const std::vector<int>& given) {
  const std::int64_t sum = std::accumulate(weights.begin(), weights.end(), MilliCpu{}).value;
  std::int64_t distance = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int64_t off = given[i] * sum - ways * weights[i].value;
    distance += off * off;
  }
  return distance;
}
std::int64_t leastDistance(int ways, int least, const std::vector<MilliCpu>& weights) {
  std::int64_t best = INT64_MAX;
  std::vector<int> given;
  const std::function<void(int)> next = [&](int left) {
    if (given.size() == weights.size()) {
      if (left == 0) best = std::min(best, distanceOf(ways, weights, given));
      return;
    }
    for (int here = least; here <= left; ++here) {
      given.push_back(here);
      next(left - here);
      given.pop_back();
    }
  };
  next(ways);
  return best;
}

TEST(CacheClasses, TheDivisionIsTheNearestOfAll) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    std::vector<MilliCpu> weights(static_cast<std::size_t>(rng.between(1, 4)));
    for (MilliCpu& weight : weights) weight = MilliCpu(rng.between(1, 12) * 250);
    const int least = static_cast<int>(rng.between(1, 3));
    const int ways = static_cast<int>(rng.between(least * static_cast<int>(weights.size()), 14));
    const std::vector<int> given = divideWays(ways, least, weights);
    RC_ASSERT(std::accumulate(given.begin(), given.end(), 0) == ways);
    for (const int here : given) RC_ASSERT(here >= least);
    RC_ASSERT(distanceOf(ways, weights, given) == leastDistance(ways, least, weights));
  }));
}

int keptOf(const std::vector<CacheWays>& before, const std::vector<CacheWays>& after) {
  int kept = 0;
  for (std::size_t i = 0; i < after.size(); ++i) kept += after[i] == before[i] ? 1 : 0;
  return kept;
}
// Every order.
int mostKept(CacheWays room, const std::vector<int>& lengths, const std::vector<CacheWays>& before) {
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  int best = 0;
  do {
    int at = std::countr_zero(room);
    std::vector<CacheWays> laid(lengths.size());
    for (const std::size_t i : order) {
      laid[i] = ((CacheWays{1} << lengths[i]) - 1) << at;
      at += lengths[i];
    }
    best = std::max(best, keptOf(before, laid));
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(CacheClasses, NoOrderKeepsMoreMasks) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    std::vector<int> lengths(static_cast<std::size_t>(rng.between(1, 6)));
    for (int& length : lengths) length = static_cast<int>(rng.between(1, 4));
    const int ways = std::accumulate(lengths.begin(), lengths.end(), 0);
    const CacheWays room = ((CacheWays{1} << ways) - 1) << rng.between(0, 4);
    std::vector<CacheWays> before;
    for (const int length : lengths) {
      const int kind = static_cast<int>(rng.between(0, 3));
      before.push_back(kind == 0 ? 0 : ((CacheWays{1} << length) - 1) << rng.between(0, ways));
    }
    const std::vector<CacheWays> after = layWays(room, lengths, before);
    CacheWays all = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      RC_ASSERT(isRun(after[i]));
      RC_ASSERT(std::popcount(after[i]) == lengths[i]);
      RC_ASSERT((all & after[i]) == 0U);
      all |= after[i];
    }
    RC_ASSERT(all == room);
    RC_ASSERT(keptOf(before, after) == mostKept(room, lengths, before));
  }));
}

// A machine of some caches, tenants that come, go, grow and change their mind: after each plan the invariants, whoever is named first.
void checkPlan(const CacheControl& control, const std::vector<ClassClaim>& claims, const ClassPlan& plan) {
  RC_ASSERT(static_cast<int>(plan.classes.size()) <= std::max(0, control.classes));
  for (const ClassTarget& target : plan.classes) {
    const auto claim = std::find_if(claims.begin(), claims.end(), [&](const ClassClaim& one) { return one.tenant == target.tenant; });
    RC_ASSERT(!target.tenant || (claim != claims.end() && claim->own));
  }
  if (plan.classes.empty()) return;
  for (const CacheInstance& cache : control.caches) {
    CacheWays all = 0;
    bool owners = false;
    for (const ClassTarget& target : plan.classes) {
      MilliCpu owned;
      for (const ClassClaim& claim : claims) {
        const bool here = target.tenant ? claim.tenant == *target.tenant : plan.of(claim.tenant) == nullptr;
        if (here && claim.owned.count(cache.id) > 0) owned += claim.owned.at(cache.id);
      }
      const CacheWays ways = target.shares.at(cache.id).ways;
      RC_ASSERT(isRun(ways));
      RC_ASSERT((ways & ~cache.ways) == 0U);
      RC_ASSERT(std::popcount(ways) >= control.leastWays);
      if (owned.value == 0) continue;
      owners = true;
      RC_ASSERT((all & ways) == 0U);
      all |= ways;
    }
    RC_ASSERT(!owners || all == cache.ways);
  }
}

TEST(CacheClasses, AnyHistoryKeepsTheInvariantsAndSettles) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    Rng rng(seed);
    CacheControl control;
    control.leastWays = static_cast<int>(rng.between(1, 2));
    control.classes = static_cast<int>(rng.between(0, 8));
    const int caches = static_cast<int>(rng.between(1, 4));
    for (int c = 0; c < caches; ++c) {
      const int ways = static_cast<int>(rng.between(2, 20));
      control.caches.push_back({c * 3, CpuSet::range(8 * c, 8 * c + 7), ((CacheWays{1} << ways) - 1) << rng.between(0, 3)});
    }
    std::map<int, ClassClaim> claims;
    ClassPlan plan;
    for (int step = 0; step < 20; ++step) {
      const int tenant = static_cast<int>(rng.between(0, 9));
      ClassClaim claim = claimOf(tenant, rng.chance(60) ? Asks::Ways : Asks::Nothing, {});
      for (const CacheInstance& cache : control.caches) {
        if (rng.chance(50)) claim.owned[cache.id] = MilliCpu(rng.between(1, 8) * 1000);
      }
      if (rng.chance(30)) {
        claims.erase(tenant);
      } else {
        claims[tenant] = claim;
      }
      std::vector<ClassClaim> all;
      for (const auto& [id, one] : claims) all.push_back(one);
      const ClassPlan next = planClasses(control, all, plan);
      checkPlan(control, all, next);
      RC_ASSERT(planClasses(control, all, next) == next);
      std::reverse(all.begin(), all.end());
      RC_ASSERT(planClasses(control, all, plan) == next);
      plan = next;
    }
  }));
}

}  // namespace
}  // namespace coterie::allocation
