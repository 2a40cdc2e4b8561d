// From steps to writes, and from what the kernel then says to the lanes that may be used.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "agent/drc_impl.h"
#include "base/log.h"

namespace coterie::agent {

namespace {

using allocation::Step;
using allocation::StepKind;

constexpr int kRefusalsPerRepair = 2;  // what fails has often only to be asked again

std::string lateWrite(InstanceId container) { return "a CPU-set write for instance " + std::to_string(container.value); }

bool isFinal(ApplyState state) { return state != ApplyState::Waiting && state != ApplyState::Running; }

}  // namespace

// One step as writes. Ancestor steps are per group, and these adapters keep no directory per group: nothing to write. The same for a container that
// still loads.
PreparedChange Drc::Impl::prepareStep(const Step& step, int& refused) {
  const auto found = containers_.find(step.container);
  if (found == containers_.end() || !found->second.registered) return {};
  if (found->second.stuckWrites > 0) {
    refused = EBUSY;
    return {};
  }
  if ((found->second.refusedFromAbove && limitedFromAbove(found->second)) || refusedTooOften(found->second)) {
    refused = ECANCELED;
    return {};
  }
  CpuChange change{CpuChangeKind::HomeCpus, step.container, step.cpus, 0};
  switch (step.kind) {
    case StepKind::WidenAncestors:
    case StepKind::NarrowAncestors: return {};
    case StepKind::NarrowHome:
    case StepKind::WidenHome:
    case StepKind::SwapHome: break;
    case StepKind::SetLoans: change.kind = CpuChangeKind::LoanCpus; break;
    case StepKind::SetMemoryNodes:
      change.kind = CpuChangeKind::MemoryNodes;
      change.set = step.memoryNodes;
      break;
    case StepKind::SetWeight:
      change.kind = CpuChangeKind::Weight;
      change.weight = step.weight;
      break;
  }
  Result<PreparedChange> prepared = ports_.controller.prepare(change);
  if (prepared) return std::move(*prepared);
  refused = EINVAL;
  log::warning("agent", "instance " + std::to_string(step.container.value) + ": " + prepared.error().message);
  return {};
}

// A container that owns several CPUs alone needs no balancing between its lanes: each keeps to one of them. In the pool, and under policies that let
// containers float, the kernel balances.
CpuSet Drc::Impl::wantedSpread(const ContainerRecord& container) const {
  const Wanted& wanted = container.wanted;
  const bool alone = config_.allocation.policy == allocation::PolicyName::Drc && !groups_.at(container.group).inPool;
  const bool laneEach = wanted.ownLanes == wanted.home.count() && container.usableOwnLanes() == wanted.ownLanes;
  return alone && laneEach && wanted.home.count() > 1 ? wanted.home : CpuSet{};
}

// After the home's writes, before the lanes may be used: a lane that is added starts on its own CPU, not beside its sibling.
void Drc::Impl::addSpreads(std::vector<ApplyStep>& built, Running& running) const {
  std::map<InstanceId, std::vector<int>> homeSteps;
  for (std::size_t i = 0; i < built.size(); ++i) {
    if (!running.homes[i].empty()) homeSteps[running.containers[i]].push_back(static_cast<int>(i));
  }
  for (const auto& [id, container] : containers_) {
    if (!container.registered || container.stuckWrites > 0) continue;
    const auto steps = homeSteps.find(id);
    const bool moves = steps != homeSteps.end();
    const bool asPlanned = !moves || running.homes[static_cast<std::size_t>(steps->second.back())] == container.wanted.home;
    const CpuSet spread = asPlanned ? wantedSpread(container) : CpuSet{};
    const bool same = container.spread && *container.spread == spread;
    if (same && (!moves || spread.empty())) continue;
    if (!moves && !container.spread) continue;  // not placed yet
    auto prepared = ports_.controller.prepare({CpuChangeKind::LaneCpus, id, spread, 0});
    if (!prepared) continue;
    running.spreads[built.size()] = spread;
    built.push_back({std::move(*prepared), moves ? steps->second : std::vector<int>{}});
    running.containers.push_back(id);
    running.homes.push_back({});
  }
}

void Drc::Impl::apply(const std::vector<Step>& steps) {
  const CpuSet wide = (ancestors_ | machine_.allowed) & machine_.online;
  const bool stuckAbove = stuckAncestors_ > 0;  // one writer: what the kernel allows without it is tried, the rest comes when it has returned
  const bool widen = !stuckAbove && wide != ancestors_;
  const bool narrow = !stuckAbove && wide != machine_.allowed;
  std::vector<ApplyStep> built;
  std::vector<std::pair<std::size_t, int>> refused;
  Running running;
  const auto addAncestors = [&](const CpuSet& cpus, std::vector<int> waits) {
    Result<PreparedChange> prepared = ports_.controller.prepare({CpuChangeKind::AncestorCpus, {}, cpus, 0});
    running.ancestorSteps.push_back(built.size());
    running.homes.push_back({});
    built.push_back({prepared ? std::move(*prepared) : PreparedChange{}, std::move(waits)});
    running.containers.push_back({});
  };
  if (widen) addAncestors(wide, {});
  const int offset = static_cast<int>(built.size());
  for (const Step& step : steps) {
    std::vector<int> waits;
    if (widen && !step.cpus.isSubsetOf(ancestors_)) waits.push_back(0);
    for (const int other : step.waitsFor) waits.push_back(other + offset);
    int error = 0;
    PreparedChange change = prepareStep(step, error);
    if (error != 0) refused.emplace_back(built.size(), error);
    built.push_back({std::move(change), std::move(waits)});
    running.containers.push_back(step.container);
    running.homes.push_back(isHomeStep(step.kind) ? step.cpus : CpuSet{});
  }
  addSpreads(built, running);
  if (narrow) {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(built.size()); ++i) all.push_back(i);
    addAncestors(machine_.allowed, std::move(all));
  }
  if (!stuckAbove) ancestors_ = machine_.allowed;
  for (const auto& [id, container] : containers_) {
    const LaneAllowance wanted{id, container.lanesOn(container.wanted.ownLanes), container.wanted.awakeLoanLanes};
    const bool touched = std::find(running.containers.begin(), running.containers.end(), id) != running.containers.end();
    if (container.ready && (touched || container.published != wanted)) running.unsettled.insert(id);
  }
  running.seenRunning.assign(built.size(), 0);
  running.batch = std::make_shared<ApplyBatch>(std::move(built));
  for (const auto& [index, error] : refused) running.batch->refuse(index, error);
  current_ = std::move(running);
  if (current_.batch->allFinal()) return closeBatch();
  const auto batch = current_.batch;
  armDeadline();
  ports_.applier.submit(batch);
  followHurry();
}

