#include "linux/cgroup_controller.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "linux/cgroup_tree.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/lane_spread.h"
#include "linux/memory_reader.h"
#include "linux/process_threads.h"

namespace coterie::linux {
namespace {
void addJoins(PreparedChange& change, const std::vector<UniqueFd>& files, int id) {
  for (const UniqueFd& file : files) change.writes.push_back(fileWrite(file, std::to_string(id)));
}
}  // namespace

CgroupController::CgroupController(std::string name) {
  traits_.name = std::move(name);
  traits_.memoryNodes = true;
  traits_.weights = true;
  traits_.idleLoans = true;
  traits_.holdsHostileWorkers = true;
}

Status CgroupController::openTree(const std::string& cpusFile, std::string memoryNodes) {
  memoryNodes_ = std::move(memoryNodes);
  if (const auto possible = CpuSet::parse(readText("/sys/devices/system/cpu/possible").value_or(""))) possible_ = *possible;
  treeCpus_ = openFor(cpusFile, O_RDWR);
  if (!treeCpus_) return cgroupError("cannot open", cpusFile, errno);
  return {};
}

Status CgroupController::add(const ContainerRegistration& container) {
  if (containers_.count(container.id) > 0) {
    return Error{Code::Conflict, "AlreadyRegistered", "container " + std::to_string(container.id.value) + " is registered already"};
  }
  if (processGone(container.pid)) return Error{Code::NotFound, "ProcessGone", "process " + std::to_string(container.pid) + " has ended"};
  const auto leaves = std::make_shared<CgroupLeaves>();
  if (const Status made = makeLeaves(container.id, *leaves); !made) return made;
  const CpuSet mask = affinityOf(container.pid).value_or(possible_);
  if (!possible_.empty()) {  // a narrower mask would go on binding inside the cpuset
    for (const int tid : threadsOf(container.pid)) static_cast<void>(executeWrite(affinityWrite(tid, possible_)));
  }
  Container& added = containers_[container.id];
  added.threads = container;
  added.leaves = leaves;
  added.memoryNodes = memoryNodes_;
  added.laneCpus.assign(container.ownLaneThreads.size(), -1);
  added.mask = mask;
  added.census = std::make_unique<ThreadCensus>(container.pid);
  added.times = std::make_unique<ThreadTimes>(container.pid);
  return {};
}

void CgroupController::remove(InstanceId id) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return;
  const std::shared_ptr<CgroupLeaves> leaves = found->second.leaves;
  containers_.erase(found);
  unremoved_.insert(unremoved_.end(), leaves->directories.begin(), leaves->directories.end());
  sweep();
}

void CgroupController::sweep() {
  std::erase_if(unremoved_, [](const std::string& leaf) { return ::rmdir(leaf.c_str()) == 0 || errno == ENOENT; });
  if (systemPlaced_ && !placeOwnThreads(system_)) systemPlaced_ = false;  // refused: said once by placeSystem(), not asked for again
}

std::map<int, int> CgroupController::singleLanes(const Container& container) {
  std::map<int, int> single;
  for (std::size_t lane = 0; lane < container.laneCpus.size(); ++lane) {
    if (container.laneCpus[lane] >= 0) single[container.threads.ownLaneThreads[lane]] = container.laneCpus[lane];
  }
  return single;
}

// The tree's set, and those of the directories between it and the leaves: at every moment the tree's is around theirs, from what it is now on.
PreparedChange CgroupController::treeChange(const CpuSet& cpus) const {
  const auto held = std::make_shared<std::vector<std::shared_ptr<CgroupLeaves>>>();
  PreparedChange change{{}, held};
  for (const auto& [id, container] : containers_) {
    if (container.leaves->aboveCpus) held->push_back(container.leaves);
  }
  if (!held->empty()) {
    change.writes.push_back(fileWrite(treeCpus_, (cpus | setIn(treeCpus_)).toString()));
    for (const auto& leaves : *held) change.writes.push_back(fileWrite(leaves->aboveCpus, cpus.toString()));
  }
  change.writes.push_back(fileWrite(treeCpus_, cpus.toString()));
  return change;
}

