// A station: who runs next on slots that compete for the same CPUs or device, and what is refused.
//
// Slots are lanes. A slot runs requests of one service; own slots are taken before loan slots. Requests wait in a tree, band -> tenant (weight) ->
// service (weight) -> deadline, and are charged in slot-time (the caller's tenant pays, whoever owns the service).
//
// Algorithm: start-time fair queueing (Goyal, Vin, Cheng 1996) with up to K requests in service (SFQ(D): Jin, Chase, Kaur 2004) and settlement.
//   Tags      every tenant and every (tenant, service) has a start tag S; every service (for each band) and every tenant a virtual time V that never
//             falls: the furthest tag that was served there. One unit = ns * 2^20 / w, in 128 bits: at 2^50 units per second and slot no tag can
//             overflow within the life of a machine.
//   Arrival   at an idle node (nothing queued, nothing running): S = max(S, V of its parent). Idle time is never banked, debt is kept.
//   Levels    (several services) least tag first is weighted max-min while the slots and who uses them stay: no tag is lifted then. A tenant that
//             comes to one more service has S = max(S, V there); who leaves the one where it was furthest has that taken off, not its debt; when
//             slots come or go all go on from one level. Where nobody waits for a service's slots, V is that of all such (`concurrency` bounds them
//             together).
//   Bands     each is guaranteed a part g of the time; R is all work charged, G the work that a band was charged for on its guarantee, by g; idle ->
//             busy: G = max(G, R). Behind are the eligible bands with G <= R: the one of least G is served, and charged G += e/g (settled with the
//             rest). None is behind: the highest eligible one is served, uncharged. g = 0: never behind, it has what others leave.
//   Select    for a free slot: among that band's tenants with work for it the least S (ties: fewest running, then who has just come from idle, then
//             least id); V = max(V, S); the same among its services; then the earliest deadline, then the earliest arrival. What can no longer end in
//             time (now + t50 > d) has been dropped before and pays nothing.
//   Charge    at dispatch S += e/w on the path (e: estimated cost); every 10 ms that it runs longer than e at once; at completion S += (a -
//             charged)/w (a: actual cost, may be less than e). Cancelled, failed and crashed work pays for the time it held its slot.
//   Batch     requests of one service and key run as one where that costs at most .9 of what they cost one by one, as measured (batch_costs.h): only
//             those that queue beyond what the free slots can take, of the chosen tenant, or of whose turn is next where both share batches; never so
//             many that by the estimates one of them ends late. Each pays its part by estimate. One that failed is run again one by one.
//   Admission a request is accepted iff it will end in time by the estimates behind its own tenant's queue, and makes no accepted one of its tenant
//             late; see enqueue(). Never the global queue: a flood must not get others refused. A service with nothing queued and a free slot accepts
//             whatever the estimates say (probe), so bad estimates cannot lock everyone out.
//   Caps      on queued requests and bytes of a tenant (refused), of a service and of the station (the tenant furthest over its weighted share loses
//             its latest-deadline request; if that is the newcomer, it is refused).
// Guarantee: for two tenants f, g of one band both backlogged and eligible for the same K slots in [t1, t2], W = slot-time charged in it, L = their
// largest max(e, a):
//             |W_f/w_f - W_g/w_g| <= (K+1) (L_f/w_f + L_g/w_g).
//   Sketch    W_f/w_f is the growth of S_f. Let T be the last dispatch of f in the interval: S_f <= S_g just before it. Afterwards S_f grows only by
//             that dispatch and by overruns of the k_f requests of f in service, each at most L_f in all; S_g falls only by settlement of the k_g
//             requests of g that are in service at T, each by at most L_g (a request dispatched later nets a >= 0); k_f + k_g <= K. So at t2, S_f -
//             S_g <= (k_f+1) L_f/w_f + k_g L_g/w_g. At t1 the difference the other way is bounded alike: each tag is within its own requests in
//             service of V, from below by select and from above because V = max(V, S) when the last of them was dispatched. The two ends use disjoint
//             sides of the sum, which gives the bound. An idle tenant without debt starts its first request at the next release of an eligible slot,
//             behind none but other such tenants and those whose settlement took them below V. Partial eligibility has no such bound: tests measure
//             the distance to weighted max-min. The note's lift of whoever was blocked to V - c/w at each of its turns is not used: with one V for
//             all, tenants that share a service which is wanted more than others are all lifted past each other, so their weights no longer count
//             there. A batch counts as one request of each tenant in it.
//   Bands     b backlogged and eligible in [t1, t2], W all work charged in it: W_b >= g_b W - (K+1) L. G_b grows by 1/g_b of what b is charged for on
//             its guarantee, and only while G_b <= R. Whenever a slot is given to a band that is behind, it is the one of least G; the others' growth
//             of G is at most theirs of R since they came, and the guarantees sum to at most 1, so b, were it behind by more than one request for
//             each slot and its own, would have the least G of all and would be served: R - G_b <= (K+1) L / g_b.
// Complexity: select, charge, settle O(r + s log n + log q) for each request: n tenants, q queued, s services of the tenant here, r services with a
// free slot and work; one service: O(log n + log q). Slots that come or go among several services: O(n s log n). Admission O(log q) expected;
// O(tenants) when a cap of service or station is met; a tenant's queue is re-summed, O(its length), when its share of the slots changed. Memory is
// pooled and grows to the largest load seen; no allocation once warm. Sequences come with their issue. Time is an argument; instants may not go back.
// Integers only. Errors: misuse of ids is a broken invariant (asserted); a stale RequestHandle is harmless. Pure: no clock, no I/O.
// Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "dispatch/batch_costs.h"
#include "dispatch/deadline_tree.h"
#include "dispatch/estimates.h"
#include "dispatch/index_heap.h"
#include "dispatch/rate.h"
#include "dispatch/request.h"
#include "dispatch/wide.h"
#include "model/band.h"
#include "model/ids.h"

