// A station as the design note's words have it: plain lists, everything looked at each time. What station_oracle_test.cc compares with. Estimates,
// margins and what batches cost are the station's own parts (tested apart, in parts_test.cc).
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "dispatch/station.h"

namespace coterie::dispatch {

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
  std::size_t run{0};  // running: those of one number run as one
  bool guaranteed{false};
  bool abandoned{false};
  std::uint64_t arrival{0};
  std::uint64_t joined{0};  // the order in which they were started
};
struct OracleRun {
  Instant started{};
  Nanos cost{};
  Nanos overruns{};  // charged 10 ms steps
  Instant predictedEnd{};
};

class Oracle {
 public:
  explicit Oracle(const StationOptions& options) : options_(options) {}
  void addTenant(const TenantOptions& options) { tenants_.push_back({options, 0, 0, {}, Instant::min(), {}, false}); }
  void addService(const ServiceOptions& options) {
    services_.push_back({options, Estimates(options.initialRun), {}, {}, {}});
    for (auto& tenant : tenants_) tenant.leafStart.resize(services_.size(), 0);
  }
  void addSlot(int service, SlotClass slotClass) { slots_.push_back({service, slotClass}); }
  void setOpen(int slot, bool open) {
    OracleSlot& changed = slots_[static_cast<std::size_t>(slot)];
    if (changed.open != open) forgetLevels();
    changed.open = open;
  }

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
    if (!any([&](const OracleRequest& x) { return tenantOf(x.request).options.band == tenant.options.band; }))
      guarantee(tenant.options.band) = std::max(guarantee(tenant.options.band), work_);
    if (!any([&](const OracleRequest& x) { return mine(x); })) {
      const Wide there = virtualTimeAt(service, tenant.options.band);
      tenant.fresh = tenant.start <= there;
      tenant.start = std::max(tenant.start, there);
    } else if (!any([&](const OracleRequest& x) { return mineHere(x); })) {
      tenant.start = std::max(tenant.start, virtualTimeAt(service, tenant.options.band));
    }
    if (!any([&](const OracleRequest& x) { return mineHere(x); })) leafStart(r) = std::max(leafStart(r), tenant.virtualTime);
    OracleRequest x;
    x.request = r;
    x.estimate = e;
    x.latestStart = probe ? r.deadline : r.deadline - e.t50;
    x.arrival = ++arrivals_;
    requests_.push_back(x);
    return std::nullopt;
  }

  std::vector<std::uint64_t> drops;  // in order of displacement; next() adds the expired

  // Cookies in order of dispatch, with the class of slot that each must get.
  std::vector<std::pair<std::uint64_t, SlotClass>> next(Instant now) {
    for (auto& [number, run] : runs_) {
      const Nanos over = now - run.started - run.cost;
      const Nanos due = over < Nanos{} ? Nanos{} : Nanos(Millis(10)) * (over / Nanos(Millis(10)));
      if (due == run.overruns) continue;
      for (OracleRequest* x : membersOf(number)) charge(*x, Nanos((due - run.overruns).count() * x->estimate.cost.count() / run.cost.count()));
      run.overruns = due;
      run.predictedEnd = std::max(run.predictedEnd, run.started + run.cost + due + Millis(10));
    }
    std::multimap<Instant, std::uint64_t> expired;
    for (const auto& x : requests_) {
      if (!x.running && x.latestStart < now) expired.emplace(x.latestStart, x.request.cookie);
    }
    for (const auto& [start, cookie] : expired) {
      services_[static_cast<std::size_t>(find(cookie)->request.service.value)].margin.record(false, now);
      drops.push_back(cookie);
      remove(cookie, now);
    }
    std::vector<std::pair<std::uint64_t, SlotClass>> order;
    while (OracleRequest* x = choose(std::nullopt)) {
      const auto service = static_cast<std::size_t>(x->request.service.value);
      const std::int64_t most = mostTogether(x->request.service);
      const SlotClass slotClass = freeOf(x->request.service.value, SlotClass::Own) ? SlotClass::Own : SlotClass::Loan;
      const std::size_t number = ++runNumbers_;
      OracleRun& run = runs_[number];
      run.started = now;
      Nanos alone = x->estimate.t50;
      std::int64_t members = 1;
      ++pendingSlots_[{x->request.service.value, slotClass}];
      start(*x, number, turn_, order, slotClass);
      while (x->request.batchKey != 0 && members < most && services_[service].batches.growsTo(static_cast<int>(members) + 1)) {
        OracleRequest* more = nullptr;
        bool guaranteed = x->guaranteed;
        if (tenantOf(x->request).options.sharesBatches) {
          more = choose(x->request.service);
          if (more != nullptr && !(tenantOf(more->request).options.sharesBatches && fits(*x, *more, members, alone, now))) more = nullptr;
          if (more != nullptr) guaranteed = turn_;
        }
        if (more == nullptr) more = firstOf(x->request);
        if (more == nullptr || !fits(*x, *more, members, alone, now)) break;
        alone += more->estimate.t50;
        ++members;
        start(*more, number, guaranteed, order, slotClass);
      }
      run.predictedEnd = now + Nanos(alone.count() * services_[service].batches.ratio(static_cast<int>(members)) / 1000);
    }
    return order;
  }
  void placed(std::uint64_t cookie, SlotId slot) {
    pendingSlots_.clear();
    find(cookie)->slot = slot;
    slots_[static_cast<std::size_t>(slot.value)].busy = true;
  }

  void complete(std::uint64_t cookie, const Usage& usage, Outcome outcome, Instant now) {
    const std::size_t number = find(cookie)->run;
    const OracleRun run = runs_.at(number);
    std::vector<OracleRequest*> members = membersOf(number);
    auto& service = services_[static_cast<std::size_t>(members[0]->request.service.value)];
    Nanos actual = now - run.started;
    if (outcome == Outcome::NeverStarted) actual = Nanos{};
    if (outcome == Outcome::Succeeded) {
      const Nanos held = std::min(usage.held, now - run.started);
      actual = held - std::min(usage.queuedForCpu, held);
      if (members.size() == 1) {
        service.estimates.record(members[0]->request.version, members[0]->request.inputElements, held, actual);
      } else {
        service.batches.record(static_cast<int>(members.size()), actual, run.cost);
      }
      for (const OracleRequest* x : members) service.margin.record(now <= x->request.deadline, now);
    }
    slots_[static_cast<std::size_t>(members[0]->slot.value)].busy = false;
    runs_.erase(number);
    const bool again = outcome == Outcome::Failed && members.size() > 1;
    // The first pays by estimate, then the others, the last to join before the second; the rest is the last one's.
    std::reverse(members.begin() + 1, members.end());
    Nanos rest = actual;
    std::vector<std::uint64_t> ended;
    for (OracleRequest* x : members) {
      const Nanos part = x == members.back() ? rest : Nanos(actual.count() * x->estimate.cost.count() / run.cost.count());
      rest -= part;
      charge(*x, part - x->charged);
      if (again && !x->abandoned) {
        x->running = false;
        x->charged = Nanos{};
        x->request.batchKey = 0;
        x->latestStart = x->request.deadline - x->estimate.t50;
      } else {
        ended.push_back(x->request.cookie);
      }
    }
    for (const std::uint64_t each : ended) remove(each, now);
  }
  // What cancel() answers of one that runs.
  CancelResult abandon(std::uint64_t cookie) {
    OracleRequest& x = *find(cookie);
    x.abandoned = true;
    const auto members = membersOf(x.run);
    const bool awaited = std::any_of(members.begin(), members.end(), [](const OracleRequest* each) { return !each->abandoned; });
    return awaited ? CancelResult::Shared : CancelResult::Running;
  }
  // However it went: until then its tenant was active.
  void remove(std::uint64_t cookie, Instant now) {
    const Request gone = find(cookie)->request;
    tenantOf(gone).lastSeen = now;
    requests_.erase(std::find_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) { return x.request.cookie == cookie; }));
    leave(gone);
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
    BatchCosts batches;
    std::array<Wide, kBands> virtualTimes{};
  };
  using Order = std::vector<std::pair<std::uint64_t, SlotClass>>;
  Wide& guarantee(Band band) { return guarantees_[static_cast<std::size_t>(band)]; }
  Wide& served(int service, Band band) { return services_[static_cast<std::size_t>(service)].virtualTimes[static_cast<std::size_t>(band)]; }
  bool boundBySlots(int service) const {
    const bool waits =
        std::any_of(requests_.begin(), requests_.end(), [&](const OracleRequest& x) { return !x.running && x.request.service.value == service; });
    return waits && !freeOf(service, SlotClass::Own) && !freeOf(service, SlotClass::Loan);
  }
  Wide virtualTimeAt(int service, Band band) {
    const Wide own = served(service, band);
    return options_.concurrency == 0 || boundBySlots(service) ? own : std::max(own, virtualTimes_[static_cast<std::size_t>(band)]);
  }
  // The furthest of the services that it has requests for.
  Wide levelOf(int tenant) {
    Wide level{0};
    for (const auto& x : requests_) {
      if (x.request.tenant.value == tenant) level = std::max(level, served(x.request.service.value, tenantOf(x.request).options.band));
    }
    return level;
  }
  // One of its requests has gone: if it was the last for that service and not the last of all, what it had there is not held against it.
  void leave(const Request& gone) {
    const auto its = [&](const OracleRequest& x) { return x.request.tenant == gone.tenant; };
    if (!any(its) || any([&](const OracleRequest& x) { return its(x) && x.request.service == gone.service; })) return;
    OracleTenant& tenant = tenantOf(gone);
    const Wide left = levelOf(gone.tenant.value);
    const Wide had = std::max(left, served(gone.service.value, tenant.options.band));
    if (had > left) tenant.start = std::max(tenant.start - (had - left), std::min(tenant.start, left));
  }
  void forgetLevels() {
    if (services_.size() < 2) return;
    for (const Band band : {Band::High, Band::Normal, Band::Low}) {
      Wide level = virtualTimes_[static_cast<std::size_t>(band)];
      for (int s = 0; s < static_cast<int>(services_.size()); ++s) level = std::max(level, served(s, band));
      for (int i = 0; i < static_cast<int>(tenants_.size()); ++i) {
        OracleTenant& tenant = tenants_[static_cast<std::size_t>(i)];
        if (tenant.options.band == band && any([&](const OracleRequest& x) { return x.request.tenant.value == i; }))
          tenant.start += level - levelOf(i);
      }
      for (int s = 0; s < static_cast<int>(services_.size()); ++s) served(s, band) = level;
      virtualTimes_[static_cast<std::size_t>(band)] = level;
    }
  }
  int guaranteed(Band band) const { return options_.guarantees[static_cast<std::size_t>(band)]; }
  // In the order in which they joined.
  std::vector<OracleRequest*> membersOf(std::size_t run) {
    std::vector<OracleRequest*> members;
    for (auto& x : requests_) {
      if (x.running && x.run == run) members.push_back(&x);
    }
    std::sort(members.begin(), members.end(), [](const OracleRequest* a, const OracleRequest* b) { return a->joined < b->joined; });
    return members;
  }
  void start(OracleRequest& x, std::size_t run, bool guaranteed, Order& order, SlotClass slotClass) {
    OracleTenant& tenant = tenantOf(x.request);
    if (services_.size() > 1) {
      if (const int g = this->guaranteed(tenant.options.band); g > 0)
        guarantee(tenant.options.band) = std::max(guarantee(tenant.options.band), work_ - scaled(x.estimate.cost, g) * 1000);
      leafStart(x.request) = std::max(leafStart(x.request), tenant.virtualTime - scaled(x.estimate.cost, weightOf(x.request)));
    }
    x.running = true;
    Wide& there = served(x.request.service.value, tenant.options.band);
    there = std::max(there, tenant.start);
    if (!boundBySlots(x.request.service.value)) {
      Wide& shared = virtualTimes_[static_cast<std::size_t>(tenant.options.band)];
      shared = std::max(shared, tenant.start);
    }
    tenant.virtualTime = std::max(tenant.virtualTime, leafStart(x.request));
    x.run = run;
    x.guaranteed = guaranteed;
    x.joined = ++joins_;
    tenant.fresh = false;
    x.slot = SlotId(-2);  // told by the station, see placed()
    runs_[run].cost += x.estimate.cost;
    charge(x, x.estimate.cost);
    order.emplace_back(x.request.cookie, slotClass);
  }
  std::int64_t mostTogether(ServiceId service) {
    std::int64_t waiting = count([&](const OracleRequest& x) { return x.request.service == service; });
    std::int64_t free = 0;
    for (const auto& slot : slots_) free += slot.service == service.value && slot.open && !slot.busy ? 1 : 0;
    for (const SlotClass each : {SlotClass::Own, SlotClass::Loan}) {
      const auto taken = pendingSlots_.find({service.value, each});
      free -= taken == pendingSlots_.end() ? 0 : taken->second;
    }
    if (options_.concurrency > 0) free = std::min(free, options_.concurrency - static_cast<std::int64_t>(runs_.size()));
    return std::min<std::int64_t>((waiting + free - 1) / free, services_[static_cast<std::size_t>(service.value)].options.maxBatch);
  }
  bool fits(const OracleRequest& first, const OracleRequest& x, std::int64_t members, Nanos alone, Instant now) {
    if (x.request.batchKey != first.request.batchKey || x.request.version != first.request.version) return false;
    Instant due = x.request.deadline;
    for (const OracleRequest* each : membersOf(first.run)) due = std::min(due, each->request.deadline);
    const int ratio = services_[static_cast<std::size_t>(x.request.service.value)].batches.ratio(static_cast<int>(members) + 1);
    return now + Nanos((alone + x.estimate.t50).count() * ratio / 1000) <= due;
  }
  OracleRequest* firstOf(const Request& r) {
    OracleRequest* first = nullptr;
    for (auto& x : requests_) {
      if (x.running || x.request.tenant != r.tenant || x.request.service != r.service) continue;
      if (first == nullptr || std::pair(x.request.deadline, x.arrival) < std::pair(first->request.deadline, first->arrival)) first = &x;
    }
    return first;
  }
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
  bool freeOf(int service, SlotClass slotClass) const {
    std::int64_t free = 0;
    for (const auto& slot : slots_) free += slot.service == service && slot.slotClass == slotClass && slot.open && !slot.busy ? 1 : 0;
    const auto taken = pendingSlots_.find({service, slotClass});
    return free > (taken == pendingSlots_.end() ? 0 : taken->second);
  }
  bool freeSlot(int service) const {
    if (options_.concurrency > 0 && static_cast<int>(runs_.size()) >= options_.concurrency) return false;
    return freeOf(service, SlotClass::Own) || freeOf(service, SlotClass::Loan);
  }

  template <typename MineHere>
  std::optional<RefusalReason> late(const Request& r, const Estimate& e, Instant now, std::int64_t slots, const MineHere& mineHere) {
    const Band band = tenantOf(r).options.band;
    std::int64_t active = tenantOf(r).options.weight;  // it has just come
    std::array<bool, kBands> present{};
    for (std::size_t i = 0; i < tenants_.size(); ++i) {
      const bool here = any([&](const OracleRequest& x) { return x.request.tenant.value == static_cast<int>(i); });
      const bool lately = tenants_[i].lastSeen != Instant::min() && tenants_[i].lastSeen + Seconds(10) >= now;
      if (TenantId(static_cast<int>(i)) == r.tenant || !(here || lately)) continue;
      if (tenants_[i].options.band == band) active += tenants_[i].options.weight;
      present[static_cast<std::size_t>(tenants_[i].options.band)] = true;
    }
    int part = 1000;
    bool highest = true;
    for (const Band other : {Band::High, Band::Normal, Band::Low}) {
      if (other == band || !present[static_cast<std::size_t>(other)]) continue;
      part -= guaranteed(other);
      highest = highest && other > band;
    }
    if (!highest) part = guaranteed(band);
    if (options_.concurrency > 0) slots = std::min<std::int64_t>(slots, options_.concurrency);
    const std::int64_t share = std::max<std::int64_t>(1, slots * part * tenantOf(r).options.weight / active);
    const auto load = [&](const OracleRequest& x) { return Nanos(x.estimate.held.count() * 1000 / share); };

    Nanos residual{};
    if (!freeSlot(r.service.value)) {
      std::optional<Instant> soonest;
      for (const auto& x : requests_) {
        if (!x.running || x.request.service != r.service) continue;
        const Instant end = runs_.at(x.run).predictedEnd;
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
    if (slack && *slack < Nanos(e.held.count() * 1000 / share)) return RefusalReason::TenantBacklog;
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

  // Who is next on a free slot; or, of one service, who is next whatever is free. turn_: on its band's guarantee.
  OracleRequest* choose(std::optional<ServiceId> only) {
    const auto eligible = [&](const OracleRequest& x) {
      return !x.running && (only ? x.request.service == *only : freeSlot(x.request.service.value));
    };
    std::optional<Band> band;
    for (const Band each : {Band::Low, Band::Normal, Band::High}) {
      if (any([&](const OracleRequest& x) { return eligible(x) && tenantOf(x.request).options.band == each; })) band = each;
    }
    if (!band) return nullptr;
    std::optional<Band> behind;
    for (const Band each : {Band::High, Band::Normal, Band::Low}) {
      if (guaranteed(each) == 0 || guarantee(each) > work_) continue;
      if (!any([&](const OracleRequest& x) { return eligible(x) && tenantOf(x.request).options.band == each; })) continue;
      if (!behind || guarantee(each) < guarantee(*behind)) behind = each;
    }
    turn_ = behind.has_value();
    if (behind) band = behind;
    OracleRequest* best = nullptr;
    const auto inFlight = [&](const Request& r, bool here) {
      return std::count_if(requests_.begin(), requests_.end(), [&](const OracleRequest& x) {
        return x.running && x.request.tenant == r.tenant && (!here || x.request.service == r.service);
      });
    };
    const auto key = [&](const OracleRequest& x) {
      return std::make_tuple(tenantOf(x.request).start, inFlight(x.request, false), !tenantOf(x.request).fresh, x.request.tenant,
                             leafStart(x.request), inFlight(x.request, true), x.request.service, x.request.deadline, x.arrival);
    };
    for (auto& x : requests_) {
      if (!eligible(x) || tenantOf(x.request).options.band != *band) continue;
      if (best == nullptr || key(x) < key(*best)) best = &x;
    }
    return best;
  }
  void charge(OracleRequest& x, Nanos amount) {
    OracleTenant& tenant = tenantOf(x.request);
    x.charged += amount;
    tenant.charged += amount;
    tenant.start += scaled(amount, tenant.options.weight);
    leafStart(x.request) += scaled(amount, weightOf(x.request));
    work_ += scaled(amount, 1);
    if (const int g = guaranteed(tenant.options.band); x.guaranteed && g > 0) guarantee(tenant.options.band) += scaled(amount, g) * 1000;
  }

  StationOptions options_;
  std::vector<OracleTenant> tenants_;
  std::vector<OracleService> services_;
  std::vector<OracleSlot> slots_;
  std::vector<OracleRequest> requests_;  // in order of arrival
  std::map<std::pair<int, SlotClass>, std::int64_t> pendingSlots_;
  std::map<std::size_t, OracleRun> runs_;
  std::size_t runNumbers_{0};
  std::uint64_t joins_{0};
  std::uint64_t arrivals_{0};
  std::array<Wide, kBands> virtualTimes_{};
  std::array<Wide, kBands> guarantees_{};
  Wide work_{0};
  bool turn_{false};
};

}  // namespace coterie::dispatch
