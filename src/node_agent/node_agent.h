// The resource controller under other people's model servers: finds their containers, says what it would do with the machine and what that would
// gain, and does it where it is told to.
//
// Every half second: scan -> foreign::discover -> Roster; what the members' threads used -> UseMeter; between scans containers are read as often as
// something happens there (container_watch.h): one that is throttled by a quota on CPUs of its own has it raised as far as it owns CPUs, one that
// waits is looked at for loans at once. Observing: where somebody came or went, or the
// machine changed, the plan is made anew (plan_node::planNode over what was planned before, so it is as steady as the real one); nothing is written.
// Enforcing: groups and containers are told to an agent::Drc, which plans, writes, repairs drift and reports conflicts as it does for our own
// workers; its lane counts are the thread hints: a container that loses CPUs is told first, one that gains is told when it has them. Containers of
// others have no lanes: what an idle group lends is a CPU set that grows, late, and shrinks soon (foreign/lending.h). A group whose floor does not
// fit any more keeps what it has, since its containers are not ours to end. Beside a kubelet that owns CPU sets (static policy) it only observes,
// from the moment on that this is seen, as long as it is so. Another configuration (reconfigure()) is applied as a difference, once no write is under
// way (waited for, a second at most): groups keep their numbers by name (group_book.h), who stays in a group keeps id, journal entry and, where the
// plan says so, CPUs; who is in none any more is given back as it was found; the mode may change, too. One that cannot be used, or put in force,
// changes nothing and is shown until the file is another. What is no fault of the file's text (another agent enforces here, the kubelet owns CPU
// sets) may pass: every ten seconds that is tried again, and said again only if the reason has become another. It never waits for who else would
// enforce here: it looks again when that port says, and goes on with its work in between. stop() gives everything back as it was found. Cost: a scan
// is what process_source.h says, plus O(threads of members) small reads. Errors of start(): those of MachineSource, InvalidArgument/NoSuchCpu for a
// file that names one. Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/drc.h"
#include "foreign/lending.h"
#include "foreign/roster.h"
#include "foreign/use_meter.h"
#include "node_agent/agent_file.h"
#include "node_agent/container_watch.h"
#include "node_agent/group_book.h"
#include "node_agent/hint_sender.h"
#include "node_agent/report.h"
#include "ports/cache_classes.h"
#include "ports/clock.h"
#include "ports/container_meter.h"
#include "ports/machine_source.h"
#include "ports/process_source.h"

namespace coterie::node_agent {

struct NodeAgentConfig {
  AgentFile file;
  int self{0};               // pid that is no member
  Millis scanInterval{500};  // so that who comes or goes is noticed within a second
  Seconds window{10};        // of the figures
};

inline constexpr const char* kKubeletOwns =
    "the kubelet's CPU manager has the static policy: it owns the CPU sets here, so this only observes for as long as that is so";

inline constexpr Seconds kTriesAgain{10};     // what could not be had for a reason that may pass
inline constexpr Seconds kWaitsForWrites{1};  // before something is given back

// "docker 3f2a9c0d1e4b", "process 812"
[[nodiscard]] std::string containerName(const foreign::FoundContainer& container);

class NodeAgent final : private agent::Drc::Listener {
 public:
  // What CPU sets are given with.
  struct Actuators {
    CpuController* controller{nullptr};
    agent::StepApplier* applier{nullptr};
    CacheClasses* cacheClasses{nullptr};
  };
  struct Ports {
    EventLoop& loop;
    ProcessSource& processes;
    MachineSource& machine;
    // To be the one that enforces on this machine, asked before it begins to while it runs; who starts enforcing is that already. nullopt: it is.
    // Else how long until this is to be asked again. An error: another agent enforces here. Without it nobody need be asked.
    std::function<Result<std::optional<Millis>>()> claimMachine = {};
    // As this file wants them, each time that enforcing begins, or goes on in another way; without it it only observes.
    std::function<Result<Actuators>(const AgentFile&)> openActuators = {};
    std::function<void()> closeActuators = {};  // everything has been given back, and the machine is not claimed any more
    std::function<bool(const std::string& kubeletState)> kubeletIsStatic = {};
    std::function<Status(const HintSpec&, const foreign::FoundContainer&, const ThreadHint&)> sendHint = {};
    std::function<std::string(InstanceId)> heldBy = {};
    std::function<std::string()> rivals = {};
    // Which set above the container's keeps these CPUs from it, a clause; empty: none. For what is foretold; who enforces knows it of its controller.
    std::function<std::string(const foreign::FoundContainer&, const CpuSet&)> limitAbove = {};
    ContainerMeter* meter{nullptr};  // without it use is known from threads alone, and throttling and pressure are not
  };