namespace coterie::dispatch {

struct Caps {                // 0: none
  std::int64_t requests{0};  // queued
  Bytes bytes{};             // of queued requests
};

struct StationOptions {
  Caps caps{10'000, {}};
  int concurrency{0};  // slots in use at once, for slots of several services on fewer CPUs; 0: all of them
  // Of the station's time, in thousandths, what the tenants of each band (high, normal, low) have at least while they have work; together at most
  // 1000.
  std::array<int, kBands> guarantees{500, 300, 200};
};

struct TenantOptions {
  std::int64_t weight{100};  // >= 1
  Band band{Band::Normal};
  bool sharesBatches{false};  // its requests may run as one with those of others that say the same
  Caps caps{};                // in this station
  Nanos queuedCost{};         // cap on the estimated slot-time that waits; 0: none
};

struct ServiceOptions {
  std::int64_t weight{100};  // >= 1, within each tenant; matters where `concurrency` is less than the slots
  Caps caps{};
  Nanos initialRun{Millis(10)};  // run time before anything was measured: the probe's result
  int maxBatch{1};               // requests that may run as one; 1: none
};

struct Demand {            // of one service, for the in-node scheduler's formula
  MilliRps arrivals;       // time constant 1 s; refused requests included
  Nanos cpuPerRequest{};   // mean thread CPU time of a run
  Nanos heldPerRequest{};  // mean slot time of a run, run-queue wait excluded
  std::int64_t queued{0};
  std::int64_t inFlight{0};
  std::int64_t queuedBytes{0};
};

struct TenantStats {  // counters since the tenant was first seen
  std::int64_t queued{0};
  std::int64_t queuedBytes{0};
  std::int64_t inFlight{0};
  std::int64_t arrivals{0};   // refused included
  std::int64_t refused{0};    // on arrival
  std::int64_t dropped{0};    // accepted, then expired, displaced or its service went
  std::int64_t completed{0};  // whatever the outcome
  Nanos charged{};            // slot-time, exact: settled, plus estimates of what runs
};

enum class CancelResult : std::uint8_t {
  Removed,  // it was queued; its place is free and the handle dead
  Running,  // terminate its lane; slot and charge stay until completed()
  Shared,   // running as one with others who still wait for their answers: let it end; its charge stays until completed()
  Unknown,  // it is gone already
};

class Station {
 public:
  static constexpr Nanos kOverrunStep = Millis(10);
  static constexpr Nanos kActiveWindow = Seconds(10);  // see enqueue()

