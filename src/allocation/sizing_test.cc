#include "allocation/sizing.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "allocation/floor_room.h"
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
  EXPECT_TRUE(rc::check([] {
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
  }));
}

struct Case {
  const char* what;
  int tenant;
  std::int64_t tenantWeight;
  std::int64_t weight;
  std::int64_t floor;
  std::int64_t ceiling;
  std::int64_t cap{0};
};

Entitlements sizedOf(const std::vector<Case>& cases, std::int64_t capacity, std::int64_t grain = 1000) {
  static const Machine machine = testing::machineNamed("flat-2");
  SnapshotBuilder builder(machine);
  std::vector<const GroupState*> groups;
  for (const Case& one : cases) {
    GroupState& group = builder.group(one.tenant);
    group.tenantWeight = one.tenantWeight;
    group.weight = one.weight;
    group.floor = MilliCpu(one.floor);
    group.ceiling = MilliCpu(one.ceiling);
    group.tenantCap = MilliCpu(one.cap);
    groups.push_back(&group);
  }
  return entitlements(groups, std::vector<bool>(groups.size(), false), capacity, grain);
}
Amounts entitledOf(const std::vector<Case>& cases, std::int64_t capacity, std::int64_t grain = 1000) { return sizedOf(cases, capacity, grain).milli; }

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
TEST(Entitlements, TheWholeCpusOfAFloorAreOwnedWhateverTheCeiling) {
  EXPECT_EQ(entitledOf({{"", 0, 1, 100, 1500, 1500}, {"", 1, 1000, 100, 0, kNoCeiling}}, 4000), (Amounts{2000, 2000}));
}
TEST(Entitlements, NobodyIsEntitledToNothing) {
  const Amounts got = entitledOf({{"", 0, 10000, 100, 0, kNoCeiling}, {"", 1, 1, 100, 0, kNoCeiling}}, 2000);
  EXPECT_GE(got[1], 1);
}

// L2, by its definition: no thousandth can be moved from a tenant (or group of one tenant) with more per weight to one with less.
TEST(Entitlements, NoTransferMakesThemFairer) {
  EXPECT_TRUE(rc::check([] {
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
  }));
}

struct CapRow {
  const char* what;
  std::vector<Case> cases;  // tenant, tenant weight, weight, floor, ceiling, cap
  std::int64_t capacity;
  Amounts wanted;
  std::vector<bool> stopped;
};

TEST(Caps, Table) {
  constexpr std::int64_t kMax = kNoCeiling;
  const std::vector<CapRow> rows{
      {"three services with a ceiling of 2 under quota.cpus 2 share the 2",
       {{"", 0, 100, 100, 0, 2000, 2000}, {"", 0, 100, 100, 0, 2000, 2000}, {"", 0, 100, 100, 0, 2000, 2000}},
       8000,
       {667, 667, 666},
       {true, true, true}},
      {"what the cap leaves goes to the others",
       {{"", 0, 100, 100, 0, kMax, 2000}, {"", 1, 100, 100, 0, kMax, 0}},
       8000,
       {2000, 6000},
       {true, false}},
      {"a cap above the fair share changes nothing",
       {{"", 0, 100, 100, 0, kMax, 5000}, {"", 1, 100, 100, 0, kMax, 0}},
       8000,
       {4000, 4000},
       {false, false}},
      {"within the tenant by weight", {{"", 0, 1, 300, 0, kMax, 4000}, {"", 0, 1, 100, 0, kMax, 4000}}, 8000, {3000, 1000}, {true, true}},
      {"a ceiling below its part leaves the rest of the cap to its siblings",
       {{"", 0, 100, 100, 0, 500, 3500}, {"", 0, 100, 100, 0, kMax, 3500}},
       8000,
       {500, 3000},
       {false, true}},
      {"a cap below a CPU is a share of the pool",
       {{"", 0, 100, 100, 0, kMax, 600}, {"", 1, 100, 100, 0, kMax, 0}},
       4000,
       {600, 3400},
       {true, false}},
      {"the fraction of a cap goes to a pool member",
       {{"", 0, 1, 400, 0, kMax, 2500}, {"", 0, 1, 100, 0, kMax, 2500}},
       8000,
       {2000, 500},
       {true, true}},
      {"of a fraction that only exclusive groups could have, nobody can own a part",
       {{"", 0, 100, 100, 0, kMax, 2500}, {"", 0, 100, 100, 0, kMax, 2500}, {"", 1, 100, 100, 0, kMax, 0}},
       8000,
       {1000, 1000, 6000},
       {true, true, false}},
      {"two groups whose fractions make a CPU keep it",
       {{"", 0, 1, 1, 0, kMax, 3000}, {"", 0, 1, 1, 0, kMax, 3000}},
       8000,
       {1500, 1500},
       {true, true}},
      {"floors above the cap stay, and nothing above them",
       {{"", 0, 100, 100, 2000, kMax, 1000}, {"", 0, 100, 100, 300, kMax, 1000}, {"", 1, 100, 100, 0, kMax, 0}},
       8000,
       {2000, 300, 5700},
       {true, true, false}},
      {"a floor below the cap rises to it", {{"", 0, 100, 100, 1500, kMax, 3000}, {"", 1, 100, 100, 0, kMax, 0}}, 8000, {3000, 5000}, {true, false}},
      {"all capped: the rest is nobody's", {{"", 0, 100, 100, 0, kMax, 1000}, {"", 1, 100, 100, 0, kMax, 2000}}, 8000, {1000, 2000}, {true, true}},
      {"at its own ceiling it is not the cap that stops it", {{"", 0, 100, 100, 0, 1000, 1000}}, 8000, {1000}, {false}},
      {"of two caps of one tenant the smaller holds", {{"", 0, 1, 1, 0, kMax, 3000}, {"", 0, 1, 1, 0, kMax, 2000}}, 8000, {1000, 1000}, {true, true}},
  };
  for (const CapRow& row : rows) {
    const Entitlements got = sizedOf(row.cases, row.capacity);
    EXPECT_EQ(got.milli, row.wanted) << row.what;
    EXPECT_EQ(got.stoppedByCap, row.stopped) << row.what;
  }
}

