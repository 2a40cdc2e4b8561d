// Random histories: the station against a naive oracle that keeps plain lists, looks at everything each time and is written from the design note's
// words.
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

namespace coterie::dispatch {
namespace {

struct OracleTenant {
  TenantOptions options;
  Wide start{0};
  Wide virtualTime{0};
  std::vector<Wide> leafStart;
  Instant lastSeen = Instant::min();  // it came, or a request of it went
  Nanos charged{};
  bool fresh{false};
};
struct OracleSlot {
  int service;
  SlotClass slotClass;
  bool open{true};
  bool busy{false};
};
struct OracleRequest {
  Request request;
  Estimate estimate;
  Instant latestStart{};
  bool running{false};
  SlotId slot;
  Instant started{};
  Nanos charged{};
  Nanos overruns{};  // charged 10 ms steps
};

class Oracle {
 public:
  explicit Oracle(const StationOptions& options) : options_(options) {}
  void addTenant(const TenantOptions& options) { tenants_.push_back({options, 0, 0, {}, Instant::min(), {}, false}); }
  void addService(const ServiceOptions& options) {
    services_.push_back({options, Estimates(options.initialRun), {}});
    for (auto& tenant : tenants_) tenant.leafStart.resize(services_.size(), 0);
  }
  void addSlot(int service, SlotClass slotClass) { slots_.push_back({service, slotClass}); }
  void setOpen(int slot, bool open) { slots_[static_cast<std::size_t>(slot)].open = open; }

  // What enqueue must answer; displaced requests are noted in drops.
  std::optional<RefusalReason> enqueue(const Request& r, Instant now) {
    OracleTenant& tenant = tenantOf(r);
    tenant.lastSeen = now;
    const int service = r.service.value;
    if (r.deadline <= now) return RefusalReason::DeadlinePassed;
    const auto slots = std::count_if(slots_.begin(), slots_.end(), [&](const OracleSlot& s) { return s.service == service && s.open; });
    if (slots == 0) return RefusalReason::NoInstance;
    const Estimate e = services_[static_cast<std::size_t>(service)].estimates.get(r.version, r.inputElements);
    const auto mine = [&](const OracleRequest& x) { return x.request.tenant == r.tenant; };
    const auto mineHere = [&](const OracleRequest& x) { return mine(x) && x.request.service == r.service; };
    for (const Caps& caps : {tenant.options.caps, services_[static_cast<std::size_t>(service)].options.caps, options_.caps}) {
      if (caps.bytes.value > 0 && r.bytes > caps.bytes) return RefusalReason::RequestTooLarge;
    }
    if (tenant.options.caps.requests > 0 && count(mine) >= tenant.options.caps.requests) return RefusalReason::TenantQueueFull;
    if (tenant.options.caps.bytes.value > 0 && bytes(mine) + r.bytes.value > tenant.options.caps.bytes.value) return RefusalReason::TenantBytesFull;
    const bool probe = count([&](const OracleRequest& x) { return x.request.service == r.service; }) == 0 && freeSlot(service);
    if (!probe) {
      if (const auto reason = late(r, e, now, slots, mineHere)) return reason;
    }
    if (const auto reason = room(r, now)) return reason;
    if (!any([&](const OracleRequest& x) { return mine(x); })) {
      tenant.fresh = tenant.start <= virtualTime_;
      tenant.start = std::max(tenant.start, virtualTime_);
    }
    if (!any([&](const OracleRequest& x) { return mineHere(x); })) leafStart(r) = std::max(leafStart(r), tenant.virtualTime);
    OracleRequest x;
    x.request = r;
    x.estimate = e;
    x.latestStart = probe ? r.deadline : r.deadline - e.t50;
    requests_.push_back(x);
    return std::nullopt;
  }

  std::vector<std::uint64_t> drops;  // in order of displacement; next() adds the expired