  NodeAgent(Ports ports, NodeAgentConfig config);
  ~NodeAgent() override;
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  [[nodiscard]] Status start();
  // From now on the configuration is to be this one. Two in a row: the later counts.
  void reconfigure(AgentFile file);
  // The file has become one that cannot be used, for these reasons: what was in force stays so.
  void refuseConfiguration(const std::vector<std::string>& faults);
  [[nodiscard]] const AgentFile& configuration() const { return book_.file(); }
  // Gives back CPU sets and hints, then calls done (within a second, whatever hangs).
  void stop(std::function<void()> done);
  // Who is there, or is just being given back, for controllers that ask where a container is; nullptr: nobody of that id.
  [[nodiscard]] const foreign::FoundContainer* member(InstanceId id) const;
  [[nodiscard]] Mode mode() const { return mode_; }
  [[nodiscard]] AgentReport report();
  // While enforcing: the controller's figures.
  [[nodiscard]] std::optional<agent::DrcView> controllerView() const { return drc_ ? std::optional(drc_->view()) : std::nullopt; }
  [[nodiscard]] std::vector<agent::GroupView> controllerGroups() const { return drc_ ? drc_->groups() : std::vector<agent::GroupView>{}; }
  // Counts whenever somebody came or went, the machine or the mode changed.
  [[nodiscard]] int changes() const { return changes_; }

 private:
  // What is planned for a group, whoever planned it.
  struct GroupPlan {
    MilliCpu entitlement;
    bool inPool{false};
    bool pending{false};
    Isolation waitsFor{Isolation::None};  // pending because this cannot be had
    std::vector<std::string> reasons;
    std::map<InstanceId, CpuSet> homes;
    std::map<InstanceId, CpuSet> held;  // where the kernel lets those run that were placed
    std::set<InstanceId> contested;
    std::map<InstanceId, std::string> limits;  // which set above keeps its home from it, a clause
    std::set<InstanceId> stuck;                // a write on them has not returned
    std::int64_t failedWrites{0};              // of the group, since it came
  };
  using Plans = std::map<std::size_t, GroupPlan>;  // by number (group_book.h)

  void lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) override;
  void pendingChanged(GroupId group, bool pending) override;

  [[nodiscard]] std::vector<int> processesOf(InstanceId id) const;
  void tick();
  bool scan();
  bool pollMachine();
  void measure();
  [[nodiscard]] bool updateMembers(const GroupBook& before);
  [[nodiscard]] bool kubeletOwns(const AgentFile& file) const { return ports_.kubeletIsStatic && ports_.kubeletIsStatic(file.kubeletState); }
  [[nodiscard]] Status beginEnforcing(const Actuators& actuators);
  void giveBackAll();
  void endEnforcing(const std::string& why);
  void observeBecause(const std::string& why);
  void watchKubelet();
  // node_agent_reload.cc
  [[nodiscard]] std::string notOfThisMachine(const AgentFile& file) const;
  void awaitReload(Instant until);
  void applyNext();
  void adoptNext(bool enforces, std::optional<Actuators> begins);
  void sayRefused(const std::vector<std::string>& faults, const std::string& what);
  void putOff(const std::string& reason);
  void tryAgain();
  void enforceAgain();
  [[nodiscard]] std::optional<Result<Actuators>> actuatorsFor(const AgentFile& file, std::function<void()> again);
  void giveUpClaim();
  void rehint();
  [[nodiscard]] bool quiet();
  void submit(PreparedChange change);
  // node_agent_watch.cc
  [[nodiscard]] std::string limitText(const ContainerReport& container) const;
  [[nodiscard]] std::string reservedText(const ContainerReport& container) const;
  void watchNow();
  void watchMembers(const foreign::Roster::Change& change);
  void measureContainer(InstanceId id, const foreign::FoundContainer& container, Instant now, Nanos span);
  [[nodiscard]] std::int64_t pressureOf(InstanceId id) const;
  void throttled(InstanceId id);
  void matchQuota(InstanceId id);
  [[nodiscard]] std::string throttleText(InstanceId id, const foreign::FoundContainer& container) const;
  [[nodiscard]] HintSeen hintSeen(InstanceId id, const foreign::Use& last) const;
  void addWatched(ContainerReport& report, const foreign::Use& last) const;
  // node_agent.cc
  void tellDrc(const foreign::Roster::Change& change);
  void tellReady(InstanceId id);
  void takeBack(InstanceId id, const foreign::FoundContainer& container);
  void withdrawHint(InstanceId id, bool lives);
  void awaitSettled(Instant until, std::function<void()> done);
  void hintFor(InstanceId id, const CpuSet& loans);
  void tell(InstanceId id, const ThreadHint& hint);
  void withdrawHints();
  // node_agent_loans.cc
  void lend();
  void setLoans(const std::map<InstanceId, CpuSet>& before, const std::map<InstanceId, CpuSet>& after);
  void setLoan(InstanceId id, const CpuSet& cpus);
  void parkLoans();
  // node_agent_isolation.cc
  void addIsolation(AgentReport& report, const Plans& plans);
  [[nodiscard]] std::vector<std::string> whoIntrudes(const GroupReport& group, const Plans& plans);
  [[nodiscard]] CpuSet reachOf(InstanceId id, const foreign::FoundContainer& container, const GroupPlan& plan);
  // node_agent_forecast.cc
  void addForecasts(AgentReport& report) const;
  [[nodiscard]] MilliCpu threadsElsewhere() const;
  [[nodiscard]] MilliCpu capacityOf(const CpuSet& cpus) const;
  [[nodiscard]] std::map<InstanceId, MilliCpu> partsOfPool(const AgentReport& report) const;
  [[nodiscard]] foreign::Placement placementOf(const GroupReport& group, const std::map<InstanceId, MilliCpu>& parts, MilliCpu elsewhere) const;
  // node_agent.cc
  void planObserved();
  [[nodiscard]] Plans plansInForce() const;
  void addReasons(GroupPlan& plan, std::size_t group, const std::vector<allocation::Reason>& reasons, GroupId id,
                  const std::function<std::size_t(GroupId)>& groupOf) const;
  [[nodiscard]] MilliCpu ownedBy(const GroupPlan& plan) const;
  [[nodiscard]] ContainerReport containerReport(InstanceId id, const foreign::FoundContainer& container, const GroupPlan& plan);
  [[nodiscard]] static int threadsFor(const GroupPlan& plan, const CpuSet& home);

