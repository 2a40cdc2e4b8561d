// The inside of Drc, in six files: drc.cc (events and views), drc_plan.cc (snapshot, decide, wanted state), drc_apply.cc (batches, read back,
// repair), drc_load.cc (demand, loan lanes, use), drc_memory.cc (memory of nodes and containers), drc_classes.cc (cache classes). Not for others.
#pragma once

#include <algorithm>
#include <set>
#include <utility>

#include "agent/drc.h"
#include "allocation/layout.h"
#include "allocation/memory_map.h"
#include "allocation/planner.h"

namespace coterie::agent {

struct LaneTrack {
  int tid{0};
  Nanos cpu{};         // at the last account
  Nanos cpuAtTick{};   // at the last tick
  Nanos starved{};     // runnable without having run
  bool atHome{false};  // moved to its own group's CPUs
};

// What the last plan wants of a container.
struct Wanted {
  CpuSet home;
  CpuSet loans;
  CpuSet memoryNodes;
  int ownLanes{0};
  int awakeLoanLanes{0};
};

struct ContainerRecord {
  InstanceId id;
  GroupId group;
  int ordinal{0};  // among its group's containers, for hints
  int width{1};    // threads of one run: a lane takes so many CPUs
  int stuckWrites{0};
  bool ready{false};             // its worker answers
  bool registered{false};        // the controller knows it
  bool unmade{false};            // a step of it was not made: it is planned again, not repaired
  bool repairTried{false};       // since the last poll; also set by a failed write
  bool contested{false};         // its repairs were too many
  bool refusedFromAbove{false};  // the kernel did, for its limit
  bool waitsForMemory{false};    // until waitsUntil, since it did
  bool announcedOnce{false};
  InstanceRole role;
  CpuSet stuckMayTake;           // homes that writes which have not returned may still set
  std::deque<Instant> repairs;   // of drift, in the last minute
  std::optional<CpuSet> spread;  // its own lanes keep to one CPU each of this set; empty: they float; none: not placed yet
  ContainerRegistration threads;
  std::string limit{};  // which set above keeps its home from it; empty: none
  Bytes resident;
  Bytes expected;  // once it is loaded
  std::optional<Instant> waitsUntil{};
  Wanted wanted;
  LaneAllowance published;
  CpuSet announcedHome;  // the planned home when its lanes were told last
  std::vector<LaneTrack> ownLanes, loanLanes;
  // Own lanes that so many CPUs carry: one at least, where there is a CPU.
  [[nodiscard]] int lanesOn(int cpus) const { return cpus == 0 ? 0 : std::max(1, cpus / width); }
  // Of the lanes that the plan wants, those that the worker has.
  [[nodiscard]] int usableOwnLanes() const { return std::min(lanesOn(wanted.ownLanes), static_cast<int>(ownLanes.size())); }
};

struct GroupRecord {
  GroupSpec spec;
  Instant joined{};
  bool removing{false};  // goes with its last container
  MilliCpu entitlement;
  bool inPool{false};
  bool pending{false};
  DemandSample sample;
  MilliCpu demand;
  std::optional<Instant> belowSince;  // demand at or below the entitlement
  int loansPlannedFor{0};             // loan lanes that the last plan was asked for
  std::optional<Instant> lastOptionalMove;
  std::vector<allocation::Reason> reasons;
  std::deque<PlacementChange> changes;
  GroupCounters counters;
  Instant usedUntil{};  // up to here counters.idle is counted
  Nanos usedBefore{};   // of the CPUs that it is entitled to, up to there: by itself and by borrowers
};

[[nodiscard]] inline bool isHomeStep(allocation::StepKind kind) {
  return kind == allocation::StepKind::NarrowHome || kind == allocation::StepKind::WidenHome || kind == allocation::StepKind::SwapHome;
}

class Drc::Impl {
 public:
  Impl(Ports ports, DrcConfig config);

