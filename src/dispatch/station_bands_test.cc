// Bands: what each is guaranteed, what is left, and that neither idling nor being blocked is banked.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/rng.h"
#include "dispatch/station.h"

namespace coterie::dispatch {
namespace {

const TenantId kHigh(0);
const TenantId kNormal(1);
const TenantId kLow(2);
constexpr std::array kAll{kHigh, kNormal, kLow};
Band bandOf(TenantId tenant) { return static_cast<Band>(tenant.value); }

// One service, K slots, a tenant for each band; requests run as long as told.
class World {
 public:
  explicit World(const std::array<int, kBands>& guarantees, int slots = 1, int tenants = 3) {
    StationOptions options;
    options.guarantees = guarantees;
    options.caps = {};
    station.configure(options);
    service = station.addService({});
    for (int i = 0; i < slots; ++i) station.addSlot(service, SlotClass::Own, 0);
    for (int i = 0; i < tenants; ++i) {
      TenantOptions tenant;
      tenant.band = static_cast<Band>(i % 3);
      station.setTenant(TenantId(i), tenant);
    }
  }
  void put(TenantId tenant, Nanos run = Millis(10)) {
    const auto cookie = static_cast<std::uint64_t>(runs_.size());
    runs_.push_back({tenant, run});
    ASSERT_TRUE(station.enqueue({tenant, service, 1, now + std::chrono::hours(20), 1, Bytes(1), cookie}, now).accepted());
  }
  // One end after the other; onEnd may put more.
  void run(Instant until, const std::function<void(TenantId)>& onEnd) {
    step();
    while (!ends_.empty() && ends_.begin()->first <= until) {
      const auto [time, dispatch] = *ends_.begin();
      ends_.erase(ends_.begin());
      while (const auto event = station.nextEvent()) {
        if (*event > time) break;
        now = std::max(now, *event);
        step();
      }
      now = time;
      const auto [tenant, length] = runs_[dispatch.cookie];
      station.completed(dispatch.request, {length, {}, length}, Outcome::Succeeded, now);
      worked[tenant.value] += length;
      onEnd(tenant);
      step();
    }
  }
  [[nodiscard]] double part(TenantId tenant) const {
    Nanos all{};
    for (const auto& [id, work] : worked) all += work;
    return static_cast<double>(worked.at(tenant.value).count()) / static_cast<double>(all.count());
  }

  Station station;
  ServiceId service;
  Instant now{Seconds(1)};
  std::map<int, Nanos> worked{{0, {}}, {1, {}}, {2, {}}};

