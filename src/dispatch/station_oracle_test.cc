// Random histories: the station against a naive oracle (station_oracle.h).
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/rng.h"
#include "dispatch/station.h"
#include "dispatch/station_oracle.h"

namespace coterie::dispatch {
namespace {

struct GameSetup {
  StationOptions options;
  int tenants;
  int services;
  int slotsEach;
  bool bands{false};
  int batch{1};
};

// Random events on both; every answer must be the same.
class Game {
 public:
  Game(const GameSetup& setup, std::uint64_t seed) : setup_(setup), rng_(seed), station_(setup.options), oracle_(setup.options) {
    for (int i = 0; i < setup.tenants; ++i) addTenant(i);
    for (int i = 0; i < setup.services; ++i) addService(i);
  }
  // The first answer that differs, with its step; empty: none of so many does.
  std::string play(int steps) {
    for (int step = 0; step < steps && difference_.empty(); ++step) {
      now_ += Nanos(rng_.chance(40) ? 0 : rng_.between(1, rng_.chance(2) ? 12'000'000'000 : 8'000'000));
      event();
      if (rng_.chance(85)) decide();
      same(station_.queued() == oracle_.queued(), "queued");
      for (int i = 0; i < setup_.tenants; ++i) same(station_.stats(TenantId(i)).charged == oracle_.charged(i), "charged");
      if (!difference_.empty()) difference_ += " in step " + std::to_string(step);
    }
    return difference_;
  }

 private:
  void same(bool are, const char* what) {
    if (!are && difference_.empty()) difference_ = what;
  }
  std::uint64_t oneOf(const std::vector<std::uint64_t>& cookies) {
    return cookies[static_cast<std::size_t>(rng_.between(0, static_cast<std::int64_t>(cookies.size()) - 1))];
  }
  void addTenant(int id) {
    TenantOptions options;
    options.weight = rng_.between(1, 500);
    options.caps = {rng_.chance(30) ? rng_.between(1, 10) : 0, Bytes(rng_.chance(30) ? rng_.between(50, 500) : 0)};
    if (setup_.bands) options.band = static_cast<Band>(rng_.between(0, 2));
    options.sharesBatches = setup_.batch > 1 && rng_.chance(60);
    station_.setTenant(TenantId(id), options);
    oracle_.addTenant(options);
  }
  void addService(int id) {
    const ServiceOptions options{
        rng_.between(1, 500), {rng_.chance(30) ? rng_.between(3, 15) : 0, {}}, Micros(rng_.between(100, 20'000)), setup_.batch};
    station_.addService(options);
    oracle_.addService(options);
    for (int k = 0; k < setup_.slotsEach; ++k) {
      const auto slotClass = rng_.chance(30) ? SlotClass::Loan : SlotClass::Own;
      station_.addSlot(ServiceId(id), slotClass, 0);
      oracle_.addSlot(id, slotClass);
    }
  }
  void event() {
    const auto running = oracle_.cookies(true);
    const auto queued = oracle_.cookies(false);
    const std::int64_t what = rng_.between(0, 99);
    if (what < 55) {
      enqueue();
    } else if (what < 85 && !running.empty()) {
      complete(oneOf(running));
    } else if (what < 92 && !queued.empty()) {
      const std::uint64_t which = oneOf(queued);
      oracle_.remove(which, now_);
      same(station_.cancel(handles_[which], now_) == CancelResult::Removed, "cancel");
    } else if (what < 94 && !running.empty() && setup_.batch > 1) {
      const std::uint64_t which = oneOf(running);
      same(station_.cancel(handles_[which], now_) == oracle_.abandon(which), "cancel of a running one");
    } else if (what < 96) {
      const int slot = static_cast<int>(rng_.between(0, setup_.services * setup_.slotsEach - 1));
      const bool open = rng_.chance(70);
      oracle_.setOpen(slot, open);
      station_.setSlotOpen(SlotId(slot), open);
    }
  }
  void enqueue() {
    const Request request{TenantId(static_cast<int>(rng_.between(0, setup_.tenants - 1))),
                          ServiceId(static_cast<int>(rng_.between(0, setup_.services - 1))),
                          static_cast<std::uint32_t>(rng_.between(1, 2)),
                          now_ + Micros(rng_.chance(50) ? rng_.between(-100, 60'000) : rng_.between(0, 2'000'000)),
                          static_cast<std::uint64_t>(rng_.between(0, 64)),
                          Bytes(rng_.between(0, 100)),
                          ++cookie_,
                          setup_.batch > 1 ? static_cast<std::uint64_t>(rng_.chance(80) ? 1 : rng_.between(0, 2)) : 0};
    const auto wanted = oracle_.enqueue(request, now_);
    const Admission got = station_.enqueue(request, now_);
    same(got.accepted() == !wanted.has_value(), "accepted");
    if (wanted) same(got.refusal.reason == *wanted, "reason");
    if (!wanted) handles_[cookie_] = got.handle;
  }
  void complete(std::uint64_t which) {
    const Usage usage{Nanos(rng_.between(0, 20'000'000)), Nanos(rng_.chance(20) ? rng_.between(0, 5'000'000) : 0), {}};
    const auto outcome = rng_.chance(80) ? Outcome::Succeeded : static_cast<Outcome>(rng_.between(1, 4));
    oracle_.complete(which, usage, outcome, now_);
    station_.completed(handles_[which], usage, outcome, now_);
  }
  void decide() {
    decisions_.clear();
    station_.next(now_, decisions_);
    const auto wanted = oracle_.next(now_);
    std::multiset<std::uint64_t> dropped;
    for (const auto& drop : decisions_.drops) dropped.insert(drop.cookie);
    same(dropped == std::multiset<std::uint64_t>(oracle_.drops.begin(), oracle_.drops.end()), "drops");
    oracle_.drops.clear();
    same(decisions_.dispatches.size() == wanted.size(), "dispatches");
    for (std::size_t i = 0; i < wanted.size() && difference_.empty(); ++i) {
      same(decisions_.dispatches[i].cookie == wanted[i].first, "order");
      same(decisions_.dispatches[i].request == handles_[wanted[i].first], "handle");
      if (i > 0) same(decisions_.dispatches[i].together == (decisions_.dispatches[i].slot == decisions_.dispatches[i - 1].slot), "together");
      oracle_.placed(wanted[i].first, decisions_.dispatches[i].slot);
    }
  }

  GameSetup setup_;
  Rng rng_;
  Station station_;
  Oracle oracle_;
  Instant now_{Seconds(5)};
  std::map<std::uint64_t, RequestHandle> handles_;
  std::uint64_t cookie_{0};
  Decisions decisions_;
  std::string difference_;
};

constexpr int kSteps = 300;

GameSetup oneService(int tenants, int slots) { return {{.caps = {30, {}}, .concurrency = 0}, tenants, 1, slots}; }

// Each was found by a property, and says what was wrong.
TEST(StationOracle, HistoriesThatDiffered) {
  struct Row {
    const char* name;
    std::uint64_t seed;
    GameSetup setup;
  };
  const std::vector<Row> rows = {
      {"whoever has something running counts in the shares, whether or not somebody asked meanwhile", 14695642589445U, oneService(3, 3)},
  };
  for (const Row& row : rows) EXPECT_EQ(Game(row.setup, row.seed).play(kSteps), "") << row.name;
}

RC_GTEST_PROP(StationOracle, OneServiceManyTenants, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const int tenants = *rc::gen::inRange(1, 6);
  RC_ASSERT(Game(oneService(tenants, *rc::gen::inRange(1, 5)), seed).play(kSteps) == "");
}
RC_GTEST_PROP(StationOracle, SeveralServices, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const GameSetup setup{
      {.caps = {40, Bytes(2000)}, .concurrency = *rc::gen::inRange(0, 4)}, *rc::gen::inRange(1, 5), *rc::gen::inRange(2, 5), *rc::gen::inRange(1, 4)};
  RC_ASSERT(Game(setup, seed).play(kSteps) == "");
}
RC_GTEST_PROP(StationOracle, Bands, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  GameSetup setup{
      {.caps = {40, Bytes(2000)}, .concurrency = *rc::gen::inRange(0, 4)}, *rc::gen::inRange(2, 7), *rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4)};
  setup.bands = true;
  setup.options.guarantees = *rc::gen::element(std::array{500, 300, 200}, std::array{0, 900, 100}, std::array{600, 400, 0}, std::array{0, 0, 0});
  RC_ASSERT(Game(setup, seed).play(kSteps) == "");
}
RC_GTEST_PROP(StationOracle, Batches, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  GameSetup setup{
      {.caps = {60, {}}, .concurrency = *rc::gen::inRange(0, 3)}, *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 3), *rc::gen::inRange(1, 4)};
  setup.bands = *rc::gen::arbitrary<bool>();
  setup.batch = *rc::gen::inRange(2, 9);
  RC_ASSERT(Game(setup, seed).play(kSteps) == "");
}
RC_GTEST_PROP(StationOracle, TightBytes, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const GameSetup setup{{.caps = {0, Bytes(300)}, .concurrency = 0}, *rc::gen::inRange(2, 6), *rc::gen::inRange(1, 3), 1};
  RC_ASSERT(Game(setup, seed).play(kSteps) == "");
}

}  // namespace
}  // namespace coterie::dispatch