  explicit Station(const StationOptions& options = {});

  // Configuration. Weights bite from the next charge on; caps from the next arrival on.
  void configure(const StationOptions& options);
  void setTenant(TenantId tenant, const TenantOptions& options);  // needed once before its first request; ids are small and dense
  [[nodiscard]] bool hasTenant(TenantId tenant) const;
  ServiceId addService(const ServiceOptions& options);
  void setService(ServiceId service, const ServiceOptions& options);
  // Queued requests are dropped (in the next Decisions); running ones complete as usual; later ones are refused with NoInstance. Remove its slots
  // before.
  void removeService(ServiceId service, Instant now);

  // Slots. A new slot is open and free. A closed one finishes what it runs and gets nothing new (parked loan lanes, own lanes beyond the allocation).
  SlotId addSlot(ServiceId service, SlotClass slotClass, std::uint64_t cookie);
  void setSlotOpen(SlotId slot, bool open);
  void removeSlot(SlotId slot);  // what runs there must still be completed(); the id is reused only then

  // Accepts (the request then waits for next()) or refuses. Order of tests: deadline passed, instance, size, tenant's caps, probe, in time, slack,
  // shared caps.
  //   wait(r) = residual run of the service's next slot + (time that the tenant's queue for this service with deadline <= d holds slots) / C
  //   C       = this tenant's share of the service's slots if every tenant active here in the last 10 s were backlogged.
  //             Active: it came, or had a request queued or running, even if nobody asked meanwhile
  //   accept iff now + wait(r) + t90 * margin <= d, and each of its queued with a later deadline keeps slack >= held(r)/C; margin: 1..3, adapts
  //   (estimates.h)
  [[nodiscard]] Admission enqueue(const Request& request, Instant now);

  // Whether a request of which only the head is there will surely be refused by enqueue(), as far as the tenant's caps and the time tell, were it of
  // the cheapest kind that this service has seen: then its body need not be read. It counts as arrived and refused then; else nothing has happened.
  // Its input's size need not be known.
  [[nodiscard]] std::optional<Refusal> foresee(const Request& request, Instant now);

  // Everything that is due: charges overruns, drops what can no longer end in time, fills free slots. Appends to `out`. Call it after each change
  // (enqueue, completed, slots) and at nextEvent().
  void next(Instant now, Decisions& out);

  // The request's slot is free again (the worker confirmed its end), for all that ran on it as one: to be called once, with any of them. Stale
  // handles are ignored. True: a batch failed, and each of those that were not cancelled waits again, to be run alone: there is nothing to answer
  // yet.
  bool completed(RequestHandle request, const Usage& usage, Outcome outcome, Instant now);
  CancelResult cancel(RequestHandle request, Instant now);

  // When next() must run though nothing else happens: an expiry, or an overrun to charge while somebody waits.
  [[nodiscard]] std::optional<Instant> nextEvent() const;

  [[nodiscard]] Demand demand(ServiceId service, Instant now) const;
  [[nodiscard]] TenantStats stats(TenantId tenant) const;
  // Thousandths of a slot: C of enqueue(). For a tenant that has requests queued or running here.
  [[nodiscard]] std::int64_t share(TenantId tenant, ServiceId service) const { return shareOf(tenantOf(tenant), serviceOf(service)); }
  [[nodiscard]] Nanos queuedCost(TenantId tenant) const;  // slot-time that its queued requests will cost by the estimates
  [[nodiscard]] Estimate estimate(ServiceId service, std::uint32_t version, std::uint64_t inputElements) const;
  [[nodiscard]] int marginPermille(ServiceId service) const;
  [[nodiscard]] std::int64_t queued() const { return queued_; }
  [[nodiscard]] std::int64_t queuedBytes() const { return queuedBytes_; }
  [[nodiscard]] int busySlots() const { return busy_; }

 private:
  using Index = IndexHeap::Index;
  static constexpr Index kNone = IndexHeap::kNone;
  using Tag = Wide;

