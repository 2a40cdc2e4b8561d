// What CPU control by cgroups is in either version: containers with two leaves, the order of the writes that place and change them, and what the
// kernel says of them. A version adds where its leaves lie and how they are spelt (cgroup_v1_controller.h, cgroup_v2_controller.h).
//
// A change costs no path walk: the files are held open. Thread lists are opened anew: through a held descriptor v1 shows one that may be a second old
// (the kernel keeps it for repeated reads); they are read only where cheaper signs do not tell (thread_census.h). O(threads) per observation. Thread
// rule: control loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "linux/process_threads.h"
#include "linux/thread_census.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

// Held files of one container. A process or thread joins by being written to each file of a list, in order.
struct CgroupLeaves {
  std::vector<std::string> directories;
  std::string homeThreads, loanThreads;  // the lists of who is there
  UniqueFd homeCpus, homeEffective, homeMems, homeWeight, loanCpus, loanMems;
  UniqueFd aboveCpus;     // of a directory that the two leaves have for themselves; invalid: they lie in the tree
  UniqueFd homePressure;  // of memory; invalid: this version, or this kernel, has none
  std::vector<UniqueFd> joinHomeAsProcess, joinHome, joinLoans;
};

class CgroupController : public CpuController {
 public:
  [[nodiscard]] const CpuControllerTraits& traits() const override { return traits_; }
  [[nodiscard]] Status add(const ContainerRegistration& container) override;
  void remove(InstanceId id) override;
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override;
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) override;
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override;
  [[nodiscard]] Result<ObservedContainer> observePlace(InstanceId id) const override;
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int threadId) const override;
  [[nodiscard]] Nanos cpuTime(InstanceId id, int threadId) const override;
  [[nodiscard]] ContainerMemory memoryOf(InstanceId id) const override;
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override;
  void sweep() override;
  void restore() override;

 protected:
  explicit CgroupController(std::string name);

  // Makes the directories and names them, the outer after the inner, and opens the files.
  [[nodiscard]] virtual Status makeLeaves(InstanceId id, CgroupLeaves& leaves) const = 0;
  // Between a weight (100 is an ordinary container's) and what the kernel's file says.
  [[nodiscard]] virtual std::int64_t kernelWeight(std::int64_t weight) const = 0;
  [[nodiscard]] virtual std::int64_t weightRead(const std::optional<std::string>& text) const = 0;
  virtual void moveBack(int pid) const = 0;  // to where processes of containers came from
  virtual void removeTrees() = 0;

  // The tree stands: its CPU set from now on, and the memory nodes that containers begin with, as text.
  [[nodiscard]] Status openTree(const std::string& cpusFile, std::string memoryNodes);

 private:
  struct Figures {
    std::int64_t weight{0};
    CpuSet memoryNodes;
  };
  struct Container {
    ContainerRegistration threads;
    std::shared_ptr<CgroupLeaves> leaves;
    std::string memoryNodes;    // asked last, as text
    std::string weight;         // asked last, as the kernel's file has it; empty: never
    CpuSet home;                // asked last; empty: not placed
    CpuSet loans;               // asked last for the loans leaf; empty: it follows the home
    std::vector<int> laneCpus;  // that each own lane keeps to, -1: it floats
    CpuSet mask;                // its first thread's, as it came: without isolated CPUs, as a rule
    std::unique_ptr<ThreadCensus> census;
    std::unique_ptr<ThreadTimes> times;
    mutable std::optional<Figures> figures;  // as last read, once they are what was asked
  };
  [[nodiscard]] Figures readFigures(const Container& container) const;
  [[nodiscard]] ObservedContainer placeOf(const Container& container, const Figures& figures) const;
  [[nodiscard]] static std::map<int, int> singleLanes(const Container& container);
  [[nodiscard]] PreparedChange treeChange(const CpuSet& cpus) const;
  [[nodiscard]] PreparedChange homeChange(Container& container, const CpuSet& cpus) const;
  [[nodiscard]] PreparedChange laneChange(Container& container, const CpuSet& cpus) const;

  CpuControllerTraits traits_;
  std::string memoryNodes_;  // the tree's, as text
  CpuSet possible_;          // the mask of a thread that only its cpuset holds
  UniqueFd treeCpus_;
  CpuSet system_;
  bool systemPlaced_{false};
  std::map<InstanceId, Container> containers_;
  std::vector<std::string> unremoved_;
};

}  // namespace coterie::linux
