#include "allocation/sizing.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "allocation/snapshot_builder.h"
#include "testing/machine_generator.h"

namespace coterie::allocation {
namespace {

using Amounts = std::vector<std::int64_t>;

struct Row {
  const char* what;
  std::vector<Share> shares;  // weight, low, high
  std::int64_t capacity;
  Amounts wanted;
};

TEST(WaterFill, Table) {
  const std::vector<Row> rows{
      {"equal weights share equally", {{100, 0, 9000}, {100, 0, 9000}}, 3000, {1500, 1500}},
      {"by weight", {{100, 0, 9000}, {300, 0, 9000}}, 4000, {1000, 3000}},
      {"what a ceiling leaves goes to the others", {{100, 0, 500}, {100, 0, 9000}, {100, 0, 9000}}, 3000, {500, 1250, 1250}},
      {"a floor lifts, the others give", {{100, 2000, 9000}, {100, 0, 9000}, {100, 0, 9000}}, 3000, {2000, 500, 500}},
      {"a floor below the fair share changes nothing", {{100, 900, 9000}, {100, 0, 9000}}, 3000, {1500, 1500}},
      {"everybody at the ceiling leaves the rest unused", {{100, 0, 500}, {100, 0, 700}}, 3000, {500, 700}},
      {"remainders go to the lowest", {{1, 0, 9000}, {1, 0, 9000}, {1, 0, 9000}}, 1000, {334, 333, 333}},
      {"nobody", {}, 3000, {}},
      {"floors use everything", {{100, 2000, 9000}, {100, 1000, 9000}}, 3000, {2000, 1000}},
      {"a floor equal to its ceiling", {{100, 700, 700}, {100, 0, 9000}}, 3000, {700, 2300}},
  };
  for (const Row& row : rows) EXPECT_EQ(waterFill(row.shares, row.capacity), row.wanted) << row.what;
}

// The level by bisection in floating point: the same vector up to rounding.
Amounts naive(const std::vector<Share>& shares, std::int64_t capacity) {
  const auto totalAt = [&](double level) {
    double total = 0;
    for (const Share& share : shares)
      total += std::clamp(level * static_cast<double>(share.weight), static_cast<double>(share.low), static_cast<double>(share.high));
    return total;
  };
  double low = 0;
  double high = 1e9;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (totalAt(middle) < static_cast<double>(capacity) ? low : high) = middle;
  }
  Amounts result;
  for (const Share& share : shares)
    result.push_back(
        std::llround(std::clamp(low * static_cast<double>(share.weight), static_cast<double>(share.low), static_cast<double>(share.high))));
  return result;
}

TEST(WaterFill, AgreesWithBisectionAndUsesTheWholeCapacity) {
  rc::check([] {
    const int count = *rc::gen::inRange(1, 9);
    std::vector<Share> shares;
    std::int64_t floors = 0;
    std::int64_t ceilings = 0;
    for (int i = 0; i < count; ++i) {
      const std::int64_t low = *rc::gen::inRange(0, 2000);
      const std::int64_t high = low + *rc::gen::inRange(0, 6000);
      shares.push_back({*rc::gen::inRange(1, 1000), low, high});
      floors += low;
      ceilings += high;
    }
    const std::int64_t capacity = floors + *rc::gen::inRange(0, 20000);
    const Amounts got = waterFill(shares, capacity);
    const Amounts wanted = naive(shares, capacity);
    RC_ASSERT(std::accumulate(got.begin(), got.end(), std::int64_t{0}) == std::min(capacity, ceilings));
    for (std::size_t i = 0; i < got.size(); ++i) {
      RC_ASSERT(got[i] >= shares[i].low);
      RC_ASSERT(got[i] <= shares[i].high);
      RC_ASSERT(std::abs(got[i] - wanted[i]) <= static_cast<std::int64_t>(got.size()));
    }
  });
}

struct Case {
  const char* what;
  int tenant;
  std::int64_t tenantWeight;
  std::int64_t weight;
  std::int64_t floor;
  std::int64_t ceiling;
};

Amounts entitledOf(const std::vector<Case>& cases, std::int64_t capacity) {
  static const Machine machine = testing::machineNamed("flat-2");
  SnapshotBuilder builder(machine);
  std::vector<const GroupState*> groups;
  for (const Case& one : cases) {
    GroupState& group = builder.group(one.tenant);
    group.tenantWeight = one.tenantWeight;
    group.weight = one.weight;
    group.floor = MilliCpu(one.floor);
    group.ceiling = MilliCpu(one.ceiling);
    groups.push_back(&group);
  }
  return entitlements(groups, std::vector<bool>(groups.size(), false), capacity);
}

constexpr std::int64_t kNoCeiling = 1'000'000;

TEST(Entitlements, TenantsFirstThenTheirGroups) {
  EXPECT_EQ(entitledOf({{"", 0, 100, 100, 0, kNoCeiling}, {"", 0, 100, 300, 0, kNoCeiling}, {"", 1, 100, 100, 0, kNoCeiling}}, 8000),
            (Amounts{1000, 3000, 4000}));
}
TEST(Entitlements, ATenantWithMoreGroupsGetsNoMore) {
  EXPECT_EQ(
      entitledOf(
          {{"", 0, 100, 100, 0, kNoCeiling}, {"", 1, 100, 100, 0, kNoCeiling}, {"", 1, 100, 100, 0, kNoCeiling}, {"", 1, 100, 100, 0, kNoCeiling}},
          6000),
      (Amounts{3000, 1000, 1000, 1000}));
}
TEST(Entitlements, ACeilingLeavesItsShareToTheSameTenantFirst) {
  EXPECT_EQ(entitledOf({{"", 0, 100, 100, 0, 500}, {"", 0, 100, 100, 0, kNoCeiling}, {"", 1, 100, 100, 0, kNoCeiling}}, 6000),
            (Amounts{500, 2500, 3000}));
}
TEST(Entitlements, AFloorOfAFractionAboveACpuCountsInWholeCpus) {
  EXPECT_EQ(entitledOf({{"", 0, 1, 100, 1500, kNoCeiling}, {"", 1, 1000, 100, 0, kNoCeiling}}, 4000), (Amounts{2000, 2000}));
}
TEST(Entitlements, NobodyIsEntitledToNothing) {
  const Amounts got = entitledOf({{"", 0, 10000, 100, 0, kNoCeiling}, {"", 1, 1, 100, 0, kNoCeiling}}, 2000);
  EXPECT_GE(got[1], 1);
}

// L2, by its definition: no thousandth can be moved from a tenant (or group of one tenant) with more per weight to one with less.
TEST(Entitlements, NoTransferMakesThemFairer) {
  rc::check([] {
    std::vector<Case> cases;
    std::array<std::int64_t, 3> weights{};
    for (auto& weight : weights) weight = *rc::gen::inRange(1, 500);
    const int count = *rc::gen::inRange(1, 8);
    std::int64_t floors = 0;
    for (int i = 0; i < count; ++i) {
      const int tenant = *rc::gen::inRange(0, 3);
      const std::int64_t floor = *rc::gen::element(0, 300, 1000, 2000);
      cases.push_back({"", tenant, weights[static_cast<std::size_t>(tenant)], *rc::gen::inRange(1, 500), floor,
                       std::max<std::int64_t>(floor, *rc::gen::element(400, 1500, 3000, 1000000))});
      floors += std::max<std::int64_t>(1, floor);
    }
    const std::int64_t capacity = floors + *rc::gen::inRange(0, 12000);
    const Amounts got = entitledOf(cases, capacity);
    for (std::size_t i = 0; i < got.size(); ++i) {
      for (std::size_t j = 0; j < got.size(); ++j) {
        if (cases[i].tenant != cases[j].tenant) continue;
        const bool canRise = got[i] + 1 < std::min(cases[i].ceiling, capacity);
        const bool canFall = got[j] - 1 > std::max<std::int64_t>(1, cases[j].floor);
        if (canRise && canFall) RC_ASSERT((got[i] + 2) * cases[j].weight >= (got[j] - 2) * cases[i].weight);
      }
    }
    std::array<std::int64_t, 3> sums{};
    std::array<std::int64_t, 3> lows{};
    std::array<std::int64_t, 3> highs{};
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto tenant = static_cast<std::size_t>(cases[i].tenant);
      sums[tenant] += got[i];
      lows[tenant] += std::max<std::int64_t>(1, cases[i].floor);
      highs[tenant] += std::min(cases[i].ceiling, capacity);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        if (sums[i] + 1 < highs[i] && sums[j] - 1 > lows[j]) RC_ASSERT((sums[i] + 2) * weights[j] >= (sums[j] - 2) * weights[i]);
      }
    }
  });
}