  enum class State : std::uint8_t { Free, Queued, Running };
  struct Node {  // a request
    Request request;
    State state{State::Free};
    std::uint32_t generation{0};
    std::uint64_t arrival{0};
    Index leaf{kNone};
    Estimate estimate;
    Instant latestStart{};   // queued: dropped after it
    SlotId slot;             // running, and what follows
    Index nextInRun{kNone};  // runs as one with it
    bool abandoned{false};   // cancelled, and the others not
    Band band{Band::Normal};
    bool guaranteed{false};  // its band was behind, so it is charged to its guarantee
    Nanos charged{};
  };
  struct Leaf {  // a tenant's queue for one service
    TenantId tenant;
    ServiceId service;
    Tag start{0};
    std::int64_t queued{0};
    std::int64_t queuedBytes{0};
    std::int64_t inFlight{0};
    std::int64_t share{0};  // in thousandths of a slot, as the tree's loads were computed
    DeadlineTree::Root root;
  };
  struct Tenant {
    bool known{false};
    TenantOptions options;
    Tag start{0};
    Tag virtualTime{0};
    TenantStats stats;
    Nanos queuedCost{};
    bool fresh{false};   // came from idle at S = V and has not been served since
    bool active{false};  // in the list by lastSeen
    Instant lastSeen{};  // its last arrival, or when its last request was gone
    TenantId previous;
    TenantId following;
    std::vector<Index> leaves;  // by service; kNone: none yet
  };
  struct Service {
    ServiceOptions options;
    bool removed{false};
    std::int64_t queued{0};
    std::int64_t queuedBytes{0};
    std::int64_t inFlight{0};
    int openSlots{0};
    std::vector<SlotId> freeOwn;
    std::vector<SlotId> freeLoan;
    std::array<Tag, kBands> virtualTime{};  // of the tenants that it served
    std::array<IndexHeap, kBands> backlog;  // tenants with queued requests, by tag
    IndexHeap running;                      // slots, by predicted end
    BatchCosts batches;
    int readyPlace{-1};  // in ready_: it has work and a free slot
    Estimates estimates{Nanos(1)};
    Margin margin;
    ArrivalRate arrivals;
    Nanos meanCpu{};
    Nanos meanHeld{};
  };
  struct Slot {
    bool exists{false};
    bool open{true};
    bool leaving{false};  // removed while busy
    ServiceId service;
    SlotClass slotClass{SlotClass::Own};
    std::uint64_t cookie{0};
    int freePlace{-1};
    Index first{kNone};  // of the requests that run on it as one; and what follows, of all of them
    int members{0};
    int awaited{0};  // not abandoned
    Instant started{};
    Nanos cost{};         // sum of the estimates
    Instant chargeDue{};  // the next 10 ms of overrun are charged then
    Instant predictedEnd{};
  };
  struct BandState {
    Tag guarantee{0};         // G
    Tag virtualTime{0};       // V of its tenants where `concurrency` bounds them, not the slots of a service
    std::int64_t present{0};  // requests queued and running
    std::int64_t activeWeight{0};
  };
  struct Turn {
    Band band{Band::Normal};
    bool guaranteed{false};
  };
  struct Pick {
    TenantId tenant;
    ServiceId service;
    bool guaranteed{false};
  };

  [[nodiscard]] Tenant& tenantOf(TenantId id) { return tenants_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] const Tenant& tenantOf(TenantId id) const { return tenants_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] Service& serviceOf(ServiceId id) { return services_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] const Service& serviceOf(ServiceId id) const { return services_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] Slot& slotOf(SlotId id) { return slots_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] Index leafFor(TenantId tenant, ServiceId service);

  // Slots and readiness (station_slots.cc).
  void offer(SlotId id);
  void withdraw(SlotId id);
  [[nodiscard]] bool hasFreeSlot(const Service& service) const;
  [[nodiscard]] SlotId takeSlot(Service& service);
  void updateReady(ServiceId id);

  // Fair queueing (station.cc).
  [[nodiscard]] bool tenantLess(Index a, Index b) const;
  [[nodiscard]] std::optional<Pick> pick() const;
  void dispatch(const Pick& pick, Instant now, Decisions& out);
  void start(const Pick& pick, SlotId slot, Decisions& out);
  void charge(const Node& node, Nanos amount);
  void settle(Index id, Nanos actual, Outcome outcome, bool again, Instant now);
  void learn(Service& service, const Slot& slot, const Usage& usage, Nanos actual);
  void rekey(TenantId id);
  void chargeOverruns(Instant now);
  void dropExpired(Instant now, Decisions& out);
  [[nodiscard]] Node* find(RequestHandle handle);
  void release(Index id, Instant now);

