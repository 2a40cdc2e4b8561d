// The dynamic resource controller: turns what happens on the node (services and workers that come, go, resize or crash; CPUs that come and go;
// queues) into CPU sets and lane counts, within milliseconds, and keeps them there.
//
// Event -> snapshot (read back from the kernel) -> allocation::Planner -> batch for the applier -> read back -> targets to the listener. Events of
// one turn of the loop make one plan; while a batch runs, further ones wait for the next. A lone event acts at once; what follows it more closely
// than burstQuiet waits until it has been quiet for so long (at most burstMost), so that a burst costs two plans: its first event's, and one of all
// others. Load, time and repairs never wait. When a group loses, its lanes are taken back before its CPUs; when it gains, CPUs come first, then
// lanes. A failed write is counted, read back and planned again at the next poll; a write over its deadline blocks only the steps that wait for it,
// and its container is left alone until the write returns. Placing: a container has a place in the plan from instanceStarting() on, while its worker
// loads; its threads are moved when it is ready. Isolation: no other tenant enters a unit of an isolated group, nor such a group a unit in which
// another tenant still is, also where a write hangs. Hints of the last run (HomeJournal) are taken if they are free: tell all known groups and
// instances in one turn of the loop at start, and they get the homes they had. Polling: every second the machine's sets and all containers are read
// back (drift is repaired: of one container a few times a minute, then it is contested, which is said with the names of programs that may be at it);
// every 10 ms while something is queued or lent; else nothing. Memory: every five seconds what is free of each node, and of each container what is
// resident and whether it waits (PSI); a plan follows where that has changed by more than noise (drc_memory.cc). Before a container answers, what it
// is expected to need counts. Cache classes follow the plan of CPUs (class_keeper.h). Cost: a plan is what planner.h says plus O(containers) system
// calls. Thread rule: everything on the control loop, callbacks included; never called from inside a call. Source: Liu & Guitart, IEEE CLOUD 2025
// (dynamic resource controller).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/apply_batch.h"
#include "agent/class_keeper.h"
#include "agent/demand.h"
#include "agent/home_journal.h"
#include "allocation/decide.h"
#include "allocation/isolation.h"
#include "allocation/isolation_room.h"
#include "allocation/isolation_terms.h"
#include "base/cpu_set.h"
#include "base/units.h"
#include "model/cache_class.h"
#include "model/container_role.h"
#include "model/ids.h"
#include "model/machine.h"
#include "ports/cache_classes.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "ports/cpu_controller.h"
#include "ports/machine_source.h"