 private:
  void step() {
    decisions_.clear();
    station.next(now, decisions_);
    for (const Dispatch& dispatch : decisions_.dispatches) ends_.emplace(now + runs_[dispatch.cookie].second, dispatch);
  }
  std::vector<std::pair<TenantId, Nanos>> runs_;
  std::multimap<Instant, Dispatch> ends_;
  Decisions decisions_;
};

TEST(Bands, EachHasItsGuaranteeAndTheHighestWhatIsLeft) {
  struct Row {
    const char* name;
    std::array<int, kBands> guarantees;
    std::array<bool, kBands> busy;
    std::array<double, kBands> parts;
  };
  const std::vector<Row> rows = {
      {"all of them busy", {500, 300, 200}, {true, true, true}, {.5, .3, .2}},
      {"what nobody is promised is the highest's", {300, 200, 100}, {true, true, true}, {.7, .2, .1}},
      {"an absent band's part is the highest's too", {500, 300, 200}, {true, false, true}, {.8, 0, .2}},
      {"without the highest, the next", {500, 300, 200}, {false, true, true}, {0, .8, .2}},
      {"one that is promised nothing waits for all others", {500, 500, 0}, {true, true, true}, {.5, .5, 0}},
      {"and has everything when they sleep", {500, 500, 0}, {false, false, true}, {0, 0, 1}},
      {"no promises: strictly the highest", {0, 0, 0}, {true, true, true}, {1, 0, 0}},
  };
  for (const Row& row : rows) {
    World world(row.guarantees);
    for (const TenantId tenant : kAll) {
      for (int i = 0; i < 3 && row.busy[static_cast<std::size_t>(tenant.value)]; ++i) world.put(tenant);
    }
    world.run(world.now + Seconds(20), [&](TenantId tenant) { world.put(tenant); });
    for (const TenantId tenant : kAll) EXPECT_NEAR(world.part(tenant), row.parts[static_cast<std::size_t>(tenant.value)], .005) << row.name;
  }
}

TEST(Bands, IdleTimeIsNotBanked) {
  World world({500, 300, 200});
  for (int i = 0; i < 3; ++i) world.put(kHigh);
  world.run(world.now + Seconds(10), [&](TenantId tenant) { world.put(tenant); });
  world.worked = {{0, {}}, {1, {}}, {2, {}}};
  for (int i = 0; i < 3; ++i) world.put(kLow);  // slept for ten seconds
  world.run(world.now + Seconds(1), [&](TenantId tenant) { world.put(tenant); });
  EXPECT_NEAR(world.part(kLow), .2, .02);
}

TEST(Bands, ATenantThatChangesItsBandTakesItsQueueAlong) {
  World world({500, 300, 200});
  for (int i = 0; i < 4; ++i) {
    world.put(kLow);
    world.put(kHigh);
  }
  TenantOptions promoted;
  promoted.band = Band::High;
  world.station.setTenant(kLow, promoted);
  world.run(world.now + Seconds(20), [&](TenantId tenant) { world.put(tenant); });
  EXPECT_NEAR(world.part(kLow), .5, .01);
  promoted.band = Band::Low;
  world.station.setTenant(kLow, promoted);
  world.worked = {{0, {}}, {1, {}}, {2, {}}};
  world.run(world.now + Seconds(20), [&](TenantId tenant) { world.put(tenant); });
  EXPECT_NEAR(world.part(kLow), .2, .01);
}

// What admission promises by: a tenant of a low band beside a busy higher one must not be told that the whole slot is its own.
TEST(Bands, AdmissionCountsWithTheBandsPart) {
  World world({500, 300, 200});
  world.put(kHigh);
  world.put(kHigh);
  int accepted = 0;
  const auto within = [&](TenantId tenant, Nanos allowed) {
    return world.station.enqueue({tenant, world.service, 1, world.now + allowed, 1, Bytes(1), 0}, world.now).accepted();
  };
  while (within(kLow, Millis(510))) ++accepted;
  EXPECT_EQ(accepted, 11);  // a fifth of a slot: ten of 10 ms each in 500 ms, and the one that starts then
}

// W_b >= g_b W - (K+1) L in every interval in which the band is backlogged, whatever the estimates say.
RC_GTEST_PROP(Bands, ABackloggedBandHasItsGuaranteeInEveryInterval, ()) {
  const int slots = *rc::gen::inRange(1, 9);
  const int tenants = 3 * *rc::gen::inRange(1, 4);
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const int high = static_cast<int>(rng.between(0, 800));
  const int normal = static_cast<int>(rng.between(0, 1000 - high));
  const std::array<int, kBands> guarantees{high, normal, static_cast<int>(rng.between(0, 1000 - high - normal))};
  World world(guarantees, slots, tenants);
  const Nanos largest = Millis(30);  // and the first estimate is 10 ms
  const auto put = [&](TenantId tenant) { world.put(tenant, Nanos(rng.between(100'000, largest.count()))); };
  for (int i = 0; i < tenants; ++i) {
    for (int k = 0; k < slots + 3; ++k) put(TenantId(i));
  }
  std::array<Nanos, kBands> start{};
  const auto charged = [&] {
    std::array<Nanos, kBands> sums{};
    for (int i = 0; i < tenants; ++i) sums[static_cast<std::size_t>(bandOf(TenantId(i % 3)))] += world.station.stats(TenantId(i)).charged;
    return sums;
  };
  std::array<double, kBands> best{};  // the most that g_b W - W_b fell below its later values
  std::array<double, kBands> least{};
  world.run(world.now + Seconds(3), [&](TenantId tenant) {
    put(tenant);
    const auto sums = charged();
    double all = 0;
    for (std::size_t b = 0; b < kBands; ++b) all += static_cast<double>((sums[b] - start[b]).count());
    for (std::size_t b = 0; b < kBands; ++b) {
      const double behind = all * guarantees[b] / 1000 - static_cast<double>((sums[b] - start[b]).count());
      least[b] = std::min(least[b], behind);
      best[b] = std::max(best[b], behind - least[b]);
    }
  });
  for (std::size_t b = 0; b < kBands; ++b) RC_ASSERT(best[b] <= static_cast<double>((slots + 1) * largest.count()));
}

}  // namespace
}  // namespace coterie::dispatch