  // Cookies in order of dispatch, with the class of slot that each must get.
  std::vector<std::pair<std::uint64_t, SlotClass>> next(Instant now) {
    for (auto& x : requests_) {
      if (!x.running) continue;
      const Nanos over = now - x.started - x.estimate.cost;
      const Nanos due = over < Nanos{} ? Nanos{} : Nanos(Millis(10)) * (over / Nanos(Millis(10)));
      if (due > x.overruns) {
        charge(x, due - x.overruns);
        x.overruns = due;
      }
    }
    for (auto at = requests_.begin(); at != requests_.end();) {
      if (!at->running && at->latestStart < now) {
        services_[static_cast<std::size_t>(at->request.service.value)].margin.record(false, now);
        drops.push_back(at->request.cookie);
        tenantOf(at->request).lastSeen = now;
        at = requests_.erase(at);
      } else {
        ++at;
      }
    }
    std::vector<std::pair<std::uint64_t, SlotClass>> order;
    while (OracleRequest* x = choose()) {
      OracleTenant& tenant = tenantOf(x->request);
      if (services_.size() > 1) {
        tenant.start = std::max(tenant.start, virtualTime_ - scaled(x->estimate.cost, tenant.options.weight));
        leafStart(x->request) = std::max(leafStart(x->request), tenant.virtualTime - scaled(x->estimate.cost, weightOf(x->request)));
      }
      virtualTime_ = std::max(virtualTime_, tenant.start);
      tenant.virtualTime = std::max(tenant.virtualTime, leafStart(x->request));
      const SlotClass slotClass = freeOf(x->request.service.value, SlotClass::Own) ? SlotClass::Own : SlotClass::Loan;
      x->running = true;
      tenant.fresh = false;
      x->started = now;
      x->slot = SlotId(-2);  // told by the station, see placed()
      charge(*x, x->estimate.cost);
      ++pendingSlots_[{x->request.service.value, slotClass}];
      order.emplace_back(x->request.cookie, slotClass);
    }
    return order;
  }
  void placed(std::uint64_t cookie, SlotId slot) {
    pendingSlots_.clear();
    find(cookie)->slot = slot;
    slots_[static_cast<std::size_t>(slot.value)].busy = true;
  }

  void complete(std::uint64_t cookie, const Usage& usage, Outcome outcome, Instant now) {
    OracleRequest& x = *find(cookie);
    auto& service = services_[static_cast<std::size_t>(x.request.service.value)];
    Nanos actual = now - x.started;
    if (outcome == Outcome::NeverStarted) actual = Nanos{};
    if (outcome == Outcome::Succeeded) {
      const Nanos held = std::min(usage.held, now - x.started);
      actual = held - std::min(usage.queuedForCpu, held);
      service.estimates.record(x.request.version, x.request.inputElements, held, actual);
      service.margin.record(now <= x.request.deadline, now);
    }
    charge(x, actual - x.charged);
    slots_[static_cast<std::size_t>(x.slot.value)].busy = false;
    remove(cookie, now);
  }
  // However it went: until then its tenant was active.
  void remove(std::uint64_t cookie, Instant now) {
    tenantOf(find(cookie)->request).lastSeen = now;
    requests_.erase(std::find_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) { return x.request.cookie == cookie; }));
  }
  [[nodiscard]] Nanos charged(int tenant) const { return tenants_[static_cast<std::size_t>(tenant)].charged; }
  [[nodiscard]] std::int64_t queued() const {
    return count([](const OracleRequest&) { return true; });
  }
  [[nodiscard]] std::vector<std::uint64_t> cookies(bool running) const {
    std::vector<std::uint64_t> found;
    for (const auto& x : requests_) {
      if (x.running == running) found.push_back(x.request.cookie);
    }
    return found;
  }