void Drc::Impl::armDeadline() {
  deadlineTimer_ = ports_.loop.after(config_.writeDeadline / 2, [this] { checkDeadlines(); });
}

// A step that was running at two checks in a row has had at least half a deadline, at most one and a half.
void Drc::Impl::checkDeadlines() {
  constexpr int kIdleChecks = 10;
  if (!current_.batch) return;
  ApplyBatch& batch = *current_.batch;
  bool stuck = false;
  bool running = false;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch.state(i) != ApplyState::Running || current_.late.count(i) > 0) continue;
    running = true;
    if (++current_.seenRunning[i] < 2) continue;
    stuck = true;
    current_.late.insert(i);
    const auto container = containers_.find(current_.containers[i]);
    if (container != containers_.end()) {
      ++container->second.stuckWrites;
      container->second.stuckMayTake |= current_.homes[i];
    }
    if (current_.writesAncestors(i)) ++stuckAncestors_;
    countError(current_.containers[i]);
    log::warning("agent", lateWrite(current_.containers[i]) + " takes more than " + std::to_string(config_.writeDeadline.count()) +
                              " ms: what waits for its CPUs is put off, all else goes on");
  }
  if (!running && ++current_.idleChecks >= kIdleChecks) {  // every applier thread is stuck elsewhere
    batch.cancelWaiting();
    retry_ = true;
  }
  if (stuck || current_.idleChecks >= 2) ports_.applier.helpOut(current_.batch);
  armDeadline();
  onProgress();
}