std::vector<Case> someCappedCases(std::int64_t& floors) {
  std::vector<Case> cases;
  std::array<std::int64_t, 3> weights{};
  std::array<std::int64_t, 3> caps{};
  for (auto& weight : weights) weight = *rc::gen::inRange(1, 500);
  for (auto& cap : caps) cap = *rc::gen::element(0, 1, 999, 1000, 1001, 2000, 2500, 4000, 7300);
  const int count = *rc::gen::inRange(1, 8);
  for (int i = 0; i < count; ++i) {
    const auto tenant = static_cast<std::size_t>(*rc::gen::inRange(0, 3));
    const std::int64_t floor = *rc::gen::element(0, 0, 0, 300, 1000, 1500, 2000);
    cases.push_back({"", static_cast<int>(tenant), weights[tenant], *rc::gen::inRange(1, 500), floor,
                     std::max<std::int64_t>(floor, *rc::gen::element(400, 1500, 3000, 1000000)), caps[tenant]});
    floors += floor >= 1000 ? cpusForFloor(MilliCpu(floor)) * 1000 : std::max<std::int64_t>(1, floor);
  }
  return cases;
}

TEST(Caps, HoldAndLoseLessThanACpuAndTakeNothingFromOthers) {
  EXPECT_TRUE(rc::check([] {
    std::int64_t floors = 0;
    const std::vector<Case> cases = someCappedCases(floors);
    const std::int64_t capacity = floors + *rc::gen::inRange(0, 12000);
    std::vector<Case> uncapped = cases;
    for (Case& one : uncapped) one.cap = 0;
    const Entitlements got = sizedOf(cases, capacity);
    const Amounts without = entitledOf(uncapped, capacity);
    std::array<std::int64_t, 3> counted{};
    std::array<std::int64_t, 3> free{};  // what each tenant had with no cap
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const auto tenant = static_cast<std::size_t>(cases[i].tenant);
      const std::int64_t floor = cases[i].floor;
      const std::int64_t low = floor >= 1000 ? cpusForFloor(MilliCpu(floor)) * 1000 : std::max<std::int64_t>(1, floor);
      counted[tenant] += low;
      free[tenant] += without[i];
      RC_ASSERT(got.milli[i] >= low);
      RC_ASSERT(got.milli[i] <= std::min(std::max(low, cases[i].ceiling), capacity));
      if (cases[i].cap == 0) RC_ASSERT(got.milli[i] + 8 >= without[i]);
    }
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].cap == 0) continue;
      const auto tenant = static_cast<std::size_t>(cases[i].tenant);
      const Entitlements::Tenant& part = got.tenants[static_cast<std::size_t>(got.tenantOf[i])];
      RC_ASSERT(part.total <= std::max(cases[i].cap, counted[tenant]));
      RC_ASSERT(part.limit == std::max(cases[i].cap, counted[tenant]));
      RC_ASSERT(part.total + 1000 > std::min(free[tenant], cases[i].cap));
      RC_ASSERT(!got.stoppedByCap[i] || part.total + 1000 > cases[i].cap);
    }
  }));
}

// L2 by enumeration: every division of the capacity in steps of kStep; none is fairer (tenants by weight, then groups within) than what we give. Caps
// in fractions of a CPU are then plain ends, so grain 1.
constexpr std::int64_t kStep = 100;

std::vector<double> fairness(const std::vector<Case>& cases, const Amounts& amounts) {
  std::vector<double> key;
  std::array<std::int64_t, 2> sums{};
  for (std::size_t i = 0; i < cases.size(); ++i) sums[static_cast<std::size_t>(cases[i].tenant)] += amounts[i];
  for (const Case& one : cases) {
    if (&one != cases.data() && one.tenant == (&one - 1)->tenant) continue;
    key.push_back(static_cast<double>(sums[static_cast<std::size_t>(one.tenant)]) / static_cast<double>(one.tenantWeight));
  }
  std::sort(key.begin(), key.end());
  for (int tenant = 0; tenant < 2; ++tenant) {
    const std::size_t start = key.size();
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (cases[i].tenant == tenant) key.push_back(static_cast<double>(amounts[i]) / static_cast<double>(cases[i].weight));
    }
    std::sort(key.begin() + static_cast<std::ptrdiff_t>(start), key.end());
  }
  return key;
}

