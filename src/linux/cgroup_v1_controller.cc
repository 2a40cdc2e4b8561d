#include "linux/cgroup_v1_controller.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/cgroup_tree.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/lane_spread.h"
#include "linux/process_threads.h"

namespace coterie::linux {
namespace {

constexpr std::int64_t kOrdinaryShares = 1024;
}  // namespace

struct CgroupV1Controller::Leaves {
  std::string cpusetHome, cpusetLoans, cpuHome, cpuLoans;  // directories
  UniqueFd homeCpus, homeEffective, homeMems, homeProcesses, homeTasks, homeCpuProcesses, homeCpuTasks, homeShares;
  UniqueFd loanCpus, loanMems, loanTasks, loanCpuTasks;
};

CgroupV1Controller::CgroupV1Controller(const CgroupV1Options& options) : options_(options) {
  traits_.name = "cgroup-v1";
  traits_.memoryNodes = true;
  traits_.weights = true;
  traits_.idleLoans = true;
  traits_.holdsHostileWorkers = true;
}

CgroupV1Controller::~CgroupV1Controller() { restore(); }

Result<std::unique_ptr<CgroupV1Controller>> CgroupV1Controller::create(const CgroupV1Options& options) {
  CgroupV1Options complete = options;
  const CgroupDirectories own = ownCgroupDirectories();
  const auto cpuset = own.v1.find("cpuset");
  const auto cpu = own.v1.find("cpu");
  if (complete.cpusetDirectory.empty() && cpuset != own.v1.end()) complete.cpusetDirectory = cpuset->second;
  if (complete.cpuDirectory.empty() && cpu != own.v1.end()) complete.cpuDirectory = cpu->second;
  if (complete.cpusetDirectory.empty() || complete.cpuDirectory.empty()) {
    return Error{Code::Unavailable, "NoCgroupV1", "the cgroup v1 hierarchies cpuset and cpu are not mounted here"};
  }
  std::unique_ptr<CgroupV1Controller> controller(new CgroupV1Controller(complete));
  if (const Status made = controller->makeTrees(); !made) return made.error();
  return controller;
}

Status CgroupV1Controller::makeTrees() {
  clearTreesOfDeadRuns({options_.cpusetDirectory, options_.cpuDirectory}, options_.killLeftovers);
  const std::string name = treeNameOfThisRun();
  cpusetTree_ = options_.cpusetDirectory + "/" + name;
  cpuTree_ = options_.cpuDirectory + "/" + name;
  for (const std::string& tree : {cpusetTree_, cpuTree_}) {
    if (::mkdir(tree.c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", tree, errno);
  }
  const auto cpus = readText(options_.cpusetDirectory + "/cpuset.effective_cpus");
  const auto mems = readText(options_.cpusetDirectory + "/cpuset.effective_mems");
  if (!cpus || !mems) return cgroupError("cannot read", options_.cpusetDirectory + "/cpuset.effective_cpus", ENOENT);
  memoryNodes_ = *mems;
  const auto possible = CpuSet::parse(readText("/sys/devices/system/cpu/possible").value_or(""));
  if (possible) possible_ = *possible;
  for (const auto& [file, text] : {std::pair{"/cpuset.cpus", *cpus}, std::pair{"/cpuset.mems", *mems}}) {
    if (const int error = writeText(cpusetTree_ + file, text); error != 0) return cgroupError("cannot write", cpusetTree_ + file, error);
  }
  treeCpus_ = openFor(cpusetTree_ + "/cpuset.cpus", O_RDWR);
  if (!treeCpus_) return cgroupError("cannot open", cpusetTree_ + "/cpuset.cpus", errno);
  return {};
}

Status CgroupV1Controller::makeLeaves(const ContainerRegistration& container, Leaves& leaves) const {
  const std::string id = "/" + std::to_string(container.id.value);
  leaves.cpusetHome = cpusetTree_ + id + ".home";
  leaves.cpusetLoans = cpusetTree_ + id + ".loans";
  leaves.cpuHome = cpuTree_ + id + ".home";
  leaves.cpuLoans = cpuTree_ + id + ".loans";
  for (const std::string* leaf : {&leaves.cpusetHome, &leaves.cpusetLoans, &leaves.cpuHome, &leaves.cpuLoans}) {
    if (::mkdir(leaf->c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", *leaf, errno);
  }
  if (const int error = writeText(leaves.cpuLoans + "/cpu.idle", "1"); error != 0)
    return cgroupError("cannot write", leaves.cpuLoans + "/cpu.idle", error);
  struct Held {
    UniqueFd& file;
    std::string path;
    int flags;
  };
  const Held all[] = {
      {leaves.homeCpus, leaves.cpusetHome + "/cpuset.cpus", O_RDWR},  {leaves.homeEffective, leaves.cpusetHome + "/cpuset.effective_cpus", O_RDONLY},
      {leaves.homeMems, leaves.cpusetHome + "/cpuset.mems", O_RDWR},  {leaves.homeProcesses, leaves.cpusetHome + "/cgroup.procs", O_WRONLY},
      {leaves.homeTasks, leaves.cpusetHome + "/tasks", O_WRONLY},     {leaves.homeCpuProcesses, leaves.cpuHome + "/cgroup.procs", O_WRONLY},
      {leaves.homeCpuTasks, leaves.cpuHome + "/tasks", O_WRONLY},     {leaves.homeShares, leaves.cpuHome + "/cpu.shares", O_RDWR},
      {leaves.loanCpus, leaves.cpusetLoans + "/cpuset.cpus", O_RDWR}, {leaves.loanMems, leaves.cpusetLoans + "/cpuset.mems", O_RDWR},
      {leaves.loanTasks, leaves.cpusetLoans + "/tasks", O_WRONLY},    {leaves.loanCpuTasks, leaves.cpuLoans + "/tasks", O_WRONLY}};
  for (const Held& held : all) {
    held.file = openFor(held.path, held.flags);
    if (!held.file) return cgroupError("cannot open", held.path, errno);
  }
  return {};
}

Status CgroupV1Controller::add(const ContainerRegistration& container) {
  if (containers_.count(container.id) > 0) {
    return Error{Code::Conflict, "AlreadyRegistered", "container " + std::to_string(container.id.value) + " is registered already"};
  }
  if (processGone(container.pid)) return Error{Code::NotFound, "ProcessGone", "process " + std::to_string(container.pid) + " has ended"};
  const auto leaves = std::make_shared<Leaves>();
  if (const Status made = makeLeaves(container, *leaves); !made) return made;
  const CpuSet mask = affinityOf(container.pid).value_or(possible_);
  if (!possible_.empty()) {  // a narrower mask would go on binding inside the cpuset
    for (const int tid : threadsOf(container.pid)) static_cast<void>(executeWrite(affinityWrite(tid, possible_)));
  }
  containers_[container.id] = Container{container, leaves, memoryNodes_, {}, false, std::vector<int>(container.ownLaneThreads.size(), -1), mask};
  return {};
}

void CgroupV1Controller::remove(InstanceId id) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return;
  const std::shared_ptr<Leaves> leaves = found->second.leaves;
  containers_.erase(found);
  for (const std::string* leaf : {&leaves->cpusetHome, &leaves->cpusetLoans, &leaves->cpuHome, &leaves->cpuLoans}) unremoved_.push_back(*leaf);
  sweep();
}

void CgroupV1Controller::sweep() {
  std::erase_if(unremoved_, [](const std::string& leaf) { return ::rmdir(leaf.c_str()) == 0 || errno == ENOENT; });
  if (systemPlaced_ && !placeOwnThreads(system_)) systemPlaced_ = false;  // refused: said once by placeSystem(), not asked for again
}

// All threads of the process are in the two leaves, the first one in the home: none was born elsewhere or moved away by somebody.
CgroupV1Controller::Placing CgroupV1Controller::placingOf(const Container& container) const {
  // Opened anew: through a held descriptor v1 shows a list of tasks that may be a second old (the kernel keeps it for repeated reads).
  std::vector<int> placed = idsIn(readText(container.leaves->cpusetHome + "/tasks"));
  if (std::find(placed.begin(), placed.end(), container.threads.pid) == placed.end()) return Placing::Floats;
  const std::vector<int> lent = idsIn(readText(container.leaves->cpusetLoans + "/tasks"));
  placed.insert(placed.end(), lent.begin(), lent.end());
  std::sort(placed.begin(), placed.end());
  const std::vector<int> present = threadsOf(container.threads.pid);
  return std::includes(placed.begin(), placed.end(), present.begin(), present.end()) ? Placing::Complete : Placing::Partial;
}

PreparedChange CgroupV1Controller::homeChange(Container& container, const CpuSet& cpus) const {
  const Leaves& leaves = *container.leaves;
  const std::string text = cpus.toString();
  PreparedChange change{{fileWrite(leaves.homeCpus, text)}, container.leaves};
  if (!container.lent) change.writes.push_back(fileWrite(leaves.loanCpus, text));  // parked lanes follow the home
  container.home = cpus;
  if (placingOf(container) == Placing::Complete) return change;
  change.writes.push_back(fileWrite(leaves.homeMems, container.memoryNodes));
  change.writes.push_back(fileWrite(leaves.loanMems, container.memoryNodes));
  const std::string pid = std::to_string(container.threads.pid);
  change.writes.push_back(fileWrite(leaves.homeProcesses, pid));
  change.writes.push_back(fileWrite(leaves.homeCpuProcesses, pid));
  for (const int tid : container.threads.loanLaneThreads) {
    change.writes.push_back(fileWrite(leaves.loanTasks, std::to_string(tid)));
    change.writes.push_back(fileWrite(leaves.loanCpuTasks, std::to_string(tid)));
  }
  return change;
}

// The masks hold within the cpuset. A lane that floats again gets every possible CPU: the kernel keeps a narrower mask across later changes of the
// set.
PreparedChange CgroupV1Controller::laneChange(Container& container, const CpuSet& cpus) const {
  PreparedChange change;
  const std::vector<int> before = std::exchange(container.laneCpus, spreadLanes(container.laneCpus, cpus));
  for (std::size_t lane = 0; lane < container.laneCpus.size(); ++lane) {
    const int cpu = container.laneCpus[lane];
    if (cpu < 0 && before[lane] < 0) continue;
    change.writes.push_back(affinityWrite(container.threads.ownLaneThreads[lane], cpu < 0 ? possible_ : CpuSet{cpu}));
  }
  return change;
}

Result<PreparedChange> CgroupV1Controller::prepare(const CpuChange& change) {
  const bool mayBeEmpty = change.kind == CpuChangeKind::LaneCpus || change.kind == CpuChangeKind::LoanCpus || change.kind == CpuChangeKind::Weight;
  if (!mayBeEmpty && change.set.empty()) {
    return Error{Code::InvalidArgument, "EmptySet", "a container must keep at least one CPU and one memory node"};
  }
  if (change.kind == CpuChangeKind::AncestorCpus) return PreparedChange{{fileWrite(treeCpus_, change.set.toString())}, nullptr};
  const auto found = containers_.find(change.container);
  if (found == containers_.end()) return unknownContainer(change.container);
  Container& container = found->second;
  const Leaves& leaves = *container.leaves;
  switch (change.kind) {
    case CpuChangeKind::HomeCpus: return homeChange(container, change.set);
    case CpuChangeKind::LaneCpus: return laneChange(container, change.set);
    case CpuChangeKind::LoanCpus: {
      container.lent = !change.set.empty();
      const CpuSet& target = container.lent ? change.set : container.home;
      if (target.empty()) return PreparedChange{};  // parked and not placed: nothing to say
      return PreparedChange{{fileWrite(leaves.loanCpus, target.toString())}, container.leaves};
    }
    case CpuChangeKind::MemoryNodes:
      container.memoryNodes = change.set.toString();
      return PreparedChange{{fileWrite(leaves.homeMems, change.set.toString()), fileWrite(leaves.loanMems, change.set.toString())}, container.leaves};
    default: {
      const std::int64_t shares = std::clamp<std::int64_t>(change.weight * kOrdinaryShares / 100, 2, 262144);  // the kernel's bounds
      return PreparedChange{{fileWrite(leaves.homeShares, std::to_string(shares))}, container.leaves};
    }
  }
}

Result<PreparedChange> CgroupV1Controller::prepareLaneMove(InstanceId id, int loanLane, LanePlace place) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  const std::vector<int>& lanes = found->second.threads.loanLaneThreads;
  if (loanLane < 0 || static_cast<std::size_t>(loanLane) >= lanes.size()) return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
  if (found->second.home.empty()) return PreparedChange{};
  const std::shared_ptr<Leaves>& leaves = found->second.leaves;
  const std::string tid = std::to_string(lanes[static_cast<std::size_t>(loanLane)]);
  const bool home = place == LanePlace::Home;
  return PreparedChange{
      {fileWrite(home ? leaves->homeTasks : leaves->loanTasks, tid), fileWrite(home ? leaves->homeCpuTasks : leaves->loanCpuTasks, tid)}, leaves};
}

Result<ObservedContainer> CgroupV1Controller::observe(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  const Container& container = found->second;
  ObservedContainer observed;
  observed.vanished = processGone(container.threads.pid);
  const std::int64_t shares = std::strtoll(readText(container.leaves->homeShares.get()).value_or("0").c_str(), nullptr, 10);
  observed.weight = (shares * 100 + kOrdinaryShares / 2) / kOrdinaryShares;
  observed.memoryNodes = setIn(container.leaves->homeMems);
  if (observed.vanished || container.home.empty()) return observed;
  const Placing placing = placingOf(container);
  observed.uniform = placing == Placing::Complete;
  if (placing == Placing::Floats) return observed;
  observed.home = setIn(container.leaves->homeCpus);
  observed.effective = setIn(container.leaves->homeEffective);
  observed.loans = setIn(container.leaves->loanCpus);
  return observed;
}

ThreadUse CgroupV1Controller::threadUse(InstanceId id, int threadId) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? ThreadUse{{}, false, true} : threadUseOf(found->second.threads.pid, threadId);
}

Status CgroupV1Controller::placeSystem(const CpuSet& cpus) {
  system_ = cpus;
  systemPlaced_ = true;
  return placeOwnThreads(cpus);
}

void CgroupV1Controller::restore() {
  for (auto& [id, container] : containers_) {
    for (const std::string& parent : {options_.cpusetDirectory, options_.cpuDirectory}) {
      if (!container.home.empty()) static_cast<void>(writeText(parent + "/cgroup.procs", std::to_string(container.threads.pid)));
    }
    giveBackMask(container.threads.pid, container.mask);
  }
  containers_.clear();
  treeCpus_.reset();
  if (!cpusetTree_.empty()) {
    removeTree(cpusetTree_);
    removeTree(cpuTree_);
  }
  unremoved_.clear();
}

}  // namespace coterie::linux