TEST(Pending, TheYoungestOfTheLowestBandAndNobodyWithoutNeed) {
  static const Machine machine = testing::machineNamed("flat-2");
  SnapshotBuilder builder(machine);
  const auto add = [&](Band band, std::int64_t floor) {
    GroupState& group = builder.group(0);
    group.band = band;
    group.floor = MilliCpu(floor);
  };
  add(Band::High, 1000);
  add(Band::Low, 1000);
  add(Band::Low, 1000);
  add(Band::Normal, 0);  // joined last, but its leaving would not help: others share the pool
  add(Band::Low, 0);
  std::vector<const GroupState*> groups;
  for (const GroupState& group : builder.snapshot.groups) groups.push_back(&group);
  EXPECT_EQ(choosePending(groups, 4), (std::vector<bool>{false, false, false, false, false}));
  EXPECT_EQ(choosePending(groups, 3), (std::vector<bool>{false, false, true, false, false}));
  EXPECT_EQ(choosePending(groups, 2), (std::vector<bool>{false, true, true, false, false}));
  EXPECT_EQ(choosePending(groups, 1), (std::vector<bool>{false, true, true, true, true}));
}

TEST(FloorCount, AsInAdmission) {
  FloorCount count;
  GroupState group;
  const auto with = [&](std::int64_t floor) {
    group.floor = MilliCpu(floor);
    count.add(group);
    return count.cpus();
  };
  EXPECT_EQ(count.cpus(), 0);
  EXPECT_EQ(with(0), 1);  // a pool has a CPU
  EXPECT_EQ(with(600), 1);
  EXPECT_EQ(with(600), 2);   // summed, then rounded up
  EXPECT_EQ(with(1001), 4);  // rounded up
}