// Nothing of it can move any more, except what has been declared stuck.
bool Drc::Impl::batchSettled() const {
  const ApplyBatch& batch = *current_.batch;
  std::vector<bool> blocked(batch.size(), false);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ApplyState state = batch.state(i);
    if (isFinal(state)) continue;
    blocked[i] = current_.late.count(i) > 0;
    for (const int other : batch.step(i).waitsFor)
      blocked[i] = blocked[i] || (state == ApplyState::Waiting && blocked[static_cast<std::size_t>(other)]);
    if (!blocked[i]) return false;
  }
  return true;
}

void Drc::Impl::onProgress() {
  reviewLateBatches();
  if (!current_.batch) return;
  settleReady();
  if (batchSettled()) closeBatch();
  followHurry();
}

void Drc::Impl::settleReady() {
  std::set<InstanceId> waiting;
  for (std::size_t i = 0; i < current_.batch->size(); ++i) {
    if (!isFinal(current_.batch->state(i))) waiting.insert(current_.containers[i]);
  }
  for (auto id = current_.unsettled.begin(); id != current_.unsettled.end();) {
    const auto container = containers_.find(*id);
    if (waiting.count(*id) > 0) {
      ++id;
      continue;
    }
    if (container != containers_.end()) settleContainer(container->second, current_.seen);
    id = current_.unsettled.erase(id);
  }
  announce();
}

void Drc::Impl::closeBatch() {
  deadlineTimer_.reset();
  Running closed = std::move(current_);
  current_ = {};
  closed.batch->cancelWaiting();
  Observed touched = std::move(closed.seen);
  std::erase_if(touched, [this](const auto& entry) { return containers_.count(entry.first) == 0; });
  for (std::size_t i = 0; i < closed.batch->size(); ++i) {
    const ApplyState state = closed.batch->state(i);
    const auto container = containers_.find(closed.containers[i]);
    if (state == ApplyState::Done) ++stepsApplied_;
    const bool asked = closed.batch->error(i) != ECANCELED;  // of the kernel
    if (state == ApplyState::Failed && asked) {
      countError(closed.containers[i]);
      ancestors_.clear();  // perhaps the set above was cut (a CPU that went and came back between two polls): written again with the next batch
    }
    retry_ = retry_ || state != ApplyState::Done;
    if (container == containers_.end()) continue;
    if (state == ApplyState::Failed && asked) countRefusal(container->second, closed.batch->error(i));
    if (touched.count(container->first) == 0) observeInto(touched, container->second);
    if (const auto spread = closed.spreads.find(i); spread != closed.spreads.end()) {
      const auto seen = touched.find(container->first);
      const bool placed = seen != touched.end() && !seen->second.home.empty() && container->second.stuckMayTake.empty();
      if (state == ApplyState::Done)
        container->second.spread = spread->second;
      else if (!spread->second.empty() && placed)
        container->second.spread = CpuSet{};  // asked for again with the next plan
    }
    if (state != ApplyState::Done) container->second.repairTried = container->second.unmade = true;
  }
  for (const std::size_t index : closed.ancestorSteps) {
    if (closed.batch->state(index) != ApplyState::Done) ancestors_.clear();
  }
  for (const InstanceId id : closed.unsettled) {
    if (const auto container = containers_.find(id); container != containers_.end()) settleContainer(container->second, touched);
  }
  announce();
  saveHints();
  if (!closed.late.empty()) {
    lateBatches_.push_back(std::move(closed));
    reviewLateBatches();  // a late write may have returned before the last of the others did: nobody else will tell
  }
  if (due_) return planDue(Urgency::Waits);
  const auto off = [&](const auto& entry) { return !asWanted(containers_.at(entry.first), entry.second); };
  if (!frozen_ && std::any_of(touched.begin(), touched.end(), off))
    repairDrift(observeAll(Look::Everything), Unplaced::LeaveOut);  // threads born meanwhile: the second scan
}

