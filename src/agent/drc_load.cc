// Load: when to look at demand, loan lanes that starve, and who used whose CPUs.
#include <algorithm>
#include <utility>

#include "agent/drc_impl.h"

namespace coterie::agent {

namespace {
constexpr Nanos kLongestUnaccounted = Seconds(10);
}

int Drc::Impl::loansAwake(GroupId group) const {
  int awake = 0;
  for (const auto& [id, container] : containers_) {
    if (container.group == group) awake += container.wanted.awakeLoanLanes;
  }
  return awake;
}

// How many loan lanes decide() would be asked for: only a change of it is worth a plan.
int Drc::Impl::loansWanted(const GroupRecord& group) const {
  if (!config_.allocation.lending) return 0;
  const int awake = loansAwake(group.spec.id);
  const MilliCpu most = group.spec.ceiling.value > 0 ? std::min(group.demand, group.spec.ceiling) : group.demand;
  const std::int64_t beyond = most.value - group.entitlement.value;
  if (beyond > 0 && group.sample.queuedBeyondOwnLanes) {
    std::int64_t lanes = 0;
    for (const auto& [id, container] : containers_) {
      if (container.group == group.spec.id) lanes += static_cast<std::int64_t>(container.loanLanes.size());
    }
    return static_cast<int>(std::min((beyond + 999) / 1000, lanes));
  }
  const bool parkable = group.belowSince && ports_.loop.clock().now() - *group.belowSince >= config_.allocation.loanParkDelay;
  return parkable ? 0 : awake;
}

// Takes the gateway's figures. True while the group has a reason to be looked at again soon.
bool Drc::Impl::sample(GroupRecord& group) {
  if (ports_.sampleDemand) group.sample = ports_.sampleDemand(group.spec.id);
  group.demand = demandOf(group.sample, group.spec.latencyCritical, group.spec.objective);
  if (group.demand > group.entitlement) {
    group.belowSince.reset();
  } else if (!group.belowSince) {
    group.belowSince = ports_.loop.clock().now();
  }
  return group.sample.queued > 0 || loansAwake(group.spec.id) > 0;
}

void Drc::Impl::demandChanged(GroupId id) {
  const auto found = groups_.find(id);
  if (!started_ || frozen_ || found == groups_.end()) return;
  sample(found->second);
  if (loansWanted(found->second) != found->second.loansPlannedFor) schedule(Trigger::Demand);
  armTick();
}

void Drc::Impl::armTick() {
  const bool lent = std::any_of(containers_.begin(), containers_.end(), [](const auto& entry) {
    const ContainerRecord& container = entry.second;
    return container.wanted.awakeLoanLanes > 0 ||
           std::any_of(container.loanLanes.begin(), container.loanLanes.end(), [](const LaneTrack& lane) { return lane.atHome; });
  });
  const bool queued = std::any_of(groups_.begin(), groups_.end(), [](const auto& entry) { return entry.second.sample.queued > 0; });
  if (ticking_ || frozen_ || !started_ || (!lent && !queued)) return;
  ticking_ = true;
  tickTimer_ = ports_.loop.after(config_.tickInterval, [this] { tick(); });
}

void Drc::Impl::tick() {
  ticking_ = false;
  if (frozen_) return;
  bool changed = false;
  for (auto& [id, group] : groups_) {
    sample(group);
    changed = changed || loansWanted(group) != group.loansPlannedFor;
  }
  for (auto& [id, container] : containers_) rescueLanes(container);
  if (changed) schedule(Trigger::Demand);
  armTick();
}

// A request on a loan lane that gets no CPU while its own group has idle ones is moved there: an owner that never sleeps would hold it for ever.
void Drc::Impl::rescueLanes(ContainerRecord& container) {
  const bool away = std::any_of(container.loanLanes.begin(), container.loanLanes.end(), [](const LaneTrack& lane) { return lane.atHome; });
  if (!container.registered || container.wanted.home.empty() || (container.wanted.awakeLoanLanes == 0 && !away)) return;
  // Who waits while every own lane is busy has no idle CPU to move to. Looking at threads is dear (some 25 us each), and a flood lasts.
  if (!away && container.usableOwnLanes() >= container.wanted.home.count() && groups_[container.group].sample.queuedBeyondOwnLanes) {
    for (LaneTrack& lane : container.loanLanes) lane.starved = Nanos{0};
    return;
  }
  int idle = container.wanted.home.count();
  for (const LaneTrack& lane : container.ownLanes) idle -= ports_.controller.threadUse(container.id, lane.tid).runnable ? 1 : 0;
  for (const LaneTrack& lane : container.loanLanes) idle -= lane.atHome ? 1 : 0;
  for (std::size_t i = 0; i < container.loanLanes.size(); ++i) {
    LaneTrack& lane = container.loanLanes[i];
    const ThreadUse use = ports_.controller.threadUse(container.id, lane.tid);
    const bool starving = !use.vanished && use.runnable && use.cpu == lane.cpuAtTick;
    lane.starved = starving ? lane.starved + Nanos{config_.tickInterval} : Nanos{0};
    lane.cpuAtTick = use.cpu;
    if (lane.atHome && !use.runnable) {
      moveLane(container, i, LanePlace::Loans);
    } else if (!lane.atHome && lane.starved >= config_.laneStarvedAfter && idle > 0) {
      moveLane(container, i, LanePlace::Home);
      --idle;
    }
  }
}

void Drc::Impl::moveLane(ContainerRecord& container, std::size_t lane, LanePlace place) {
  Result<PreparedChange> prepared = ports_.controller.prepareLaneMove(container.id, static_cast<int>(lane), place);
  if (!prepared) return;
  LaneTrack& track = container.loanLanes[lane];
  track.atHome = place == LanePlace::Home;
  track.starved = Nanos{0};
  if (track.atHome) ++groups_[container.group].counters.lanesMoved;
  std::vector<ApplyStep> steps;
  steps.push_back({std::move(*prepared), {}});
  ports_.applier.submit(std::make_shared<ApplyBatch>(std::move(steps)));
}

void Drc::Impl::accountUse() {
  for (auto& [id, container] : containers_) {
    if (!container.registered) continue;
    GroupCounters& counters = groups_[container.group].counters;
    const auto usedBy = [&](LaneTrack& lane) {
      const Nanos cpu = ports_.controller.cpuTime(container.id, lane.tid);
      const Nanos used = std::max(Nanos{0}, cpu - lane.cpu);
      lane.cpu += used;
      return used;
    };
    for (LaneTrack& lane : container.ownLanes) counters.used += usedBy(lane);
    for (LaneTrack& lane : container.loanLanes) {
      const Nanos used = usedBy(lane);
      counters.used += used;
      if (!lane.atHome && used > Nanos{0}) accountLoan(container, used);
    }
  }
  for (auto& [id, group] : groups_) accountIdle(group);
}

// What was owned between two looks, less what of it was used. The entitlement of now stands for the time since the last look, unless that is long
// ago.
void Drc::Impl::accountIdle(GroupRecord& group) {
  const Instant now = ports_.loop.clock().now();
  const Nanos used = group.counters.used - group.counters.borrowed + group.counters.lent;
  const Nanos passed = now - std::exchange(group.usedUntil, now);
  const Nanos more = used - std::exchange(group.usedBefore, used);
  if (passed >= kLongestUnaccounted) return;  // the first look, or nobody looked
  group.counters.idle += std::max(Nanos{0}, passed * group.entitlement.value / 1000 - more);
}

void Drc::Impl::accountLoan(const ContainerRecord& borrower, Nanos used) {
  const int cpus = borrower.wanted.loans.count();
  if (cpus == 0) return;  // parked: it ran at home
  groups_[borrower.group].counters.borrowed += used;
  for (const int cpu : borrower.wanted.loans) {
    for (const auto& [id, owner] : containers_) {
      if (!owner.wanted.home.contains(cpu)) continue;
      groups_[owner.group].counters.lent += used / cpus;
      break;
    }
  }
}

}  // namespace coterie::agent