 private:
  struct OracleService {
    ServiceOptions options;
    Estimates estimates;
    Margin margin;
  };
  static Wide scaled(Nanos amount, std::int64_t weight) { return static_cast<Wide>(amount.count()) * (1 << 20) / weight; }
  OracleTenant& tenantOf(const Request& r) { return tenants_[static_cast<std::size_t>(r.tenant.value)]; }
  Wide& leafStart(const Request& r) { return tenantOf(r).leafStart[static_cast<std::size_t>(r.service.value)]; }
  std::int64_t weightOf(const Request& r) const { return services_[static_cast<std::size_t>(r.service.value)].options.weight; }
  OracleRequest* find(std::uint64_t cookie) {
    return &*std::find_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) { return x.request.cookie == cookie; });
  }
  template <typename Which>
  std::int64_t count(const Which& which) const {
    return std::count_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) { return !x.running && which(x); });
  }
  template <typename Which>
  std::int64_t bytes(const Which& which) const {
    std::int64_t sum = 0;
    for (const auto& x : requests_) sum += !x.running && which(x) ? x.request.bytes.value : 0;
    return sum;
  }
  template <typename Which>
  bool any(const Which& which) const {
    return std::any_of(requests_.begin(), requests_.end(), which);
  }
  std::int64_t running() const {
    return std::count_if(requests_.begin(), requests_.end(), [](const OracleRequest& x) { return x.running; });
  }
  bool freeOf(int service, SlotClass slotClass) const {
    std::int64_t free = 0;
    for (const auto& slot : slots_) free += slot.service == service && slot.slotClass == slotClass && slot.open && !slot.busy ? 1 : 0;
    const auto taken = pendingSlots_.find({service, slotClass});
    return free > (taken == pendingSlots_.end() ? 0 : taken->second);
  }
  bool freeSlot(int service) const {
    if (options_.concurrency > 0 && running() >= options_.concurrency) return false;
    return freeOf(service, SlotClass::Own) || freeOf(service, SlotClass::Loan);
  }

  template <typename MineHere>
  std::optional<RefusalReason> late(const Request& r, const Estimate& e, Instant now, std::int64_t slots, const MineHere& mineHere) {
    std::int64_t active = tenantOf(r).options.weight;  // it has just come
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      const bool here = any([&](const OracleRequest& x) { return x.request.tenant.value == static_cast<int>(i); });
      const bool lately = tenants_[i].lastSeen != Instant::min() && tenants_[i].lastSeen + Seconds(10) >= now;
      if (TenantId(static_cast<int>(i)) != r.tenant && (here || lately)) active += tenants_[i].options.weight;
    }
    if (options_.concurrency > 0) slots = std::min<std::int64_t>(slots, options_.concurrency);
    const std::int64_t share = std::max<std::int64_t>(1, slots * 1000 * tenantOf(r).options.weight / active);
    const auto load = [&](const OracleRequest& x) { return Nanos(x.estimate.cost.count() * 1000 / share); };

    Nanos residual{};
    if (!freeSlot(r.service.value)) {
      std::optional<Instant> soonest;
      for (const auto& x : requests_) {
        if (!x.running || x.request.service != r.service) continue;
        Instant end = x.started + x.estimate.t50;
        if (x.overruns > Nanos{}) end = std::max(end, x.started + x.estimate.cost + x.overruns + Millis(10));
        if (!soonest || end < *soonest) soonest = end;
      }
      if (soonest) residual = std::max(*soonest - now, Nanos{});
    }
    const Nanos run(e.t90.count() * services_[static_cast<std::size_t>(r.service.value)].margin.permille(now) / 1000);
    const Nanos allowed = r.deadline - now;
    if (run > allowed) return RefusalReason::DeadlineTooShort;
    if (residual + run > allowed) return RefusalReason::NoSlotInTime;
    std::multimap<Instant, const OracleRequest*> line;  // by deadline; of equal ones by arrival, which is the order of requests_
    for (const auto& x : requests_) {
      if (!x.running && mineHere(x)) line.emplace(x.request.deadline, &x);
    }
    Nanos before{};
    std::optional<Nanos> slack;
    Nanos sum{};
    for (const auto& [due, x] : line) {
      if (due <= r.deadline) {
        before += load(*x);
      } else {
        const Nanos own = due - x->estimate.t90 - (now + residual + sum);
        slack = slack ? std::min(*slack, own) : own;
      }
      sum += load(*x);
    }
    if (residual + before + run > allowed) return RefusalReason::TenantBacklog;
    if (slack && *slack < Nanos(e.cost.count() * 1000 / share)) return RefusalReason::TenantBacklog;
    return std::nullopt;
  }

  std::optional<RefusalReason> room(const Request& r, Instant now) {
    const auto& caps = services_[static_cast<std::size_t>(r.service.value)].options.caps;
    if (const auto reason = roomIn(r, now, caps, r.service.value, RefusalReason::ServiceQueueFull)) return reason;
    return roomIn(r, now, options_.caps, -1, RefusalReason::StationFull);
  }
  std::optional<RefusalReason> roomIn(const Request& r, Instant now, const Caps& caps, int service, RefusalReason reason) {
    const auto inScope = [&](const OracleRequest& x) { return service < 0 || x.request.service.value == service; };
    while (true) {
      const bool tooMany = caps.requests > 0 && count(inScope) >= caps.requests;
      const bool tooBig = caps.bytes.value > 0 && bytes(inScope) + r.bytes.value > caps.bytes.value;
      if (!tooMany && !tooBig) return std::nullopt;
      int victim = r.tenant.value;
      const auto use = [&](int tenant) {
        const auto its = [&](const OracleRequest& x) { return inScope(x) && x.request.tenant.value == tenant; };
        const bool newcomer = tenant == r.tenant.value;
        return tooMany ? count(its) + (newcomer ? 1 : 0) : bytes(its) + (newcomer ? r.bytes.value : 0);
      };
      const auto weight = [&](int tenant) { return tenants_[static_cast<std::size_t>(tenant)].options.weight; };
      for (int other = 0; other < static_cast<int>(tenants_.size()); ++other) {
        if (use(other) * weight(victim) > use(victim) * weight(other)) victim = other;
      }
      const OracleRequest* latest = nullptr;
      for (const auto& x : requests_) {
        if (x.running || !inScope(x) || x.request.tenant.value != victim) continue;
        // Of several with that deadline, the last to arrive; between services, the one of the least id.
        if (latest == nullptr || x.request.deadline > latest->request.deadline ||
            (x.request.deadline == latest->request.deadline && x.request.service <= latest->request.service))
          latest = &x;
      }
      if (latest == nullptr || (victim == r.tenant.value && latest->request.deadline <= r.deadline)) return reason;
      drops.push_back(latest->request.cookie);
      remove(latest->request.cookie, now);
    }
  }

  OracleRequest* choose() {
    OracleRequest* best = nullptr;
    const auto inFlight = [&](const Request& r, bool here) {
      return std::count_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) {
        return x.running && x.request.tenant == r.tenant && (!here || x.request.service == r.service);
      });
    };
    const auto key = [&](const OracleRequest& x) {
      return std::make_tuple(tenantOf(x.request).start, inFlight(x.request, false), !tenantOf(x.request).fresh, x.request.tenant,
                             leafStart(x.request), inFlight(x.request, true), x.request.service, x.request.deadline);
    };
    for (auto& x : requests_) {
      if (x.running || !freeSlot(x.request.service.value)) continue;
      if (best == nullptr || key(x) < key(*best)) best = &x;
    }
    return best;
  }
  void charge(OracleRequest& x, Nanos amount) {
    x.charged += amount;
    tenantOf(x.request).charged += amount;
    tenantOf(x.request).start += scaled(amount, tenantOf(x.request).options.weight);
    leafStart(x.request) += scaled(amount, weightOf(x.request));
  }

  StationOptions options_;
  std::vector<OracleTenant> tenants_;
  std::vector<OracleService> services_;
  std::vector<OracleSlot> slots_;
  std::vector<OracleRequest> requests_;  // in order of arrival
  std::map<std::pair<int, SlotClass>, std::int64_t> pendingSlots_;
  Wide virtualTime_{0};
};

struct GameSetup {
  StationOptions options;
  int tenants;
  int services;
  int slotsEach;
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
    const TenantOptions options{
        rng_.between(1, 500), {rng_.chance(30) ? rng_.between(1, 10) : 0, Bytes(rng_.chance(30) ? rng_.between(50, 500) : 0)}, {}};
    station_.setTenant(TenantId(id), options);
    oracle_.addTenant(options);
  }
  void addService(int id) {
    const ServiceOptions options{rng_.between(1, 500), {rng_.chance(30) ? rng_.between(3, 15) : 0, {}}, Micros(rng_.between(100, 20'000))};
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
                          ++cookie_};
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
RC_GTEST_PROP(StationOracle, TightBytes, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const GameSetup setup{{.caps = {0, Bytes(300)}, .concurrency = 0}, *rc::gen::inRange(2, 6), *rc::gen::inRange(1, 3), 1};
  RC_ASSERT(Game(setup, seed).play(kSteps) == "");
}

}  // namespace
}  // namespace coterie::dispatch
