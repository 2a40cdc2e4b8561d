#include "testing/fake_cpu_controller.h"

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace coterie::testing {
namespace {

Error unknown(InstanceId id) { return {Code::NotFound, "UnknownContainer", "no container " + std::to_string(id.value) + " is registered"}; }

std::string words(const char* verb, InstanceId id, const std::string& what) {
  return std::string(verb) + " " + std::to_string(id.value) + " " + what;
}

CpuChangeKind kindOf(const std::string& verb) {
  if (verb == "tree") return CpuChangeKind::AncestorCpus;
  if (verb == "loans" || verb == "park") return CpuChangeKind::LoanCpus;
  if (verb == "mems") return CpuChangeKind::MemoryNodes;
  if (verb == "spread") return CpuChangeKind::LaneCpus;
  if (verb == "weight") return CpuChangeKind::Weight;
  return CpuChangeKind::HomeCpus;
}

}  // namespace

FakeCpuController::FakeCpuController(CpuSet online, KernelRules rules) : rules_(rules), possible_(online), online_(online), tree_(std::move(online)) {
  traits_.name = rules == KernelRules::CgroupV1 ? "fake-v1" : "fake-v2";
  traits_.memoryNodes = traits_.weights = traits_.idleLoans = traits_.holdsHostileWorkers = true;
}

ContainerRegistration FakeCpuController::spawn(InstanceId id, int ownLanes, int loanLanes) {
  const std::lock_guard lock(mutex_);
  ContainerRegistration container;
  container.id = id;
  container.pid = nextTid_++;
  processes_.insert(container.pid);
  container.serviceThreads.push_back(container.pid);
  for (int lane = 0; lane < ownLanes; ++lane) container.ownLaneThreads.push_back(nextTid_++);
  for (int lane = 0; lane < loanLanes; ++lane) container.loanLaneThreads.push_back(nextTid_++);
  return container;
}

void FakeCpuController::endProcess(int pid) {
  const std::lock_guard lock(mutex_);
  processes_.erase(pid);
}

Status FakeCpuController::add(const ContainerRegistration& container) {
  const std::lock_guard lock(mutex_);
  if (containers_.count(container.id) > 0) return Error{Code::Conflict, "AlreadyRegistered", "registered already"};
  if (processes_.count(container.pid) == 0) return Error{Code::NotFound, "ProcessGone", "process has ended"};
  Container& added = containers_[container.id];
  if (const auto orphan = orphans_.find(container.id); orphan != orphans_.end()) {
    if (orphan->second.threads.pid == container.pid) added = orphan->second;
    orphans_.erase(orphan);
    added.lent = false;  // what the adapter remembered
    added.askedHome = {};
  }
  added.threads = container;
  return {};
}

void FakeCpuController::agentKilled() {
  const std::lock_guard lock(mutex_);
  orphans_ = std::exchange(containers_, {});
}

void FakeCpuController::remove(InstanceId id) {
  const std::lock_guard lock(mutex_);
  containers_.erase(id);
}

PreparedChange FakeCpuController::call(std::vector<std::string> operations) {
  PreparedChange change;
  for (std::string& operation : operations)
    change.writes.push_back({PreparedWrite::Kind::Call, -1, std::move(operation), &FakeCpuController::executeCall, this});
  return change;
}

Result<PreparedChange> FakeCpuController::prepare(const CpuChange& change) {
  const std::lock_guard lock(mutex_);
  const bool mayBeEmpty = change.kind == CpuChangeKind::LaneCpus || change.kind == CpuChangeKind::LoanCpus || change.kind == CpuChangeKind::Weight;
  if (!mayBeEmpty && change.set.empty()) return Error{Code::InvalidArgument, "EmptySet", "a set may not be empty"};
  const std::string set = change.set.toString();
  if (change.kind == CpuChangeKind::AncestorCpus) return call({"tree " + set});
  const auto found = containers_.find(change.container);
  if (found == containers_.end()) return unknown(change.container);
  Container& container = found->second;
  switch (change.kind) {
    case CpuChangeKind::HomeCpus: {
      std::vector<std::string> operations{words("home", change.container, set)};
      container.askedHome = change.set;
      if (!container.lent) operations.push_back(words("park", change.container, set));
      if (!container.home.hasTasks) operations.push_back(words("place", change.container, "0"));
      return call(operations);
    }
    case CpuChangeKind::LaneCpus: return call({words("spread", change.container, change.set.empty() ? "-" : set)});
    case CpuChangeKind::LoanCpus:
      container.lent = !change.set.empty();
      if (container.lent) return call({words("loans", change.container, set)});
      if (container.askedHome.empty()) return PreparedChange{};
      return call({words("loans", change.container, "-")});
    case CpuChangeKind::MemoryNodes:
      if (memoryKept_.count(change.container) > 0) return PreparedChange{};
      container.askedMemoryNodes = change.set;
      container.figures.reset();
      return call({words("mems", change.container, set)});
    default:
      container.askedWeight = change.weight;
      container.figures.reset();
      return call({words("weight", change.container, std::to_string(change.weight))});
  }
}

Result<PreparedChange> FakeCpuController::prepareQuota(InstanceId id, MilliCpu least) {
  const std::lock_guard lock(mutex_);
  if (containers_.count(id) == 0) return unknown(id);
  const auto found = quotas_.find(id);
  if (found == quotas_.end()) return Error{Code::Unavailable, "NoQuota", "its CPU quota cannot be written"};
  const MilliCpu wanted = std::max(found->second.found, least);
  if (wanted == found->second.now) return PreparedChange{};
  return call({words("quota", id, std::to_string(wanted.value))});
}

Result<PreparedChange> FakeCpuController::prepareLaneMove(InstanceId id, int loanLane, LanePlace place) {
  const std::lock_guard lock(mutex_);
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknown(id);
  if (loanLane < 0 || static_cast<std::size_t>(loanLane) >= found->second.threads.loanLaneThreads.size()) {
    return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
  }
  return call({words(place == LanePlace::Home ? "lane-home" : "lane-loans", id, std::to_string(loanLane))});
}

int FakeCpuController::executeCall(void* context, const PreparedWrite& write) {
  return static_cast<FakeCpuController*>(context)->execute(write.payload);
}

int FakeCpuController::execute(const std::string& operation) {
  const std::lock_guard lock(mutex_);
  std::istringstream stream(operation);
  std::string verb;
  InstanceId id;
  std::string what;
  stream >> verb;
  if (verb != "tree") stream >> id.value;
  stream >> what;
  if (const auto fault = faults_.find({id, kindOf(verb)}); fault != faults_.end()) return fault->second;
  if (verb != "park" && verb != "place" && verb != "spread") operations_.push_back(operation);
  const auto set = CpuSet::parse(what == "-" ? "" : what);
  if (verb == "tree") return set ? writeTree(*set) : EINVAL;
  const auto found = containers_.find(id);
  if (found == containers_.end()) return 0;  // removed meanwhile: nothing left to place
  Container& container = found->second;
  if (verb == "quota") return quotas_[id].now = MilliCpu(std::stoll(what)), 0;
  if (verb == "weight") return container.weight = std::stoll(what), 0;
  if (verb.starts_with("lane-")) {
    const int lane = std::stoi(what);
    verb == "lane-home" ? static_cast<void>(container.lanesAtHome.insert(lane)) : static_cast<void>(container.lanesAtHome.erase(lane));
    return 0;
  }
  if (verb == "place") return attach(container);
  if (!set) return EINVAL;
  if (verb == "spread") {  // sched_setaffinity(2) refuses a mask of which the set above leaves nothing
    if (!set->empty() && !set->intersects(effectiveOf(container.home))) return EINVAL;
    return container.laneCpus = *set, 0;
  }
  if (const auto limit = limits_.find(id); limit != limits_.end() && !set->isSubsetOf(limit->second)) return EACCES;
  if (verb == "home") return writeCpus(container.home, *set);
  if (verb == "park") return writeCpus(container.loans, *set);
  if (verb == "loans") return writeCpus(container.loans, set->empty() ? container.home.requested : *set);
  container.home.memoryNodes = container.loans.memoryNodes = *set;  // "mems"
  return 0;
}

int FakeCpuController::writeCpus(Leaf& leaf, const CpuSet& cpus) {
  if (!cpus.isSubsetOf(possible_)) return EINVAL;
  if (rules_ == KernelRules::CgroupV1) {
    if (cpus.empty() && leaf.hasTasks) return ENOSPC;
    if (!cpus.isSubsetOf(tree_)) return EACCES;
    if (!cpus.isSubsetOf(online_)) return EINVAL;
  }
  leaf.requested = cpus;
  return 0;
}

int FakeCpuController::writeTree(const CpuSet& cpus) {
  if (!cpus.isSubsetOf(possible_)) return EINVAL;
  if (rules_ == KernelRules::CgroupV1) {
    if (!cpus.isSubsetOf(online_)) return EINVAL;
    for (const auto& [id, container] : containers_) {
      if (!container.home.requested.isSubsetOf(cpus) || !container.loans.requested.isSubsetOf(cpus)) return EBUSY;
    }
  }
  tree_ = cpus;
  return 0;
}

int FakeCpuController::attach(Container& container) {
  if (processes_.count(container.threads.pid) == 0) return 0;
  for (Leaf* leaf : {&container.home, &container.loans}) {
    if (leaf->memoryNodes.empty()) leaf->memoryNodes = CpuSet{0};
    if (rules_ == KernelRules::CgroupV1 && leaf->requested.empty()) return ENOSPC;
    leaf->hasTasks = true;
  }
  return 0;
}

CpuSet FakeCpuController::effectiveTree() const {
  const CpuSet set = tree_ & online_;
  return set.empty() ? online_ : set;
}

CpuSet FakeCpuController::effectiveOf(const Leaf& leaf) const {
  const CpuSet set = leaf.requested & effectiveTree();
  return set.empty() ? effectiveTree() : set;
}

ObservedContainer FakeCpuController::seen(const Container& container) const {
  ObservedContainer observed;
  observed.vanished = processes_.count(container.threads.pid) == 0;
  observed.weight = container.weight;
  observed.memoryNodes = container.home.memoryNodes;
  observed.memoryHeld = memoryKept_.count(container.threads.id) == 0;
  if (observed.vanished || !container.home.hasTasks) return observed;
  observed.home = container.home.requested;
  observed.effective = effectiveOf(container.home);
  observed.loans = container.loans.requested;
  return observed;
}

Result<ObservedContainer> FakeCpuController::observe(InstanceId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknown(id);
  const Container& container = found->second;
  const ObservedContainer observed = seen(container);
  const bool asAsked = container.askedWeight.value_or(observed.weight) == observed.weight && container.askedMemoryNodes == observed.memoryNodes;
  container.figures = asAsked ? std::optional(std::pair(observed.weight, observed.memoryNodes)) : std::nullopt;
  return observed;
}

Result<ObservedContainer> FakeCpuController::observePlace(InstanceId id) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = containers_.find(id);
    if (found != containers_.end() && found->second.figures) {
      ObservedContainer observed = seen(found->second);
      std::tie(observed.weight, observed.memoryNodes) = *found->second.figures;
      return observed;
    }
  }
  return observe(id);
}