bool feasible(const std::vector<Case>& cases, const Amounts& amounts, std::int64_t capacity) {
  std::array<std::int64_t, 2> sums{};
  std::array<std::int64_t, 2> floors{};
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (amounts[i] < cases[i].floor || amounts[i] > cases[i].ceiling) return false;
    sums[static_cast<std::size_t>(cases[i].tenant)] += amounts[i];
    floors[static_cast<std::size_t>(cases[i].tenant)] += cases[i].floor;
  }
  for (const Case& one : cases) {
    const auto tenant = static_cast<std::size_t>(one.tenant);
    if (one.cap > 0 && sums[tenant] > std::max(one.cap, floors[tenant])) return false;
  }
  return sums[0] + sums[1] <= capacity;
}

TEST(Caps, NoDivisionIsFairer) {
  EXPECT_TRUE(rc::check([] {
    const std::array<std::int64_t, 2> tenantWeights{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4)};
    const std::array<std::int64_t, 2> caps{kStep * *rc::gen::inRange(0, 12), kStep * *rc::gen::inRange(0, 12)};
    const int ofFirst = *rc::gen::inRange(1, 3);
    std::vector<Case> cases;
    std::int64_t floors = 0;
    for (int i = 0; i < 3; ++i) {
      const auto tenant = static_cast<std::size_t>(i < ofFirst ? 0 : 1);
      const std::int64_t floor = kStep * *rc::gen::element(0, 0, 1, 3);
      cases.push_back({"", static_cast<int>(tenant), tenantWeights[tenant], *rc::gen::inRange(1, 4), floor, floor + kStep * *rc::gen::inRange(1, 15),
                       caps[tenant]});
      floors += std::max<std::int64_t>(1, floor);
    }
    const std::int64_t capacity = (floors + kStep - 1) / kStep * kStep + kStep * *rc::gen::inRange(0, 10);
    const Amounts got = entitledOf(cases, capacity, 1);
    const std::vector<double> ours = fairness(cases, got);
    Amounts other(3, 0);
    for (other[0] = 0; other[0] <= capacity; other[0] += kStep) {
      for (other[1] = 0; other[1] <= capacity; other[1] += kStep) {
        for (other[2] = 0; other[2] <= capacity; other[2] += kStep) {
          if (!feasible(cases, other, capacity)) continue;
          const std::vector<double> theirs = fairness(cases, other);
          const auto differs = std::mismatch(ours.begin(), ours.end(), theirs.begin(),
                                             [](double a, double b) { return std::abs(a - b) < 2; });  // ours are whole milli-CPUs
          RC_ASSERT(differs.first == ours.end() || *differs.first > *differs.second);
        }
      }
    }
  }));
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
  const auto waiting = [&](int cpus) {
    const Layout layout = makeLayout(testing::regularMachine("m", {1, 1, 0, cpus, 1}), {});
    const UnitCounts units;
    return choosePending(groups, FloorRoom(layout, units));
  };
  EXPECT_EQ(waiting(4), (std::vector<bool>{false, false, false, false, false}));
  EXPECT_EQ(waiting(3), (std::vector<bool>{false, false, true, false, false}));
  EXPECT_EQ(waiting(2), (std::vector<bool>{false, true, true, false, false}));
  EXPECT_EQ(waiting(1), (std::vector<bool>{false, true, true, true, true}));
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

TEST(Whole, ALeftoverGoesOnlyWhereTheTenantsLimitHasRoom) {
  const auto limited = [](Claimant one, std::int64_t limit) {
    one.tenantLimit = limit;
    return one;
  };
  const Machine machine = testing::regularMachine("m", {1, 1, 0, 4, 1});
  std::vector<Claimant> claimants{limited(claimant(0, 0, 1900), 1950), claimant(1, 1, 2100)};
  countWhole(claimants, makeLayout(machine, {}), 250);
  EXPECT_EQ(claimants[0].total(), 1) << "900 beats 100, but a second CPU passes the cap";
  EXPECT_EQ(claimants[1].total(), 3);
  EXPECT_TRUE(claimants[0].stoppedByCap);
  EXPECT_EQ(claimants[0].refusedRemainder, 0) << "no rival took it";
  EXPECT_EQ(counts({limited(claimant(0, 0, 1900, 2), 1950), claimant(1, 1, 2100, 2)}, 4), (std::vector<int>{1, 3})) << "nor may it keep one it holds";
  EXPECT_EQ(counts({limited(claimant(0, 0, 1500), 3000), limited(claimant(1, 0, 1500), 3000)}, 4), (std::vector<int>{2, 1}))
      << "the limit is the tenant's";
  EXPECT_EQ(counts({limited(claimant(0, 0, 2000, 0, 2), 1000), claimant(1, 1, 1999)}, 4), (std::vector<int>{2, 2})) << "needs go before";
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
