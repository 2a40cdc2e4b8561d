#include "linux/cgroup_v2_controller.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "linux/cgroup_paths.h"
#include "linux/cgroup_tree.h"
#include "linux/files.h"

namespace coterie::linux {
namespace {

constexpr const char* kControllers[] = {"cpuset", "cpu"};
constexpr const char* kShelter = "system";

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

// systemd marks what it gave away; where it does not run, nobody else claims the hierarchy.
bool leftToSystemd(const std::string& directory) {
  if (::access("/run/systemd/system", F_OK) != 0) return false;
  std::array<char, 8> value{};
  for (const char* mark : {"trusted.delegate", "user.delegate"}) {
    if (::getxattr(directory.c_str(), mark, value.data(), value.size()) == 1 && value[0] == '1') return false;
  }
  return true;
}

bool hasDeadTrees(const std::string& directory) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored)) {
    if (treeOfDeadRun(entry.path().filename().string())) return true;
  }
  return false;
}

}  // namespace

CgroupV2Controller::CgroupV2Controller(const CgroupV2Options& options) : CgroupController("cgroup-v2"), options_(options) {}

CgroupV2Controller::~CgroupV2Controller() { restore(); }

Result<std::unique_ptr<CgroupV2Controller>> CgroupV2Controller::create(const CgroupV2Options& options) {
  CgroupV2Options complete = options;
  if (complete.directory.empty()) complete.directory = ownCgroupDirectories().v2.value_or("");
  if (complete.directory.empty()) return noCgroupV2("cgroup v2 is not mounted here");
  for (const char* controller : kControllers) {
    if (!lists(readText(complete.directory + "/cgroup.controllers"), controller))
      return noCgroupV2(complete.directory + " does not have the controller " + controller);
  }
  if (complete.onlyIfDelegated && leftToSystemd(complete.directory))
    return noCgroupV2(complete.directory + " is systemd's, which has not delegated it");
  std::unique_ptr<CgroupV2Controller> controller(new CgroupV2Controller(complete));
  controller->takeOverFromDeadRun();
  clearTreesOfDeadRuns({controller->options_.directory}, complete.killLeftovers);
  if (const Status passed = controller->passControllersOn(); !passed) return passed.error();
  if (const Status made = controller->makeTree(); !made) return made.error();
  return controller;
}

// A dead run moved the processes of its cgroup into `system`, its supervisor among them: what that starts is in there.
void CgroupV2Controller::takeOverFromDeadRun() {
  const std::filesystem::path own(options_.directory);
  if (own.filename() != kShelter || !hasDeadTrees(own.parent_path().string())) return;
  shelter_ = options_.directory;
  options_.directory = own.parent_path().string();
  passedOn_ = true;
}

// The hierarchy's root may hold processes and pass controllers on; any other cgroup must be emptied first.
Status CgroupV2Controller::passControllersOn() {
  const std::string& own = options_.directory;
  const auto passed = readText(own + "/cgroup.subtree_control");
  if (lists(passed, "cpuset") && lists(passed, "cpu")) return {};
  const bool root = !readText(own + "/cgroup.type").has_value();  // only the root has none
  if (!root) {
    shelter_ = own + "/" + kShelter;
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
  if (const int error = writeText(tree_ + "/cpuset.cpus", *cpus); error != 0) return cgroupError("cannot write", tree_ + "/cpuset.cpus", error);
  return openTree(tree_ + "/cpuset.cpus", *mems);
}

Status CgroupV2Controller::makeLeaves(InstanceId id, CgroupLeaves& leaves) const {
  const std::string home = tree_ + "/" + std::to_string(id.value) + ".home";
  const std::string loans = tree_ + "/" + std::to_string(id.value) + ".loans";
  leaves.directories = {home, loans};
  for (const std::string& leaf : leaves.directories) {
    if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", leaf, errno);
    if (readText(leaf + "/cgroup.type").value_or("") == "threaded\n") continue;
    if (const int error = writeText(leaf + "/cgroup.type", "threaded"); error != 0) return cgroupError("cannot write", leaf + "/cgroup.type", error);
  }
  // Only a threaded domain passes these on while it has processes, and it is one since its first threaded child.
  if (const int error = writeText(tree_ + "/cgroup.subtree_control", "+cpuset +cpu"); error != 0)
    return cgroupError("cannot write", tree_ + "/cgroup.subtree_control", error);
  if (const int error = writeText(loans + "/cpu.idle", "1"); error != 0) return cgroupError("cannot write", loans + "/cpu.idle", error);
  leaves.homePressure = openFor(home + "/memory.pressure", O_RDONLY);
  leaves.homeThreads = home + "/cgroup.threads";
  leaves.loanThreads = loans + "/cgroup.threads";
  leaves.joinHomeAsProcess.resize(2);
  leaves.joinHome.resize(1);
  leaves.joinLoans.resize(1);
  return openAll({{leaves.homeCpus, home + "/cpuset.cpus", O_RDWR},
                  {leaves.homeEffective, home + "/cpuset.cpus.effective", O_RDONLY},
                  {leaves.homeMems, home + "/cpuset.mems", O_RDWR},
                  {leaves.homeWeight, home + "/cpu.weight", O_RDWR},
                  {leaves.loanCpus, loans + "/cpuset.cpus", O_RDWR},
                  {leaves.loanMems, loans + "/cpuset.mems", O_RDWR},
                  {leaves.joinHomeAsProcess[0], tree_ + "/cgroup.procs", O_WRONLY},  // into the threaded domain, then to its leaf
                  {leaves.joinHomeAsProcess[1], home + "/cgroup.procs", O_WRONLY},
                  {leaves.joinHome[0], home + "/cgroup.threads", O_WRONLY},
                  {leaves.joinLoans[0], loans + "/cgroup.threads", O_WRONLY}});
}

std::int64_t CgroupV2Controller::kernelWeight(std::int64_t weight) const { return std::clamp<std::int64_t>(weight, 1, 10000); }

std::int64_t CgroupV2Controller::weightRead(const std::optional<std::string>& text) const {
  return std::strtoll(text.value_or("100").c_str(), nullptr, 10);
}

void CgroupV2Controller::moveBack(int pid) const {
  static_cast<void>(writeText((shelter_.empty() ? options_.directory : shelter_) + "/cgroup.procs", std::to_string(pid)));
}

void CgroupV2Controller::removeTrees() {
  if (!tree_.empty()) removeTree(tree_);
  giveBackOwnCgroup();
}

// What the own cgroup was before: its processes in it, nothing passed on. Not while others have made trees below it.
void CgroupV2Controller::giveBackOwnCgroup() {
  if (std::exchange(passedOn_, false) && writeText(options_.directory + "/cgroup.subtree_control", "-cpuset -cpu") != 0) return;
  if (shelter_.empty()) return;
  for (const int pid : idsIn(readText(shelter_ + "/cgroup.procs")))
    static_cast<void>(writeText(options_.directory + "/cgroup.procs", std::to_string(pid)));
  ::rmdir(std::exchange(shelter_, {}).c_str());
}

}  // namespace coterie::linux