PreparedChange CgroupController::homeChange(Container& container, const CpuSet& cpus) const {
  const CgroupLeaves& leaves = *container.leaves;
  const std::string text = cpus.toString();
  PreparedChange change{{fileWrite(leaves.homeCpus, text)}, container.leaves};
  if (container.loans.empty()) change.writes.push_back(fileWrite(leaves.loanCpus, text));  // parked lanes follow the home
  container.home = cpus;
  if (container.census->lastComplete()) return change;  // what has moved since is seen when this change is read back
  change.writes.push_back(fileWrite(leaves.homeMems, container.memoryNodes));
  change.writes.push_back(fileWrite(leaves.loanMems, container.memoryNodes));
  addJoins(change, leaves.joinHomeAsProcess, container.threads.pid);
  for (const int tid : container.threads.loanLaneThreads) addJoins(change, leaves.joinLoans, tid);
  return change;
}

// The masks hold within the cpuset. A lane that floats again gets every possible CPU: the kernel keeps a narrower mask across later changes of the
// set.
PreparedChange CgroupController::laneChange(Container& container, const CpuSet& cpus) const {
  PreparedChange change;
  const std::vector<int> before = std::exchange(container.laneCpus, spreadLanes(container.laneCpus, cpus));
  for (std::size_t lane = 0; lane < container.laneCpus.size(); ++lane) {
    const int cpu = container.laneCpus[lane];
    if (cpu < 0 && before[lane] < 0) continue;
    change.writes.push_back(affinityWrite(container.threads.ownLaneThreads[lane], cpu < 0 ? possible_ : CpuSet{cpu}));
  }
  return change;
}

Result<PreparedChange> CgroupController::prepare(const CpuChange& change) {
  const bool mayBeEmpty = change.kind == CpuChangeKind::LaneCpus || change.kind == CpuChangeKind::LoanCpus || change.kind == CpuChangeKind::Weight;
  if (!mayBeEmpty && change.set.empty()) {
    return Error{Code::InvalidArgument, "EmptySet", "a container must keep at least one CPU and one memory node"};
  }
  const bool cpus = change.kind != CpuChangeKind::MemoryNodes && change.kind != CpuChangeKind::Weight;
  if (cpus && !possible_.empty() && !change.set.isSubsetOf(possible_))
    return Error{Code::InvalidArgument, "OutsideMachine", "CPUs " + (change.set - possible_).toString() + " are not in this machine"};
  if (change.kind == CpuChangeKind::AncestorCpus) return treeChange(change.set);
  const auto found = containers_.find(change.container);
  if (found == containers_.end()) return unknownContainer(change.container);
  Container& container = found->second;
  const CgroupLeaves& leaves = *container.leaves;
  switch (change.kind) {
    case CpuChangeKind::HomeCpus: return homeChange(container, change.set);
    case CpuChangeKind::LaneCpus: return laneChange(container, change.set);
    case CpuChangeKind::LoanCpus: {
      container.loans = change.set;
      const CpuSet& target = change.set.empty() ? container.home : change.set;
      if (target.empty()) return PreparedChange{};  // parked and not placed: nothing to say
      return PreparedChange{{fileWrite(leaves.loanCpus, target.toString())}, container.leaves};
    }
    case CpuChangeKind::MemoryNodes:
      container.memoryNodes = change.set.toString();
      container.figures.reset();
      return PreparedChange{{fileWrite(leaves.homeMems, container.memoryNodes), fileWrite(leaves.loanMems, container.memoryNodes)}, container.leaves};
    default:
      container.weight = std::to_string(kernelWeight(change.weight));
      container.figures.reset();
      return PreparedChange{{fileWrite(leaves.homeWeight, container.weight)}, container.leaves};
  }
}