namespace coterie::agent {

struct GroupSpec {
  GroupId id;
  ServiceName service;
  TenantId tenant;
  allocation::Band band{allocation::Band::Normal};
  std::int64_t tenantWeight{100};
  std::int64_t weight{100};
  MilliCpu tenantCap;  // of what the tenant's groups own together; 0: none
  MilliCpu floor;      // 0: none
  MilliCpu ceiling;    // 0: the machine
  bool latencyCritical{true};
  allocation::Lend lend{allocation::Lend::WhenIdle};
  Isolation isolation{Isolation::None};
  std::optional<Nanos> objective;  // latency bound
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

// What an instance does in its group; an init or a sidecar may need CPUs of its own (allocation/roles.h).
struct InstanceRole {
  ContainerRole role{ContainerRole::App};
  MilliCpu floor;
};

// What a group has of the machine, in short.
struct GroupShare {
  CpuSet home;  // of all its containers
  bool inPool{false};
  MilliCpu entitlement;
};

// Who of a group is planned for which CPUs.
struct GroupHomes {
  bool apart{false};                                   // in the pool, or pending: no CPU is its own
  std::vector<std::pair<InstanceId, CpuSet>> homes{};  // ascending instance
};

// Lanes that the dispatcher may give new requests to: own lanes 0..ownLanes-1, loan lanes 0..loanLanes-1.
struct LaneAllowance {
  InstanceId instance;
  int ownLanes{0};
  int loanLanes{0};
  friend bool operator==(const LaneAllowance&, const LaneAllowance&) = default;
};

struct DrcConfig {
  allocation::Config allocation;
  std::optional<CpuSet> reserved;  // for Coterie itself; not set: none below 8 CPUs, one core per 32 CPUs from there up
  Millis pollInterval{1000};       // drift, machine, use
  Millis memoryInterval{5000};     // memory of nodes and containers; looked at in a poll
  Seconds pressureHeld{60};        // who waited for memory counts as waiting for so long: narrowed at once, it would wait again
  Millis tickInterval{10};         // while something is queued or lent
  Millis writeDeadline{20};        // then a write counts as stuck
  Millis laneStarvedAfter{20};     // a loan lane without CPU for this long moves to its own group's free CPUs
  Nanos burstQuiet{Millis(5)};     // events closer behind one another than this are a burst: one plan, when it pauses
  Nanos burstMost{Millis(100)};    // or has lasted so long
  int repairsPerMinute{6};         // of one container's drift; beyond that it is left alone for the rest of the minute
  std::size_t changesKept{50};     // per group, for explain
  // Of whom caches are divided, where there is a port for it.
  CacheClassMode cacheClasses{CacheClassMode::Auto};
};

enum class Trigger : std::uint8_t {
  Start,
  GroupAdded,
  GroupRemoved,
  GroupResized,
  InstanceStarting,
  InstanceReady,
  InstanceEnded,
  MachineChanged,
  Demand,
  Memory,
  Drift,
  Retry,
  Unfrozen,
  Time
};
[[nodiscard]] std::string_view triggerName(Trigger trigger);

// One change of a container's CPUs, for people.
struct PlacementChange {
  WallTime when;
  InstanceId instance;
  CpuSet from;
  CpuSet to;
  Trigger trigger{Trigger::Start};
};

struct GroupCounters {
  std::int64_t moves{0};        // changes of a home
  std::int64_t applyErrors{0};  // writes that failed or were stuck
  std::int64_t driftRepairs{0};
  std::int64_t conflicts{0};   // times that a container became contested
  std::int64_t lanesMoved{0};  // starved loan lanes moved home
  Nanos used{};                // CPU time of all lanes
  Nanos borrowed{};            // of it, on others' CPUs
  Nanos idle{};                // CPU time that it was entitled to, and that neither it nor a borrower used
  Nanos lent{};                // others' CPU time on this group's CPUs (shared out evenly over a borrower's loan CPUs)
};

struct ContainerView {
  InstanceId instance;
  bool ready{false};
  bool stuck{false};      // a write on it has not returned
  bool contested{false};  // somebody else keeps setting its CPUs, or `limit`
  CpuSet home;            // wanted
  CpuSet loans;
  CpuSet memoryNodes;          // wanted
  Bytes resident;              // as it counts in plans
  bool waitsForMemory{false};  // so does this
  LaneAllowance lanes;         // published
  std::optional<ObservedContainer> observed;
  std::string limit{};  // which set above it does not allow its home, a clause; empty: none
};

struct GroupView {
  GroupSpec spec;
  MilliCpu entitlement;
  MilliCpu demand;
  MilliCpu grant;  // capacity of the home CPUs and of awake loan lanes
  bool inPool{false};
  bool pending{false};
  std::int64_t queued{0};
  std::vector<ContainerView> containers;
  std::vector<allocation::Reason> reasons;  // of the last plan, about this group
  std::vector<PlacementChange> changes;     // oldest first
  GroupCounters counters;
  std::string cacheClass{};  // what it has of the caches, a sentence; empty: no classes are in force
};

struct DrcView {
  std::string controller;            // the actuator's name
  std::vector<std::string> caveats;  // what it does not enforce
  allocation::PolicyName policy{allocation::PolicyName::Drc};
  bool frozen{false};
  CpuSet online, allowed, reserved, pool;
  std::int64_t plans{0};
  std::int64_t stepsApplied{0};
  std::optional<Trigger> lastTrigger;
  std::string rivals;  // programs that set CPUs, as seen when a container became contested last; empty: none known
  ClassesView classes{};
};

class Drc {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // One entry per container of the group, ascending instance; called only when lanes or the planned home changed. A lane that is no longer allowed
    // finishes what it runs.
    virtual void lanesChanged(GroupId group, const std::vector<LaneAllowance>& lanes) = 0;
    // The group's floor no longer fits (or fits again). Its containers should be ended: it keeps no CPU.
    virtual void pendingChanged(GroupId group, bool pending) = 0;
  };
  struct Ports {
    EventLoop& loop;
    CpuController& controller;
    MachineSource& machine;
    StepApplier& applier;
    HomeJournal& journal;
    Listener& listener;
    std::function<DemandSample(GroupId)> sampleDemand;  // the gateway's figures now
    std::function<std::string()> rivals = {};           // names programs here that set other processes' CPUs; none: not looked for
    CacheClasses* cacheClasses{nullptr};
    // Of a container, now; none: the one that was told with it.
    std::function<std::vector<int>(InstanceId)> processes = {};
  };