  // Bands (station_bands.cc).
  [[nodiscard]] BandState& bandOf(const Tenant& tenant) { return bands_[static_cast<std::size_t>(tenant.options.band)]; }
  [[nodiscard]] const BandState& bandOf(const Tenant& tenant) const { return bands_[static_cast<std::size_t>(tenant.options.band)]; }
  [[nodiscard]] int guaranteeOf(Band band) const { return options_.guarantees[static_cast<std::size_t>(band)]; }
  [[nodiscard]] Turn turnOf(const std::array<bool, kBands>& eligible) const;
  [[nodiscard]] int partOf(Band band) const;
  void bandArrives(const Tenant& tenant);
  void bandCatchesUp(Band band, Nanos cost);
  void chargeBand(const Node& node, Nanos amount);

  // Levels (station_levels.cc).
  [[nodiscard]] static bool boundBySlots(const Service& service);
  [[nodiscard]] Tag virtualTimeAt(const Service& service, Band band) const;
  [[nodiscard]] Tag levelOf(const Tenant& tenant) const;
  void reach(Service& service, const Tenant& tenant);
  void joinService(const Leaf& leaf);
  void leaveService(const Leaf& leaf);
  void forgetLevels();
  void moveToBand(TenantId id, Band band);

  // Batches (station_batch.cc).
  [[nodiscard]] int mostTogether(const Service& service) const;
  [[nodiscard]] std::optional<Pick> nextTogether(const Pick& first, const Slot& slot, Nanos run, Instant now);
  [[nodiscard]] bool fits(const Service& service, const Slot& slot, Index id, Nanos run, Instant now) const;
  void runAgain(Index id);

  // Admission (station_admission.cc).
  void touch(TenantId id, Instant now);
  void moveToNewest(TenantId id, Instant now);
  void forgetInactive(Instant now);
  [[nodiscard]] std::int64_t shareOf(const Tenant& tenant, const Service& service) const;
  [[nodiscard]] std::optional<Refusal> checkInstance(const Request& request, Instant now) const;
  [[nodiscard]] std::optional<Refusal> checkCaps(const Request& request, const Estimate& estimate) const;
  [[nodiscard]] std::optional<Refusal> checkTime(const Request& request, const Estimate& estimate, Leaf& leaf, Instant now);
  struct Scope;
  [[nodiscard]] std::optional<Refusal> makeRoom(const Request& request, Instant now);
  [[nodiscard]] std::optional<Refusal> makeRoomIn(const Scope& scope, const Request& request, Instant now);
  [[nodiscard]] TenantId furthestOver(const Scope& scope, const Request& request, bool byBytes) const;
  [[nodiscard]] Index latestQueued(TenantId tenant, ServiceId only) const;
  [[nodiscard]] RequestHandle insert(const Request& request, const Estimate& estimate, Index leaf, Instant latestStart);
  void enter(Index id);
  void dequeue(Index id);
  void drop(Index id, const Refusal& refusal, Instant now);

  StationOptions options_;
  std::vector<Tenant> tenants_;    // by TenantId
  std::vector<Service> services_;  // by ServiceId
  std::vector<Slot> slots_;        // by SlotId
  std::vector<Leaf> leaves_;
  std::vector<Node> nodes_;
  std::vector<Index> freeNodes_;
  std::vector<SlotId> freeSlotIds_;
  std::vector<ServiceId> ready_;
  std::vector<Drop> pendingDrops_;  // displaced or service gone: told in the next Decisions
  DeadlineTree queues_;
  IndexHeap expiries_;  // queued requests, by latest start
  IndexHeap overruns_;  // busy slots, by the next charge
  std::array<BandState, kBands> bands_;
  Tag work_{0};  // R: all that was charged
  std::uint64_t arrivals_{0};
  std::int64_t queued_{0};
  std::int64_t queuedBytes_{0};
  int busy_{0};
  TenantId oldestActive_;
  TenantId newestActive_;
};

}  // namespace coterie::dispatch