Claimant claimant(int group, int tenant, std::int64_t entitlement, int held = 0, std::int64_t need = 1) {
  Claimant one;
  one.group = group;
  one.tenant = TenantId(tenant);
  one.entitlement = entitlement;
  one.held[0] = held;
  one.need = need;
  return one;
}
std::vector<int> counts(std::vector<Claimant> claimants, int cpus) {
  const Machine machine = testing::regularMachine("m", {1, 1, 0, cpus, 1});
  countWhole(claimants, makeLayout(machine, {}), 250);
  std::vector<int> result;
  for (const Claimant& one : claimants) result.push_back(one.total());
  return result;
}

TEST(Whole, Table) {
  EXPECT_EQ(counts({claimant(0, 0, 1500), claimant(1, 1, 1500)}, 3), (std::vector<int>{2, 1})) << "three CPUs, two equal tenants";
  EXPECT_EQ(counts({claimant(0, 0, 1500, 1), claimant(1, 1, 1500, 2)}, 3), (std::vector<int>{1, 2})) << "who holds the odd one keeps it";
  EXPECT_EQ(counts({claimant(0, 0, 1600, 1), claimant(1, 1, 1400, 2)}, 3), (std::vector<int>{1, 2})) << "200 more is not enough";
  EXPECT_EQ(counts({claimant(0, 0, 1625, 1), claimant(1, 1, 1375, 2)}, 3), (std::vector<int>{1, 2})) << "250 more is not more than 250";
  EXPECT_EQ(counts({claimant(0, 0, 1626, 1), claimant(1, 1, 1374, 2)}, 3), (std::vector<int>{2, 1})) << "252 more is";
  EXPECT_EQ(counts({claimant(0, 0, 1400), claimant(1, 0, 1400), claimant(2, 1, 1200)}, 4), (std::vector<int>{2, 1, 1}))
      << "tenants first: 800 beats 200";
  EXPECT_EQ(counts({claimant(0, 0, 3000), claimant(-1, -1, 1)}, 3), (std::vector<int>{2, 1})) << "a pool has a CPU, from whoever has most to spare";
  EXPECT_EQ(counts({claimant(0, 0, 2000, 0, 2), claimant(1, 0, 1999), claimant(-1, -1, 1)}, 4), (std::vector<int>{2, 1, 1})) << "not from a floor";
  EXPECT_EQ(counts({claimant(-1, -1, 1800)}, 4), (std::vector<int>{4})) << "only small shares: the pool is everything";
  EXPECT_EQ(counts({claimant(0, 0, 1500), claimant(1, 1, 1000)}, 8), (std::vector<int>{2, 1})) << "what ceilings leave stays free";
}

TEST(Whole, EqualTenantsShareEachKindEqually) {
  const Machine machine = testing::machineNamed("performance-efficiency");
  std::vector<Claimant> claimants{claimant(0, 0, 3000), claimant(1, 1, 3000)};
  countWhole(claimants, makeLayout(machine, {}), 250);
  for (const Claimant& one : claimants) {
    EXPECT_EQ(one.cpus[0], 2);
    EXPECT_EQ(one.cpus[1], 2);
  }
}

TEST(Whole, WhatOneKindOwesTheNextKindPays) {
  const Machine machine = testing::machineNamed("performance-efficiency");  // 4 of 1000, 4 of 500
  std::vector<Claimant> claimants;
  for (int i = 0; i < 6; ++i) claimants.push_back(claimant(i, i, 1000));
  countWhole(claimants, makeLayout(machine, {}), 250);
  for (const Claimant& one : claimants) EXPECT_EQ(one.cpus[0] * 1000 + one.cpus[1] * 500, 1000);
}

}  // namespace
}  // namespace coterie::allocation