void Drc::Impl::reviewLateBatches() {
  bool returned = false;
  for (Running& late : lateBatches_) {
    for (auto index = late.late.begin(); index != late.late.end();) {
      if (!isFinal(late.batch->state(*index))) {
        ++index;
        continue;
      }
      const auto container = containers_.find(late.containers[*index]);
      if (container != containers_.end() && --container->second.stuckWrites == 0) container->second.stuckMayTake.clear();
      if (late.writesAncestors(*index)) {
        --stuckAncestors_;
        ancestors_.clear();  // whatever it left there
      }
      log::info("agent", lateWrite(late.containers[*index]) + " has returned");
      index = late.late.erase(index);
      returned = true;
    }
  }
  std::erase_if(lateBatches_, [](const Running& late) { return late.late.empty(); });
  if (returned) schedule(Trigger::Retry);
}

void Drc::Impl::countError(InstanceId container) {
  const auto found = containers_.find(container);
  if (found != containers_.end()) ++groups_[found->second.group].counters.applyErrors;
}

void Drc::Impl::settleContainer(ContainerRecord& container, Observed& observed) {
  if (!container.ready) return;
  const int own = container.usableOwnLanes();
  const auto seen = container.registered ? ports_.controller.observePlace(container.id) : Result<ObservedContainer>(ObservedContainer{});
  if (!seen || seen->vanished) return;  // its end is about to be told
  if (container.registered && container.stuckMayTake.empty()) observed[container.id] = *seen;
  LaneAllowance lanes{container.id, std::min(own, 1), 0};  // not placed although it should be: it floats, and one lane keeps it answering
  if (!seen->home.empty()) {
    lanes.ownLanes = std::min(own, container.lanesOn(seen->home.count()));
    const bool parked = seen->loans.intersects(seen->home);
    const bool lent = container.wanted.awakeLoanLanes > 0 && !parked && !seen->loans.empty() && seen->loans.isSubsetOf(container.wanted.loans);
    const int awake = std::min(container.wanted.awakeLoanLanes, static_cast<int>(container.loanLanes.size()));
    if (lent) lanes.loanLanes = awake;
  }
  publish(container, lanes);
}

void Drc::Impl::publish(ContainerRecord& container, LaneAllowance lanes) {
  const bool same = container.published == lanes && container.announcedHome == container.wanted.home;
  if (!container.ready || (container.announcedOnce && same)) return;
  container.announcedOnce = true;
  container.announcedHome = container.wanted.home;
  container.published = lanes;
  announced_.insert(container.group);
}

void Drc::Impl::publishLosses() {
  for (auto& [id, container] : containers_) {
    if (!container.announcedOnce) continue;
    publish(container, {id, std::min(container.published.ownLanes, container.lanesOn(container.wanted.ownLanes)),
                        std::min(container.published.loanLanes, container.wanted.awakeLoanLanes)});
  }
  announce();
}

void Drc::Impl::announce() {
  for (const GroupId group : std::exchange(announced_, {})) {
    std::vector<LaneAllowance> lanes;
    for (const auto& [id, container] : containers_) {
      if (container.group == group && container.announcedOnce) lanes.push_back(container.published);
    }
    ports_.listener.lanesChanged(group, lanes);
  }
}

bool Drc::Impl::memoryOff(const ContainerRecord& container, const ObservedContainer& seen) const {
  return ports_.controller.traits().memoryNodes && seen.memoryHeld && !container.wanted.memoryNodes.empty() &&
         seen.memoryNodes != container.wanted.memoryNodes;
}

