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
#include "linux/files.h"

namespace coterie::linux {
namespace {

constexpr std::int64_t kOrdinaryShares = 1024;
}  // namespace

CgroupV1Controller::CgroupV1Controller(const CgroupV1Options& options) : CgroupController("cgroup-v1"), options_(options) {}

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
  for (const auto& [file, text] : {std::pair{"/cpuset.cpus", *cpus}, std::pair{"/cpuset.mems", *mems}}) {
    if (const int error = writeText(cpusetTree_ + file, text); error != 0) return cgroupError("cannot write", cpusetTree_ + file, error);
  }
  return openTree(cpusetTree_ + "/cpuset.cpus", *mems);
}

Status CgroupV1Controller::makeLeaves(InstanceId id, CgroupLeaves& leaves) const {
  const std::string name = "/" + std::to_string(id.value);
  const std::string above = cpusetTree_ + name;
  const std::string cpusetHome = above + "/home";
  const std::string cpusetLoans = above + "/loans";
  const std::string cpuHome = cpuTree_ + name + ".home";
  const std::string cpuLoans = cpuTree_ + name + ".loans";
  leaves.directories = {cpusetHome, cpusetLoans, above, cpuHome, cpuLoans};
  for (const std::string& folder : {above, cpusetHome, cpusetLoans, cpuHome, cpuLoans}) {
    if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return cgroupError("cannot make", folder, errno);
  }
  // The tree's set, which has all that a leaf can have, is one scheduling domain; whatever asked for one, too, would have them made anew at each
  // write. So this comes first, while they are empty.
  for (const std::string& folder : {above, cpusetHome, cpusetLoans}) static_cast<void>(writeText(folder + "/cpuset.sched_load_balance", "0"));
  for (const char* file : {"/cpuset.cpus", "/cpuset.mems"}) {
    if (const int error = writeText(above + file, readText(cpusetTree_ + file).value_or("")); error != 0)
      return cgroupError("cannot write", above + file, error);
  }
  if (const int error = writeText(cpuLoans + "/cpu.idle", "1"); error != 0) return cgroupError("cannot write", cpuLoans + "/cpu.idle", error);
  leaves.homeThreads = cpusetHome + "/tasks";
  leaves.loanThreads = cpusetLoans + "/tasks";
  leaves.joinHomeAsProcess.resize(2);
  leaves.joinHome.resize(2);
  leaves.joinLoans.resize(2);
  return openAll({{leaves.aboveCpus, above + "/cpuset.cpus", O_RDWR},
                  {leaves.homeCpus, cpusetHome + "/cpuset.cpus", O_RDWR},
                  {leaves.homeEffective, cpusetHome + "/cpuset.effective_cpus", O_RDONLY},
                  {leaves.homeMems, cpusetHome + "/cpuset.mems", O_RDWR},
                  {leaves.homeWeight, cpuHome + "/cpu.shares", O_RDWR},
                  {leaves.loanCpus, cpusetLoans + "/cpuset.cpus", O_RDWR},
                  {leaves.loanMems, cpusetLoans + "/cpuset.mems", O_RDWR},
                  {leaves.joinHomeAsProcess[0], cpusetHome + "/cgroup.procs", O_WRONLY},
                  {leaves.joinHomeAsProcess[1], cpuHome + "/cgroup.procs", O_WRONLY},
                  {leaves.joinHome[0], cpusetHome + "/tasks", O_WRONLY},
                  {leaves.joinHome[1], cpuHome + "/tasks", O_WRONLY},
                  {leaves.joinLoans[0], cpusetLoans + "/tasks", O_WRONLY},
                  {leaves.joinLoans[1], cpuLoans + "/tasks", O_WRONLY}});
}

std::int64_t CgroupV1Controller::kernelWeight(std::int64_t weight) const {
  return std::clamp<std::int64_t>(weight * kOrdinaryShares / 100, 2, 262144);  // the kernel's bounds
}

std::int64_t CgroupV1Controller::weightRead(const std::optional<std::string>& text) const {
  const std::int64_t shares = std::strtoll(text.value_or("0").c_str(), nullptr, 10);
  return (shares * 100 + kOrdinaryShares / 2) / kOrdinaryShares;
}

void CgroupV1Controller::moveBack(int pid) const {
  for (const std::string& parent : {options_.cpusetDirectory, options_.cpuDirectory})
    static_cast<void>(writeText(parent + "/cgroup.procs", std::to_string(pid)));
}

void CgroupV1Controller::removeTrees() {
  if (cpusetTree_.empty()) return;
  removeTree(cpusetTree_);
  removeTree(cpuTree_);
}

}  // namespace coterie::linux
