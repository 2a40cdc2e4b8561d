// Which CPUs and memory nodes running containers may use: how the agent's plans reach the kernel.
//
// A container is a worker process with two leaves: `home` (own lanes and service threads; CPU set = the container's home) and `loans` (loan lanes, in
// the kernel's idle class; CPU set = CPUs of others that it may use while they idle). The control loop prepares a change here and hands the finished
// writes to the applier (src/agent), which executes them (linux/execute_write.h) without planning, allocating or locking; afterwards the control loop
// reads back with observe(): what counts is what the kernel says, never what was asked. Kernel rules that every adapter keeps: no set is ever empty
// (cgroup v1 refuses it, v2 takes it for "inherit", which would cover everyone's CPUs: prepare() answers InvalidArgument/EmptySet); a set outside the
// ancestors' is refused; a container is placed (its threads moved) by its first Home change, until then it floats where it was started and observe()
// shows an empty home; a process that has gone is a value (`vanished`), not an error. LaneCpus narrows the own lanes' threads within the home: a home
// of several CPUs that one container owns alone needs no balancing, and the kernel, left to itself, wakes an added lane on its sibling's CPU and may
// leave it there for 100 ms (measured). Lanes keep their CPU where it stays in the set; lanes beyond the CPUs float. Cost: prepare and observe
// O(threads of the container) at most. Adapters: src/linux (AffinityController, CgroupV1Controller), src/testing (FakeCpuController); one contract
// suite, cpu_controller_contract.h. Thread rule: control loop only. PreparedChange may be executed on another thread, while its controller lives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "base/units.h"
#include "model/ids.h"