// It has what was written, and the kernel grants less or other CPUs: somebody changed a set above (cgroups v2 allows that; v1 does not).
bool Drc::Impl::cutFromAbove(const ObservedContainer& seen) { return !seen.home.empty() && !seen.effective.empty() && seen.effective != seen.home; }

bool Drc::Impl::setsDiffer(const ContainerRecord& container, const ObservedContainer& seen) const {
  return seen.home != container.wanted.home || memoryOff(container, seen) || cutFromAbove(seen);
}

// Is this container as it was asked to be?
bool Drc::Impl::asWanted(const ContainerRecord& container, const ObservedContainer& seen) const {
  return !setsDiffer(container, seen) && seen.uniform && !loansOff(container, seen);
}

// Parked loan lanes are at home. They may have stayed behind: an agent before this one lent them, or a change was prepared that never was made.
bool Drc::Impl::loansOff(const ContainerRecord& container, const ObservedContainer& seen) {
  if (seen.home.empty() || container.loanLanes.empty()) return false;
  return container.wanted.awakeLoanLanes > 0 ? seen.loans != container.wanted.loans : !seen.loans.isSubsetOf(seen.home);
}

// Not one that waits for its place, nor one of whose threads was only just born.
bool Drc::Impl::movedByOthers(const ContainerRecord& container, const ObservedContainer& seen) const {
  return !seen.home.empty() && setsDiffer(container, seen);
}

// A fight is not won by writing faster: after a few repairs within a minute it is said, and the other's set stands for the rest of that minute.
bool Drc::Impl::mayRepair(ContainerRecord& container, const ObservedContainer& seen) {
  if (movedByOthers(container, seen) && limitedFromAbove(container)) return false;
  if (!movedByOthers(container, seen) || static_cast<int>(container.repairs.size()) < config_.repairsPerMinute) return true;
  if (std::exchange(container.contested, true)) return false;
  GroupRecord& group = groups_.at(container.group);
  ++group.counters.conflicts;
  if (ports_.rivals) rivals_ = ports_.rivals();
  log::warning("agent", "somebody else sets the CPUs of " + group.spec.service.path() + ", instance " + std::to_string(container.id.value) + ": " +
                            (cutFromAbove(seen) ? seen.effective : seen.home).toString() + " instead of " + container.wanted.home.toString() +
                            ", put right " + std::to_string(container.repairs.size()) + " times within a minute and left so for the rest of it" +
                            (rivals_.empty() ? "" : "; running here: " + rivals_));
  return false;
}

// Nor is a kernel that refuses moved by being asked each second.
bool Drc::Impl::refusedTooOften(const ContainerRecord& container) const {
  return static_cast<int>(container.repairs.size()) >= kRefusalsPerRepair * config_.repairsPerMinute;
}

void Drc::Impl::countRefusal(ContainerRecord& container, int error) {
  if (limitedFromAbove(container)) {
    container.refusedFromAbove = true;
    return;
  }
  container.repairs.push_back(ports_.loop.clock().now());
  if (!refusedTooOften(container) || std::exchange(container.contested, true)) return;
  GroupRecord& group = groups_.at(container.group);
  ++group.counters.conflicts;
  log::warning("agent", "the kernel refuses what is asked for " + group.spec.service.path() + ", instance " + std::to_string(container.id.value) +
                            " (" + std::strerror(error) + "): " + container.wanted.home.toString() + " is its plan; tried " +
                            std::to_string(container.repairs.size()) + " times within a minute, and no more than that in each");
}

void Drc::Impl::forgetOldRepairs(ContainerRecord& container) {
  const Instant now = ports_.loop.clock().now();
  while (!container.repairs.empty() && container.repairs.front() + Seconds(60) <= now) container.repairs.pop_front();
  if (!container.repairs.empty() || !std::exchange(container.contested, false)) return;
  log::info("agent", "nobody else has set the CPUs of " + groups_.at(container.group).spec.service.path() + ", instance " +
                         std::to_string(container.id.value) + ", for a minute");
}