  Ports ports_;
  NodeAgentConfig config_;
  GroupBook book_;                    // of the configuration in force
  std::optional<AgentFile> next_;     // to be in force soon
  std::optional<AgentFile> refused_;  // to be in force, and cannot yet, for a reason that may pass
  bool again_{false};                 // next_ was refused before
  bool claims_{false};                // the machine, and does not enforce yet
  Instant tryAt_{};                   // what could not be had is tried again
  std::optional<Instant> yieldBy_;    // the kubelet owns the CPU sets: no write is waited for beyond that
  ConfigReport configured_;
  Actuators actuators_;
  std::vector<std::shared_ptr<agent::ApplyBatch>> written_;  // by this, beside the controller's own; some may be under way
  TimerHandle reloadTimer_;
  Mode mode_{Mode::Observe};
  std::string why_;
  Machine machine_;
  MachineSets sets_;
  CpuSet reserved_;
  SeenProcesses lastScan_;
  std::set<int> owned_;  // processes of members
  foreign::Roster roster_;
  std::map<InstanceId, foreign::UseMeter> meters_;
  Nanos machineRunnable_{};  // threads of the machine that ran or waited, times time
  Instant lastLook_{};
  foreign::UseMeter machineMeter_;
  foreign::UseMeter usedMeter_;  // CPU time of the machine
  std::vector<std::string> remarks_;
  bool scanFailed_{false};
  int changes_{0};
  Plans observed_;  // the last plan while observing
  CpuSet pool_;     // its pool
  agent::MemoryHomeJournal homes_;
  std::unique_ptr<agent::Drc> drc_;
  foreign::Lending lending_;
  TimerHandle lendTimer_;
  std::optional<ContainerWatch> watch_;
  TimerHandle watchTimer_;
  // Of a container that was throttled.
  struct QuotaState {
    MilliCpu found;       // its quota as it was; 0: not known
    MilliCpu raised;      // to this; 0: it is not
    bool above{false};    // its own quota is not what throttles it
    bool refused{false};  // it cannot be written
    bool said{false};     // that it is raised: a period may end before the write is made
  };
  std::map<InstanceId, QuotaState> quotas_;
  std::map<InstanceId, int> lanes_;         // of its own CPUs, as the Drc said last
  std::map<InstanceId, ThreadHint> hints_;  // told last
  struct Told {
    foreign::FoundContainer container;
    HintSpec spec;
  };
  std::map<InstanceId, Told> told_;
  std::optional<std::pair<InstanceId, foreign::FoundContainer>> leaving_;  // as it still lives
  std::map<InstanceId, Instant> toldAt_;
  std::set<std::string> warned_;
  TimerHandle timer_;
};

}  // namespace coterie::node_agent