Result<PreparedChange> CgroupController::prepareLaneMove(InstanceId id, int loanLane, LanePlace place) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  const std::vector<int>& lanes = found->second.threads.loanLaneThreads;
  if (loanLane < 0 || static_cast<std::size_t>(loanLane) >= lanes.size()) return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
  if (found->second.home.empty()) return PreparedChange{};
  const std::shared_ptr<CgroupLeaves>& leaves = found->second.leaves;
  PreparedChange change{{}, leaves};
  addJoins(change, place == LanePlace::Home ? leaves->joinHome : leaves->joinLoans, lanes[static_cast<std::size_t>(loanLane)]);
  return change;
}

Result<ObservedContainer> CgroupController::observe(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  return placeOf(found->second, readFigures(found->second));
}

Result<ObservedContainer> CgroupController::observePlace(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  return placeOf(found->second, found->second.figures ? *found->second.figures : readFigures(found->second));
}

CgroupController::Figures CgroupController::readFigures(const Container& container) const {
  const auto weight = readText(container.leaves->homeWeight.get());
  Figures figures{weightRead(weight), setIn(container.leaves->homeMems)};
  const bool asAsked =
      (container.weight.empty() || weightRead(container.weight) == figures.weight) && figures.memoryNodes == setOf(container.memoryNodes);
  container.figures = asAsked ? std::optional(figures) : std::nullopt;
  return figures;
}

ObservedContainer CgroupController::placeOf(const Container& container, const Figures& figures) const {
  ObservedContainer observed;
  observed.weight = figures.weight;
  observed.memoryNodes = figures.memoryNodes;
  if (container.home.empty()) {
    observed.vanished = processGone(container.threads.pid);
    return observed;
  }
  const CgroupLeaves& leaves = *container.leaves;
  const std::map<int, int> single = singleLanes(container);
  const CpuSet& askedLoans = container.loans.empty() ? container.home : container.loans;
  if (container.census->lookBySigns({leaves.homeThreads, leaves.loanThreads, container.home, askedLoans, single})) {
    observed.home = observed.effective = container.home;  // as the kernel says of every thread: its files have no more to say
    observed.loans = askedLoans;
    return observed;
  }
  const CpuSet effective = setIn(leaves.homeEffective), loans = setIn(leaves.loanCpus);
  const ThreadCensus::Placing placing = container.census->look({leaves.homeThreads, leaves.loanThreads, effective, loans, single});
  observed.vanished = placing == ThreadCensus::Placing::Gone;
  observed.uniform = placing == ThreadCensus::Placing::Complete || observed.vanished;
  if (observed.vanished || placing == ThreadCensus::Placing::Floats) return observed;
  observed.home = setIn(leaves.homeCpus);
  observed.effective = effective;
  observed.loans = loans;
  return observed;
}

ThreadUse CgroupController::threadUse(InstanceId id, int threadId) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? ThreadUse{{}, false, true} : threadUseOf(found->second.threads.pid, threadId);
}

Nanos CgroupController::cpuTime(InstanceId id, int threadId) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? Nanos{0} : found->second.times->of(threadId);
}

ContainerMemory CgroupController::memoryOf(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return {};
  return {residentOf(found->second.threads.pid), memoryPressureIn(found->second.leaves->homePressure)};
}

Status CgroupController::placeSystem(const CpuSet& cpus) {
  system_ = cpus;
  systemPlaced_ = true;
  return placeOwnThreads(cpus);
}

void CgroupController::restore() {
  for (const auto& [id, container] : containers_) {
    if (!container.home.empty()) moveBack(container.threads.pid);
    giveBackMask(container.threads.pid, container.mask);
  }
  containers_.clear();
  treeCpus_.reset();
  removeTrees();
  unremoved_.clear();
}

}  // namespace coterie::linux