// Containers whose sets are not as they were asked: narrowed first, then widened, so that no two own a CPU in between; CPUs that somebody holds whose
// set cannot be repaired now are left to him; unless somebody else keeps giving him all that the other was asked for, and the other stands where it
// was not asked: then it goes where it was asked, beside him whom nobody can keep away, and not on a third one's CPUs. True if there is something to
// write.
bool Drc::Impl::repairDrift(const Observed& observed, Unplaced unplaced) {
  std::vector<InstanceId> drifted;
  struct Kept {
    GroupId holder;
    CpuSet held;
    bool contested;
  };
  std::vector<Kept> kept;  // against the plan
  for (const auto& [id, seen] : observed) {
    ContainerRecord& container = containers_.at(id);
    forgetOldRepairs(container);
    if (!container.limit.empty()) static_cast<void>(limitedFromAbove(container));
    if (asWanted(container, seen)) continue;
    const bool waits = container.stuckWrites > 0 || container.repairTried || (seen.home.empty() && unplaced == Unplaced::LeaveOut);
    const bool contested = !waits && !mayRepair(container, seen);
    if (waits || contested || container.wanted.home.empty() || !container.wanted.home.isSubsetOf(usable())) {
      kept.push_back({container.group, seen.home - container.wanted.home, contested});
    } else {
      drifted.push_back(id);
    }
  }
  announce();  // who turned out to be limited, or is not any more
  std::vector<Step> steps;
  std::vector<int> narrowed;
  for (const InstanceId id : drifted) {
    const CpuSet& home = observed.at(id).home;
    const CpuSet stays = home & containers_.at(id).wanted.home;
    if (stays.empty() || stays == home) continue;
    narrowed.push_back(static_cast<int>(steps.size()));
    steps.push_back({StepKind::NarrowHome, id, containers_.at(id).group, stays, {}, 0, {}});
  }
  for (const InstanceId id : drifted) {
    ContainerRecord& container = containers_.at(id);
    const CpuSet& home = observed.at(id).home;
    CpuSet target = container.wanted.home;
    CpuSet beside = target;  // whom somebody else keeps there
    for (const Kept& one : kept) {
      // Who comes now stays off whole units of an isolated one; who was thrown out of his takes back what he can.
      const CpuSet closed = closedBy(groups_.at(one.holder), one.held, groups_.at(container.group));
      target -= home.empty() ? closed : one.held;
      beside -= !one.contested ? one.held : groups_.at(one.holder).spec.isolation != Isolation::None ? closed : CpuSet{};
    }
    if (target.empty() && !home.empty() && !home.isSubsetOf(container.wanted.home)) target = beside;
    if (target.empty()) continue;
    container.repairTried = true;
    if (cutFromAbove(observed.at(id))) ancestors_.clear();  // written again, before the container's own set
    if (movedByOthers(container, observed.at(id))) container.repairs.push_back(ports_.loop.clock().now());
    ++groups_[container.group].counters.driftRepairs;
    std::vector<int> waits = narrowed;
    if (memoryOff(container, observed.at(id))) {  // memory first: what it touches next is near to where it goes
      waits.push_back(static_cast<int>(steps.size()));
      steps.push_back({StepKind::SetMemoryNodes, id, container.group, {}, container.wanted.memoryNodes, 0, {}});
    }
    steps.push_back({StepKind::WidenHome, id, container.group, target, {}, 0, std::move(waits)});
    const int placed = static_cast<int>(steps.size()) - 1;  // a loan may be on a CPU that its own group has to leave
    const bool lends = container.wanted.awakeLoanLanes > 0;
    if (lends || loansOff(container, observed.at(id)))
      steps.push_back({StepKind::SetLoans, id, container.group, lends ? container.wanted.loans : CpuSet{}, {}, 0, {placed}});
  }
  if (steps.empty()) return false;
  apply(steps);
  return true;
}

}  // namespace coterie::agent