  Drc(Ports ports, DrcConfig config);
  ~Drc();
  Drc(const Drc&) = delete;
  Drc& operator=(const Drc&) = delete;

  // Reads the machine, loads hints, begins to poll. Errors: those of MachineSource.
  [[nodiscard]] Status start();

  void setGroup(const GroupSpec& spec);  // adds or resizes
  void removeGroup(GroupId id);          // its containers leave the plan; ends no process
  // expected: of memory, once it is loaded; 0: not known.
  void instanceStarting(GroupId group, InstanceId instance, Bytes expected = {}, const InstanceRole& role = {});
  void instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready);
  void instanceEnded(InstanceId instance);
  void demandChanged(GroupId group);  // requests wait: look now, and every tick until nothing is queued or lent

  // Would this group's floor fit beside those present? The milli-CPUs missing, 0 if it fits.
  [[nodiscard]] MilliCpu missingForFloor(const GroupSpec& newcomer) const;
  // Of one whose floor is refused: why its isolation cannot be had (allocation/isolation_room.h); nothing: it is not that.
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const GroupSpec& newcomer) const;
  // The CPUs a starting instance will have (empty: not planned yet).
  [[nodiscard]] CpuSet plannedHome(InstanceId instance) const;
  // Which set above it keeps it from that, a clause; empty: none. It is not asked for again until that is widened.
  [[nodiscard]] std::string limitOf(InstanceId instance) const;
  [[nodiscard]] std::optional<GroupShare> shareOf(GroupId id) const;  // none: no such group. O(containers)
  [[nodiscard]] std::map<GroupId, GroupHomes> homes() const;          // for who asks often

  void freeze();  // `drc off`: nothing is planned or repaired until unfreeze()
  void unfreeze();
  void setPolicy(allocation::PolicyName policy);
  void setLending(bool lending);
  void setReserved(const CpuSet& reserved);   // of DrcConfig; who is on such a CPU leaves it
  void setCacheClasses(CacheClassMode mode);  // of DrcConfig
  // Gives everything back as it was (end of the process).
  void shutDown();

  [[nodiscard]] std::optional<GroupView> explainGroup(GroupId id) const;  // reads the kernel back
  [[nodiscard]] std::vector<GroupView> groups() const;                    // without observations and changes: for metrics
  [[nodiscard]] DrcView view() const;
  [[nodiscard]] const Machine& machine() const;
  [[nodiscard]] const allocation::IsolationUnits& isolationUnits() const;  // of the machine as it is now, without what is reserved
  [[nodiscard]] bool settled() const;                                      // no plan due, nothing being applied

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Coterie's own CPUs on machines of 8 CPUs and more: whole cores with the lowest ids, one CPU per 32 at least; empty below.
[[nodiscard]] CpuSet defaultReserved(const Machine& machine);

}  // namespace coterie::agent
