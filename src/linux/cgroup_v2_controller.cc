#include "linux/cgroup_v2_controller.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/cgroup_tree.h"
#include "linux/execute_write.h"
#include "linux/files.h"
#include "linux/lane_spread.h"
#include "linux/process_threads.h"

namespace coterie::linux {
namespace {

constexpr const char* kControllers[] = {"cpuset", "cpu"};

bool lists(const std::optional<std::string>& text, const std::string& word) {
  std::istringstream words(text.value_or(""));
  for (std::string one; words >> one;) {
    if (one == word) return true;
  }
  return false;
}

Error noCgroupV2(const std::string& why) {
  return {
      Code::Unavailable, "NoCgroupV2",
      why +
          "; run as root, or under systemd with the controllers delegated: systemd-run --user --scope -p Delegate=\"cpu cpuset\" coterie serve ..."};
}

}  // namespace

struct CgroupV2Controller::Leaves {
  std::string home, loans;  // directories
  UniqueFd homeCpus, homeEffective, homeMems, homeProcesses, homeThreads, homeWeight;
  UniqueFd loanCpus, loanMems, loanThreads;
};

CgroupV2Controller::CgroupV2Controller(const CgroupV2Options& options) : options_(options) {
  traits_.name = "cgroup-v2";
  traits_.memoryNodes = true;
  traits_.weights = true;
  traits_.idleLoans = true;
  traits_.holdsHostileWorkers = true;
}

CgroupV2Controller::~CgroupV2Controller() { restore(); }

Result<std::unique_ptr<CgroupV2Controller>> CgroupV2Controller::create(const CgroupV2Options& options) {
  CgroupV2Options complete = options;
  if (complete.directory.empty()) complete.directory = ownCgroupDirectories().v2.value_or("");
  if (complete.directory.empty()) return noCgroupV2("cgroup v2 is not mounted here");
  for (const char* controller : kControllers) {
    if (!lists(readText(complete.directory + "/cgroup.controllers"), controller))
      return noCgroupV2(complete.directory + " does not have the controller " + controller);
  }
  std::unique_ptr<CgroupV2Controller> controller(new CgroupV2Controller(complete));
  clearTreesOfDeadRuns({complete.directory}, complete.killLeftovers);
  if (const Status passed = controller->passControllersOn(); !passed) return passed.error();
  if (const Status made = controller->makeTree(); !made) return made.error();
  return controller;
}

// The hierarchy's root may hold processes and pass controllers on; any other cgroup must be emptied first.
Status CgroupV2Controller::passControllersOn() {
  const std::string& own = options_.directory;
  const auto passed = readText(own + "/cgroup.subtree_control");
  if (lists(passed, "cpuset") && lists(passed, "cpu")) return {};
  const bool root = !readText(own + "/cgroup.type").has_value();  // only the root has none
  if (!root) {
    shelter_ = own + "/system";
    if (::mkdir(shelter_.c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", std::exchange(shelter_, {}), errno);
    for (const int pid : idsIn(readText(own + "/cgroup.procs"))) {
      const int error = writeText(shelter_ + "/cgroup.procs", std::to_string(pid));
      if (error != 0 && error != ESRCH) return cgroupError("cannot move a process into", shelter_, error);
    }
  }
  if (const int error = writeText(own + "/cgroup.subtree_control", "+cpuset +cpu"); error != 0)
    return cgroupError("cannot write", own + "/cgroup.subtree_control", error);
  passedOn_ = true;
  return {};
}

Status CgroupV2Controller::makeTree() {
  tree_ = options_.directory + "/" + treeNameOfThisRun();
  if (::mkdir(tree_.c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", std::exchange(tree_, {}), errno);
  const auto cpus = readText(tree_ + "/cpuset.cpus.effective");
  const auto mems = readText(tree_ + "/cpuset.mems.effective");
  if (!cpus || !mems) return cgroupError("cannot read", tree_ + "/cpuset.cpus.effective", ENOENT);
  memoryNodes_ = *mems;
  if (const auto possible = CpuSet::parse(readText("/sys/devices/system/cpu/possible").value_or(""))) possible_ = *possible;
  if (const int error = writeText(tree_ + "/cpuset.cpus", *cpus); error != 0) return cgroupError("cannot write", tree_ + "/cpuset.cpus", error);
  treeCpus_ = openFor(tree_ + "/cpuset.cpus", O_RDWR);
  if (!treeCpus_) return cgroupError("cannot open", tree_ + "/cpuset.cpus", errno);
  treeProcesses_ = std::make_shared<const UniqueFd>(openFor(tree_ + "/cgroup.procs", O_WRONLY));
  if (!*treeProcesses_) return cgroupError("cannot open", tree_ + "/cgroup.procs", errno);
  return {};
}

Status CgroupV2Controller::makeLeaves(const ContainerRegistration& container, Leaves& leaves) const {
  leaves.home = tree_ + "/" + std::to_string(container.id.value) + ".home";
  leaves.loans = tree_ + "/" + std::to_string(container.id.value) + ".loans";
  for (const std::string* leaf : {&leaves.home, &leaves.loans}) {
    if (::mkdir(leaf->c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", *leaf, errno);
    if (readText(*leaf + "/cgroup.type").value_or("") == "threaded\n") continue;
    if (const int error = writeText(*leaf + "/cgroup.type", "threaded"); error != 0)
      return cgroupError("cannot write", *leaf + "/cgroup.type", error);
  }
  // Only a threaded domain passes these on while it has processes, and it is one since its first threaded child.
  if (const int error = writeText(tree_ + "/cgroup.subtree_control", "+cpuset +cpu"); error != 0)
    return cgroupError("cannot write", tree_ + "/cgroup.subtree_control", error);
  if (const int error = writeText(leaves.loans + "/cpu.idle", "1"); error != 0) return cgroupError("cannot write", leaves.loans + "/cpu.idle", error);
  struct Held {
    UniqueFd& file;
    std::string path;
    int flags;
  };
  const Held all[] = {
      {leaves.homeCpus, leaves.home + "/cpuset.cpus", O_RDWR},         {leaves.homeEffective, leaves.home + "/cpuset.cpus.effective", O_RDONLY},
      {leaves.homeMems, leaves.home + "/cpuset.mems", O_RDWR},         {leaves.homeProcesses, leaves.home + "/cgroup.procs", O_WRONLY},
      {leaves.homeThreads, leaves.home + "/cgroup.threads", O_WRONLY}, {leaves.homeWeight, leaves.home + "/cpu.weight", O_RDWR},
      {leaves.loanCpus, leaves.loans + "/cpuset.cpus", O_RDWR},        {leaves.loanMems, leaves.loans + "/cpuset.mems", O_RDWR},
      {leaves.loanThreads, leaves.loans + "/cgroup.threads", O_WRONLY}};
  for (const Held& held : all) {
    held.file = openFor(held.path, held.flags);
    if (!held.file) return cgroupError("cannot open", held.path, errno);
  }
  return {};
}

Status CgroupV2Controller::add(const ContainerRegistration& container) {
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

void CgroupV2Controller::remove(InstanceId id) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return;
  const std::shared_ptr<Leaves> leaves = found->second.leaves;
  containers_.erase(found);
  unremoved_.push_back(leaves->home);
  unremoved_.push_back(leaves->loans);
  sweep();
}

void CgroupV2Controller::sweep() {
  std::erase_if(unremoved_, [](const std::string& leaf) { return ::rmdir(leaf.c_str()) == 0 || errno == ENOENT; });
  if (systemPlaced_ && !placeOwnThreads(system_)) systemPlaced_ = false;  // refused: said once by placeSystem(), not asked for again
}

// All threads of the process are in the two leaves, the first one in the home: none was born elsewhere or moved away by somebody.
CgroupV2Controller::Placing CgroupV2Controller::placingOf(const Container& container) const {
  std::vector<int> placed = idsIn(readText(container.leaves->home + "/cgroup.threads"));
  if (std::find(placed.begin(), placed.end(), container.threads.pid) == placed.end()) return Placing::Floats;
  const std::vector<int> lent = idsIn(readText(container.leaves->loans + "/cgroup.threads"));
  placed.insert(placed.end(), lent.begin(), lent.end());
  std::sort(placed.begin(), placed.end());
  const std::vector<int> present = threadsOf(container.threads.pid);
  return std::includes(placed.begin(), placed.end(), present.begin(), present.end()) ? Placing::Complete : Placing::Partial;
}

PreparedChange CgroupV2Controller::homeChange(Container& container, const CpuSet& cpus) const {
  const Leaves& leaves = *container.leaves;
  const std::string text = cpus.toString();
  PreparedChange change{{fileWrite(leaves.homeCpus, text)}, container.leaves};
  if (!container.lent) change.writes.push_back(fileWrite(leaves.loanCpus, text));  // parked lanes follow the home
  container.home = cpus;
  if (placingOf(container) == Placing::Complete) return change;
  change.writes.push_back(fileWrite(leaves.homeMems, container.memoryNodes));
  change.writes.push_back(fileWrite(leaves.loanMems, container.memoryNodes));
  const std::string pid = std::to_string(container.threads.pid);
  change.writes.push_back(fileWrite(*treeProcesses_, pid));  // into the threaded domain, then to its leaf
  change.writes.push_back(fileWrite(leaves.homeProcesses, pid));
  for (const int tid : container.threads.loanLaneThreads) change.writes.push_back(fileWrite(leaves.loanThreads, std::to_string(tid)));
  change.descriptors = std::make_shared<std::pair<std::shared_ptr<Leaves>, std::shared_ptr<const UniqueFd>>>(container.leaves, treeProcesses_);
  return change;
}

// The masks hold within the cpuset. A lane that floats again gets every possible CPU: the kernel keeps a narrower mask across later changes of the
// set.
PreparedChange CgroupV2Controller::laneChange(Container& container, const CpuSet& cpus) const {
  PreparedChange change;
  const std::vector<int> before = std::exchange(container.laneCpus, spreadLanes(container.laneCpus, cpus));
  for (std::size_t lane = 0; lane < container.laneCpus.size(); ++lane) {
    const int cpu = container.laneCpus[lane];
    if (cpu < 0 && before[lane] < 0) continue;
    change.writes.push_back(affinityWrite(container.threads.ownLaneThreads[lane], cpu < 0 ? possible_ : CpuSet{cpu}));
  }
  return change;
}

Result<PreparedChange> CgroupV2Controller::prepare(const CpuChange& change) {
  const bool mayBeEmpty = change.kind == CpuChangeKind::LaneCpus || change.kind == CpuChangeKind::LoanCpus || change.kind == CpuChangeKind::Weight;
  if (!mayBeEmpty && change.set.empty()) {
    return Error{Code::InvalidArgument, "EmptySet", "a container must keep at least one CPU and one memory node"};
  }
  const bool cpus = change.kind != CpuChangeKind::MemoryNodes && change.kind != CpuChangeKind::Weight;
  if (cpus && !possible_.empty() && !change.set.isSubsetOf(possible_))
    return Error{Code::InvalidArgument, "OutsideMachine", "CPUs " + (change.set - possible_).toString() + " are not in this machine"};
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
      return PreparedChange{{fileWrite(leaves.homeMems, container.memoryNodes), fileWrite(leaves.loanMems, container.memoryNodes)}, container.leaves};
    default:
      return PreparedChange{{fileWrite(leaves.homeWeight, std::to_string(std::clamp<std::int64_t>(change.weight, 1, 10000)))}, container.leaves};
  }
}

Result<PreparedChange> CgroupV2Controller::prepareLaneMove(InstanceId id, int loanLane, LanePlace place) {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  const std::vector<int>& lanes = found->second.threads.loanLaneThreads;
  if (loanLane < 0 || static_cast<std::size_t>(loanLane) >= lanes.size()) return Error{Code::NotFound, "UnknownLane", "no such loan lane"};
  if (found->second.home.empty()) return PreparedChange{};
  const std::shared_ptr<Leaves>& leaves = found->second.leaves;
  const std::string tid = std::to_string(lanes[static_cast<std::size_t>(loanLane)]);
  return PreparedChange{{fileWrite(place == LanePlace::Home ? leaves->homeThreads : leaves->loanThreads, tid)}, leaves};
}

Result<ObservedContainer> CgroupV2Controller::observe(InstanceId id) const {
  const auto found = containers_.find(id);
  if (found == containers_.end()) return unknownContainer(id);
  const Container& container = found->second;
  ObservedContainer observed;
  observed.vanished = processGone(container.threads.pid);
  observed.weight = std::strtoll(readText(container.leaves->homeWeight.get()).value_or("100").c_str(), nullptr, 10);
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

ThreadUse CgroupV2Controller::threadUse(InstanceId id, int threadId) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? ThreadUse{{}, false, true} : threadUseOf(found->second.threads.pid, threadId);
}

Status CgroupV2Controller::placeSystem(const CpuSet& cpus) {
  system_ = cpus;
  systemPlaced_ = true;
  return placeOwnThreads(cpus);
}

void CgroupV2Controller::restore() {
  const std::string back = shelter_.empty() ? options_.directory : shelter_;
  for (auto& [id, container] : containers_) {
    if (!container.home.empty()) static_cast<void>(writeText(back + "/cgroup.procs", std::to_string(container.threads.pid)));
    giveBackMask(container.threads.pid, container.mask);
  }
  containers_.clear();
  treeCpus_.reset();
  treeProcesses_.reset();
  if (!tree_.empty()) removeTree(tree_);
  unremoved_.clear();
  giveBackOwnCgroup();
}

// What the own cgroup was before: its processes in it, nothing passed on. Not while others have made trees below it.
void CgroupV2Controller::giveBackOwnCgroup() {
  if (!std::exchange(passedOn_, false)) return;
  if (writeText(options_.directory + "/cgroup.subtree_control", "-cpuset -cpu") != 0 || shelter_.empty()) return;
  for (const int pid : idsIn(readText(shelter_ + "/cgroup.procs")))
    static_cast<void>(writeText(options_.directory + "/cgroup.procs", std::to_string(pid)));
  ::rmdir(std::exchange(shelter_, {}).c_str());
}

}  // namespace coterie::linux
