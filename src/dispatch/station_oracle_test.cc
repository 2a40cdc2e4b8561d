// Random histories: the station against a naive oracle that keeps plain lists, looks at everything each time and is written from the design note's
// words.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "dispatch/station.h"

namespace coterie::dispatch {
namespace {

struct OracleTenant {
  TenantOptions options;
  Wide start{0};
  Wide virtualTime{0};
  std::vector<Wide> leafStart;
  Instant lastSeen = Instant::min();
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
    if (const auto reason = room(r)) return reason;
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
    remove(cookie);
  }
  void remove(std::uint64_t cookie) {
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
    std::int64_t active = 0;
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      const bool here = any([&](const OracleRequest& x) { return x.request.tenant.value == static_cast<int>(i); });
      if (here && tenants_[i].lastSeen + Seconds(10) < now) tenants_[i].lastSeen = now;
      if (tenants_[i].lastSeen != Instant::min() && tenants_[i].lastSeen + Seconds(10) >= now) active += tenants_[i].options.weight;
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

  std::optional<RefusalReason> room(const Request& r) {
    const auto& caps = services_[static_cast<std::size_t>(r.service.value)].options.caps;
    if (const auto reason = roomIn(r, caps, r.service.value, RefusalReason::ServiceQueueFull)) return reason;
    return roomIn(r, options_.caps, -1, RefusalReason::StationFull);
  }
  std::optional<RefusalReason> roomIn(const Request& r, const Caps& caps, int service, RefusalReason reason) {
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
      remove(latest->request.cookie);
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

struct Setup {
  StationOptions options;
  int tenants;
  int services;
  int slotsEach;
};

// Plays `steps` random events on both; every answer must be the same.
void play(const Setup& setup, std::uint64_t seed, int steps) {
  Rng rng(seed);
  Station station(setup.options);
  Oracle oracle(setup.options);
  for (int i = 0; i < setup.tenants; ++i) {
    const TenantOptions options{rng.between(1, 500), {rng.chance(30) ? rng.between(1, 10) : 0, Bytes(rng.chance(30) ? rng.between(50, 500) : 0)}, {}};
    station.setTenant(TenantId(i), options);
    oracle.addTenant(options);
  }
  for (int i = 0; i < setup.services; ++i) {
    const ServiceOptions options{rng.between(1, 500), {rng.chance(30) ? rng.between(3, 15) : 0, {}}, Micros(rng.between(100, 20'000))};
    station.addService(options);
    oracle.addService(options);
    for (int k = 0; k < setup.slotsEach; ++k) {
      const auto slotClass = rng.chance(30) ? SlotClass::Loan : SlotClass::Own;
      station.addSlot(ServiceId(i), slotClass, 0);
      oracle.addSlot(i, slotClass);
    }
  }
  Instant now{Seconds(5)};
  std::map<std::uint64_t, RequestHandle> handles;
  std::map<std::uint64_t, Instant> started;
  std::uint64_t cookie = 0;
  Decisions decisions;
  for (int step = 0; step < steps; ++step) {
    now += Nanos(rng.chance(40) ? 0 : rng.between(1, rng.chance(2) ? 12'000'000'000 : 8'000'000));
    const auto running = oracle.cookies(true);
    const auto queued = oracle.cookies(false);
    const std::int64_t what = rng.between(0, 99);
    if (what < 55) {
      const Request request{TenantId(static_cast<int>(rng.between(0, setup.tenants - 1))),
                            ServiceId(static_cast<int>(rng.between(0, setup.services - 1))),
                            static_cast<std::uint32_t>(rng.between(1, 2)),
                            now + Micros(rng.chance(50) ? rng.between(-100, 60'000) : rng.between(0, 2'000'000)),
                            static_cast<std::uint64_t>(rng.between(0, 64)),
                            Bytes(rng.between(0, 100)),
                            ++cookie};
      const auto wanted = oracle.enqueue(request, now);
      const Admission got = station.enqueue(request, now);
      RC_ASSERT(got.accepted() == !wanted.has_value());
      if (wanted) RC_ASSERT(got.refusal.reason == *wanted);
      if (!wanted) handles[cookie] = got.handle;
    } else if (what < 85 && !running.empty()) {
      const std::uint64_t which = running[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(running.size()) - 1))];
      const Usage usage{Nanos(rng.between(0, 20'000'000)), Nanos(rng.chance(20) ? rng.between(0, 5'000'000) : 0), {}};
      const auto outcome = rng.chance(80) ? Outcome::Succeeded : static_cast<Outcome>(rng.between(1, 4));
      oracle.complete(which, usage, outcome, now);
      station.completed(handles[which], usage, outcome, now);
    } else if (what < 92 && !queued.empty()) {
      const std::uint64_t which = queued[static_cast<std::size_t>(rng.between(0, static_cast<std::int64_t>(queued.size()) - 1))];
      oracle.remove(which);
      RC_ASSERT(station.cancel(handles[which]) == CancelResult::Removed);
    } else if (what < 96) {
      const int slot = static_cast<int>(rng.between(0, setup.services * setup.slotsEach - 1));
      const bool open = rng.chance(70);
      oracle.setOpen(slot, open);
      station.setSlotOpen(SlotId(slot), open);
    }
    if (rng.chance(85)) {
      decisions.clear();
      station.next(now, decisions);
      const auto wanted = oracle.next(now);
      std::multiset<std::uint64_t> dropped;
      for (const auto& drop : decisions.drops) dropped.insert(drop.cookie);
      RC_ASSERT(dropped == std::multiset<std::uint64_t>(oracle.drops.begin(), oracle.drops.end()));
      oracle.drops.clear();
      RC_ASSERT(decisions.dispatches.size() == wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        RC_ASSERT(decisions.dispatches[i].cookie == wanted[i].first);
        RC_ASSERT(decisions.dispatches[i].request == handles[wanted[i].first]);
        oracle.placed(wanted[i].first, decisions.dispatches[i].slot);
      }
    }
    RC_ASSERT(station.queued() == oracle.queued());
    for (int i = 0; i < setup.tenants; ++i) RC_ASSERT(station.stats(TenantId(i)).charged == oracle.charged(i));
  }
}

RC_GTEST_PROP(StationOracle, OneServiceManyTenants, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  play({{.caps = {30, {}}, .concurrency = 0}, *rc::gen::inRange(1, 6), 1, *rc::gen::inRange(1, 5)}, seed, 300);
}
RC_GTEST_PROP(StationOracle, SeveralServices, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  play({{.caps = {40, Bytes(2000)}, .concurrency = *rc::gen::inRange(0, 4)},
        *rc::gen::inRange(1, 5),
        *rc::gen::inRange(2, 5),
        *rc::gen::inRange(1, 4)},
       seed, 300);
}
RC_GTEST_PROP(StationOracle, TightBytes, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  play({{.caps = {0, Bytes(300)}, .concurrency = 0}, *rc::gen::inRange(2, 6), *rc::gen::inRange(1, 3), 1}, seed, 300);
}

}  // namespace
}  // namespace coterie::dispatch