ThreadUse FakeCpuController::threadUse(InstanceId id, int threadId) const {
  ++threadLooks_;
  const auto use = uses_.find(threadId);
  return containers_.count(id) == 0 ? ThreadUse{{}, false, true} : use == uses_.end() ? ThreadUse{} : use->second;
}

ContainerMemory FakeCpuController::memoryOf(InstanceId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = containers_.find(id);
  return found == containers_.end() || processes_.count(found->second.threads.pid) == 0 ? ContainerMemory{} : found->second.memory;
}

void FakeCpuController::setMemory(InstanceId id, ContainerMemory memory) {
  const std::lock_guard lock(mutex_);
  containers_.at(id).memory = memory;
}

Status FakeCpuController::placeSystem(const CpuSet& cpus) {
  system_ = cpus;
  return {};
}

void FakeCpuController::restore() {
  const std::lock_guard lock(mutex_);
  containers_.clear();
}

void FakeCpuController::setOnline(const CpuSet& online) {
  const std::lock_guard lock(mutex_);
  online_ = online;
  possible_ |= online;
  if (rules_ == KernelRules::CgroupV2) return;
  tree_ &= online;
  for (auto& [id, container] : containers_) {
    for (Leaf* leaf : {&container.home, &container.loans}) {
      leaf->requested &= online;
      leaf->hasTasks = leaf->hasTasks && !leaf->requested.empty();  // the tasks of a set that became empty go to the parent
    }
  }
}

void FakeCpuController::disturbTree(const CpuSet& cpus) {
  const std::lock_guard lock(mutex_);
  tree_ = cpus;
}

void FakeCpuController::disturb(InstanceId id, const CpuSet& home) {
  const std::lock_guard lock(mutex_);
  containers_.at(id).home.requested = home;
}

CpuSet FakeCpuController::laneCpus(InstanceId id) const {
  const std::lock_guard lock(mutex_);
  return containers_.at(id).laneCpus;
}

std::vector<std::string> FakeCpuController::takeOperations() {
  const std::lock_guard lock(mutex_);
  return std::exchange(operations_, {});
}

LanePlace FakeCpuController::lanePlace(InstanceId id, int loanLane) const {
  const std::lock_guard lock(mutex_);
  return containers_.at(id).lanesAtHome.count(loanLane) > 0 ? LanePlace::Home : LanePlace::Loans;
}

}  // namespace coterie::testing