namespace coterie {

struct CpuControllerTraits {
  std::string name;                  // "affinity", "cgroup-v1"
  bool memoryNodes{false};           // memory nodes are enforced
  bool weights{false};               // weights are enforced
  bool idleLoans{false};             // loan lanes yield to any owner at the level where the kernel compares groups
  bool holdsHostileWorkers{false};   // a worker cannot widen its own set
  bool lanes{true};                  // false: containers are not ours and have none; LoanCpus widens the whole container, LaneCpus does nothing
  std::vector<std::string> caveats;  // sentences for `explain` and the log, said once: what is not enforced and what to do about it
};

struct ContainerRegistration {
  InstanceId id;
  int pid{0};
  std::vector<int> ownLaneThreads;  // thread ids
  std::vector<int> loanLaneThreads;
  std::vector<int> serviceThreads;
};

enum class CpuChangeKind : std::uint8_t {
  AncestorCpus,  // the set above all containers
  HomeCpus,      // places the container if it is not placed yet
  LaneCpus,      // own lanes one by one: each on a CPU of its own of the set (the home); an empty set lets them float over the home again
  LoanCpus,      // an empty set parks the loan lanes on the container's own home
  MemoryNodes,   // of both leaves
  Weight,        // of the home leaf; 100 is an ordinary container's
};

struct CpuChange {
  CpuChangeKind kind{CpuChangeKind::HomeCpus};
  InstanceId container;    // invalid for AncestorCpus
  CpuSet set;              // CPUs or memory nodes
  std::int64_t weight{0};  // Weight: 1..10000
};

// One system call, ready to be made.
struct PreparedWrite {
  enum class Kind : std::uint8_t { File, Affinity, Call };
  Kind kind{Kind::File};
  int target{-1};                                                   // File: descriptor, held open by the change; Affinity: thread id
  std::string payload;                                              // File: the bytes; Affinity: the kernel's mask (words of 64 bits)
  int (*call)(void* context, const PreparedWrite& write){nullptr};  // Call (fakes): answers an errno, 0 for success
  void* context{nullptr};
};

struct PreparedChange {
  std::vector<PreparedWrite> writes;        // in order; the first failure ends the change. Empty: nothing to do.
  std::shared_ptr<const void> descriptors;  // keeps the targets open even if the container is removed meanwhile
};

struct ObservedContainer {
  CpuSet home;         // requested; empty: not placed yet
  CpuSet effective;    // what the kernel grants of it
  CpuSet memoryNodes;  // empty: not enforced, or not written yet
  CpuSet loans;        // of the loan lanes; the home where they are parked
  std::int64_t weight{100};
  bool uniform{true};    // false: some thread sits elsewhere (a thread born during a change, or somebody moved it): write again
  bool vanished{false};  // the process has gone
  // False: of this container memory nodes are not set, although the adapter can; MemoryNodes does nothing.
  bool memoryHeld{true};
  friend bool operator==(const ObservedContainer&, const ObservedContainer&) = default;
};

struct ThreadUse {
  Nanos cpu{};           // run so far
  bool runnable{false};  // wants a CPU now (running or waiting for one)
  bool vanished{false};
};

// What a container has of the machine's memory, and whether it waits for more.
struct ContainerMemory {
  Bytes resident;               // of all its processes together; 0: it has gone
  std::optional<int> pressure;  // PSI "some", ten-second average, permille; nothing: the kernel does not say it of this container alone
};

enum class LanePlace : std::uint8_t { Home, Loans };

class CpuController {
 public:
  virtual ~CpuController() = default;
  [[nodiscard]] virtual const CpuControllerTraits& traits() const = 0;
  // Conflict/AlreadyRegistered; NotFound/ProcessGone. Makes the leaves, moves nothing.
  [[nodiscard]] virtual Status add(const ContainerRegistration& container) = 0;
  // After its process ended. Unknown: ok. Leaves that the kernel still holds are removed by a later sweep().
  virtual void remove(InstanceId id) = 0;
  // InvalidArgument/EmptySet, InvalidArgument/OutsideMachine, NotFound/UnknownContainer.
  [[nodiscard]] virtual Result<PreparedChange> prepare(const CpuChange& change) = 0;
  // The container's CPU quota is to be no less than `least`, nor less than it was found with: raised, or taken back as far. Nothing to do: no writes.
  // NotFound/UnknownContainer; Unavailable/NoQuota. Containers of our own have none.
  [[nodiscard]] virtual Result<PreparedChange> prepareQuota(InstanceId /*id*/, MilliCpu /*least*/) { return PreparedChange{}; }
  // Moves one loan lane to its own group's CPUs and ordinary class, or back.
  [[nodiscard]] virtual Result<PreparedChange> prepareLaneMove(InstanceId id, int loanLane, LanePlace place) = 0;
  [[nodiscard]] virtual Result<ObservedContainer> observe(InstanceId id) const = 0;
  // Each of them as observe() has it, without those that are unknown; for who looks at all: what they have in common is read once.
  [[nodiscard]] virtual std::map<InstanceId, ObservedContainer> observeAll(const std::vector<InstanceId>& ids) const {
    std::map<InstanceId, ObservedContainer> all;
    for (const InstanceId id : ids) {
      if (auto seen = observe(id)) all.emplace(id, *std::move(seen));
    }
    return all;
  }
  // The same for who has looked at everything within the last second: before a plan, and after its writes. Where the CPUs are is looked at; the
  // weight and the memory nodes may be those of the look before, if that found what was asked last.
  [[nodiscard]] virtual Result<ObservedContainer> observePlace(InstanceId id) const { return observe(id); }
  [[nodiscard]] virtual std::map<InstanceId, ObservedContainer> observePlaces(const std::vector<InstanceId>& ids) const {
    std::map<InstanceId, ObservedContainer> all;
    for (const InstanceId id : ids) {
      if (auto seen = observePlace(id)) all.emplace_hint(all.end(), id, *std::move(seen));
    }
    return all;
  }
  // What sets above the container's keep these CPUs from it whatever is written, by name and with what they allow: a clause for people. Empty: none
  // is known. For who was refused, or finds less in force than was written.
  [[nodiscard]] virtual std::string limitAbove(InstanceId /*id*/, const CpuSet& /*cpus*/) const { return {}; }
  [[nodiscard]] virtual ThreadUse threadUse(InstanceId id, int threadId) const = 0;
  // Of that, the CPU time alone, 0 if it has gone: asked of every lane each second, so as cheap as an adapter can.
  [[nodiscard]] virtual Nanos cpuTime(InstanceId id, int threadId) const { return threadUse(id, threadId).cpu; }
  // A few small reads: for every few seconds.
  [[nodiscard]] virtual ContainerMemory memoryOf(InstanceId id) const = 0;
  // Puts Coterie's own process (gateway, agent, store) on these CPUs.
  [[nodiscard]] virtual Status placeSystem(const CpuSet& cpus) = 0;
  // Removes what the kernel did not release earlier; cheap when there is nothing.
  virtual void sweep() = 0;
  // Gives back what was there before: containers and the own process to where they were started, own leaves removed.
  virtual void restore() = 0;
};

}  // namespace coterie
