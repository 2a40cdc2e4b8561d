// CPU sets for containers that are not ours: in their own cgroup where they have one, else by the affinity of all their threads.
//
// A container is as many processes as there are; who they are now is asked each time (Find), because they come and go. Own cgroup: the container's
// directory in the hierarchy that has cpuset (v2, or v1 without directories below: a v1 parent cannot become narrower than its children); it is found
// by the name that its runtime gave it. Nothing is moved, no directory is made, weights are left as they are. Memory nodes follow in a cgroup of its
// own, unless somebody chose them (foreign_memory.h) or they are to be kept. There are no lanes:
// LoanCpus widens the whole container by others' CPUs, LaneCpus does nothing (traits().lanes). What is found is noted in a journal before the first
// change and given back by restore(), by remove() of one that lives, and at the next start after a kill -9: cpusets as they were requested, threads'
// masks thread by thread; one born meanwhile gets what its process's first thread had. A quota that throttles a container on CPUs of its own is
// raised only where prepareQuota() asks for it, and is given back with the rest. Kernel rules: as affinity_controller.h; a cpuset narrower than its
// parent's effective one is cut by the kernel, which observe() shows. O(threads) per change; observeAll() a small read or two for each container in a
// cgroup of its own. Thread rule: control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "linux/cgroup_quota.h"
#include "linux/foreign_journal.h"
#include "linux/foreign_memory.h"
#include "linux/memory_reader.h"
#include "linux/own_set.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

struct ForeignPlace {
  std::vector<int> processes;  // the first is the one that began it; empty: it has gone
  std::string cgroup;          // the container's own, as its path in a hierarchy; empty: none
};

enum class ForeignNodes : std::uint8_t { Follow, Keep };  // memory nodes: with the plan, or as they were found

class ForeignController final : public CpuController {
 public:
  using Find = std::function<ForeignPlace(InstanceId)>;
  // ancestors: the CPUs that containers may have at all. journal: path of the file; empty: none. Gives back at once what a journal of a dead run
  // says.
  ForeignController(CpuSet ancestors, Find find, std::string journal, ForeignNodes nodes = ForeignNodes::Follow);
  ~ForeignController() override;

  [[nodiscard]] const CpuControllerTraits& traits() const override { return traits_; }
  [[nodiscard]] Status add(const ContainerRegistration& container) override;
  void remove(InstanceId id) override;
  [[nodiscard]] Result<PreparedChange> prepare(const CpuChange& change) override;
  [[nodiscard]] Result<PreparedChange> prepareQuota(InstanceId id, MilliCpu least) override;
  [[nodiscard]] Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) override;
  [[nodiscard]] Result<ObservedContainer> observe(InstanceId id) const override;
  [[nodiscard]] std::map<InstanceId, ObservedContainer> observeAll(const std::vector<InstanceId>& ids) const override;
  [[nodiscard]] std::map<InstanceId, ObservedContainer> observePlaces(const std::vector<InstanceId>& ids) const override { return observeAll(ids); }
  [[nodiscard]] std::string limitAbove(InstanceId id, const CpuSet& cpus) const override;
  [[nodiscard]] ThreadUse threadUse(InstanceId id, int threadId) const override;
  [[nodiscard]] ContainerMemory memoryOf(InstanceId id) const override;
  [[nodiscard]] Status placeSystem(const CpuSet& cpus) override;
  void sweep() override;
  void restore() override;

  // "cgroup /sys/fs/cgroup/docker/..." or "affinity"; empty: not known. For people.
  [[nodiscard]] std::string heldBy(InstanceId id) const;

 private:
  struct OwnCpuset {
    OwnSet cpus;
    UniqueFd pressure;  // of memory; invalid: there is none
  };
  struct Container {
    Originals originals;                // at most one of each kind
    CpuSet leader;                      // mask of the first thread of the first process: for threads born later
    std::shared_ptr<OwnCpuset> own;     // null: by affinity
    UniqueFd first;                     // the first process, while that is the one it was added with
    std::shared_ptr<QuotaFiles> quota;  // null: it is as it was found
    CpuSet home, loans;                 // asked last
    CpuSet loansBefore;                 // the write of the last change of loans may be under way
    bool loansFresh{false};             // since the last sweep
    CpuSet lastSet, setBefore;          // that its threads were given last
    // Null: its memory nodes are not ours to set.
    std::shared_ptr<ForeignMemory> memory{};
    std::shared_ptr<ResidentMemory> resident{};
    [[nodiscard]] CpuSet wanted() const { return home | loans; }
  };
  [[nodiscard]] std::shared_ptr<OwnCpuset> openOwn(const ForeignPlace& place, Originals& originals) const;
  static bool noteThreads(Container& container, const std::vector<int>& processes);
  [[nodiscard]] PreparedChange change(InstanceId id, Container& container) const;
  [[nodiscard]] ObservedContainer look(InstanceId id, const Container& container, bool firstLives) const;
  [[nodiscard]] Status save() const;
  void giveBackContainer(InstanceId id, Container& container);
  void sayUnreturned() const;

  CpuControllerTraits traits_;
  CpuSet ancestors_;
  Find find_;
  std::string journal_;
  ForeignNodes nodes_;
  CpuSet system_;
  bool systemPlaced_{false};
  bool unsavedSaid_{false};
  Originals unreturned_;  // the kernel refused to take these back
  std::unique_ptr<SetsAbove> above_{std::make_unique<SetsAbove>()};
  std::map<InstanceId, Container> containers_;
};

}  // namespace coterie::linux