  // drc.cc
  [[nodiscard]] Status start();
  void setGroup(const GroupSpec& spec);
  void removeGroup(GroupId id);
  void instanceStarting(GroupId group, InstanceId instance, Bytes expected, const InstanceRole& role);
  void instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready);
  void instanceEnded(InstanceId instance);
  void freeze() {
    frozen_ = true;
    followHurry();
  }
  void unfreeze();
  void setPolicy(allocation::PolicyName policy);
  void setLending(bool lending);
  void setReserved(const CpuSet& reserved);
  void setCacheClasses(CacheClassMode mode);
  void shutDown();
  [[nodiscard]] std::optional<GroupView> explainGroup(GroupId id) const;
  [[nodiscard]] std::vector<GroupView> groups() const;
  [[nodiscard]] DrcView view() const;
  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] const allocation::IsolationUnits& isolationUnits() const { return units_; }
  [[nodiscard]] bool settled() const { return !due_ && !current_.batch && lateBatches_.empty(); }
  [[nodiscard]] CpuSet plannedHome(InstanceId instance) const;
  [[nodiscard]] std::string limitOf(InstanceId instance) const;
  [[nodiscard]] std::optional<GroupShare> shareOf(GroupId id) const;
  [[nodiscard]] std::map<GroupId, GroupHomes> homes() const;
  [[nodiscard]] MilliCpu missingForFloor(const GroupSpec& newcomer) const;
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const GroupSpec& newcomer) const;
  [[nodiscard]] std::pair<allocation::Snapshot, allocation::GroupState> besideNewcomer(const GroupSpec& newcomer) const;
  // drc_load.cc
  void demandChanged(GroupId group);

 private:
  enum class Unplaced : std::uint8_t { LeaveOut, Place };
  using Observed = std::map<InstanceId, ObservedContainer>;
  struct Running {
    std::shared_ptr<ApplyBatch> batch;
    std::vector<InstanceId> containers;  // of each step; invalid: of none
    std::vector<CpuSet> homes;           // that each step sets, if it sets one
    std::vector<int> seenRunning;        // deadline checks at which the step was running
    std::set<std::size_t> late;
    std::set<InstanceId> unsettled;  // their lanes are not published yet
    Observed seen;                   // of those that are: what the kernel said after their last step
    std::vector<std::size_t> ancestorSteps;
    std::map<std::size_t, CpuSet> spreads;  // steps that spread a container's lanes
    int idleChecks{0};
    [[nodiscard]] bool writesAncestors(std::size_t index) const {
      return std::find(ancestorSteps.begin(), ancestorSteps.end(), index) != ancestorSteps.end();
    }
  };

  // drc.cc
  void schedule(Trigger trigger);
  enum class Urgency : std::uint8_t { AtOnce, Waits };
  [[nodiscard]] bool joinsBurst(Trigger trigger);
  void planDue(Urgency urgency);
  // The loop's thread does not wait behind the load while a plan is wanted or under way; a write that hangs is neither.
  void followHurry() { ports_.applier.hurry(started_ && !frozen_ && (due_ || current_.batch)); }
  [[nodiscard]] GroupView viewOf(const GroupRecord& group) const;
  [[nodiscard]] int freeOrdinal(GroupId group) const;
  ContainerRecord& containerFor(GroupId group, InstanceId instance);
  void registerContainer(ContainerRecord& container);
  void takeAsFound(ContainerRecord& container);
  void poll();
  void pollMachine();
  void adoptMachine(Machine machine);
  void placeSystem();
  // drc_plan.cc
  void planNow();
  enum class Look { Places, Everything };  // Everything: each poll, or with the first plan after where a poll could not
  [[nodiscard]] Observed observeAll(Look look);
  void observeInto(Observed& observed, const ContainerRecord& container) const;
  [[nodiscard]] allocation::Snapshot snapshotOf(const Observed& observed) const;
  [[nodiscard]] allocation::GroupState stateOf(const GroupSpec& spec, const GroupRecord* group) const;
  [[nodiscard]] allocation::ContainerState containerState(const ContainerRecord& container, const Observed& observed) const;
  [[nodiscard]] static std::map<InstanceId, CpuSet> homesAfter(const allocation::Plan& plan, const allocation::Snapshot& snapshot);
  void adopt(const allocation::Plan& plan, const std::map<InstanceId, CpuSet>& homes);
  void adoptTarget(ContainerRecord& container, GroupRecord& group, const allocation::ContainerTarget& target);
  void addPlacings(std::vector<allocation::Step>& steps, const Observed& observed) const;
  static void awaitMemory(std::vector<allocation::Step>& steps, const Observed& observed);
  void doWithoutStuck(std::vector<allocation::Step>& steps, const Observed& observed);
  [[nodiscard]] CpuSet usable() const { return allocation::usableCpus(machine_, reserved_); }
  [[nodiscard]] CpuSet closedBy(const GroupRecord& holder, const CpuSet& held, const GroupRecord& taker) const;
  [[nodiscard]] CpuSet barredBy(const GroupRecord& holder, const CpuSet& held, const GroupRecord& taker) const;
  void takeHint(ContainerRecord& container);
  void saveHints();
  // drc_apply.cc
  void apply(const std::vector<allocation::Step>& steps);
  [[nodiscard]] PreparedChange prepareStep(const allocation::Step& step, int& refused);
  void addSpreads(std::vector<ApplyStep>& built, Running& running) const;
  [[nodiscard]] CpuSet wantedSpread(const ContainerRecord& container) const;
  void onProgress();
  void checkDeadlines();
  void armDeadline();
  [[nodiscard]] bool batchSettled() const;
  void settleReady();
  void closeBatch();
  void settleContainer(ContainerRecord& container, Observed& seen);
  void publish(ContainerRecord& container, LaneAllowance lanes);
  void publishLosses();
  void announce();
  void countError(InstanceId container);
  [[nodiscard]] bool memoryOff(const ContainerRecord& container, const ObservedContainer& seen) const;
  [[nodiscard]] static bool cutFromAbove(const ObservedContainer& seen);
  [[nodiscard]] static bool loansOff(const ContainerRecord& container, const ObservedContainer& seen);
  [[nodiscard]] bool asWanted(const ContainerRecord& container, const ObservedContainer& seen) const;
  bool repairDrift(const Observed& observed, Unplaced unplaced);
  [[nodiscard]] bool setsDiffer(const ContainerRecord& container, const ObservedContainer& seen) const;
  [[nodiscard]] bool movedByOthers(const ContainerRecord& container, const ObservedContainer& seen) const;
  bool mayRepair(ContainerRecord& container, const ObservedContainer& seen);
  [[nodiscard]] bool refusedTooOften(const ContainerRecord& container) const;
  void countRefusal(ContainerRecord& container, int error);
  // drc_above.cc
  bool limitedFromAbove(ContainerRecord& container);
  // drc_apply.cc
  void forgetOldRepairs(ContainerRecord& container);
  void reviewLateBatches();
  // drc_memory.cc
  void pollMemory();
  [[nodiscard]] bool nodesChanged();
  [[nodiscard]] bool memoryChanged(ContainerRecord& container, Instant now) const;
  // drc_classes.cc
  void beginClasses();
  void followClasses();
  void checkClasses();
  [[nodiscard]] std::string cacheClassOf(const GroupRecord& group) const;
  // drc_load.cc
  void tick();
  void armTick();
  bool sample(GroupRecord& group);
  [[nodiscard]] int loansWanted(const GroupRecord& group) const;
  [[nodiscard]] int loansAwake(GroupId group) const;
  void rescueLanes(ContainerRecord& container);
  void moveLane(ContainerRecord& container, std::size_t lane, LanePlace place);
  void accountUse();
  void accountIdle(GroupRecord& group);
  void accountLoan(const ContainerRecord& borrower, Nanos used);

  Ports ports_;
  DrcConfig config_;
  Machine machine_;
  std::optional<allocation::MemoryMap> memoryMap_;  // of it
  MachineSets sets_;
  CpuSet reserved_;
  allocation::IsolationUnits units_;
  CpuSet ancestors_;       // as last written; empty: not known
  int stuckAncestors_{0};  // writes of them that have not returned
  bool systemWarned_{false};
  std::map<GroupId, GroupRecord> groups_;
  std::map<InstanceId, ContainerRecord> containers_;
  std::map<std::pair<ServiceName, int>, HomeHint> hints_;
  std::vector<HomeHint> savedHints_;
  CpuSet pool_;
  allocation::MoveBucket bucket_;
  allocation::MigrationBucket migration_;
  std::vector<NodeFree> memoryFree_;
  Instant memoryLooked_{};
  Instant lookedAt_{};           // at everything
  allocation::Planner planner_;  // keeps what load does not change
  bool started_{false};
  bool frozen_{false};
  bool due_{false};  // a plan is wanted
  bool posted_{false};
  bool retry_{false};  // a write failed: plan again at the next poll
  bool ticking_{false};
  std::optional<Trigger> trigger_;
  std::optional<Instant> lastEvent_;
  std::optional<Instant> burstSince_;  // events since then wait for one plan
  Running current_;
  std::vector<Running> lateBatches_;
  std::set<GroupId> announced_;  // lanes changed in this turn
  std::int64_t plans_{0};
  std::int64_t stepsApplied_{0};
  std::string rivals_;
  std::optional<ClassKeeper> classes_;  // none: no port, or switched off
  TimerHandle pollTimer_, tickTimer_, deadlineTimer_, againTimer_, burstTimer_;
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // posted callbacks outlive this object
};

}  // namespace coterie::agent
