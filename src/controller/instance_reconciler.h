// ModelServices: makes what runs match what is written, one small step at a time, and writes back what became of it.
//
// Each pass, services oldest first (so that a newcomer never displaces anybody):
//   admit   the namespace's tenant, its quota, the model's file and checksum, the CPU floor, memory
//   plan    service_plan.h: start, let serve, drain
//   do      through ContainerRuntime, GatewayPort, AllocationPort
//   report  status {conditions, observedGeneration, desiredInstances, readyInstances, instances}, an entry of the event log for each turn
// What is refused says why in a condition and touches nobody else: Allocated=False/InsufficientCpu, IsolationImpossible,
// QuotaExceeded;
// ModelLoaded=False/InsufficientMemory (naming the missing bytes, before loading), ChecksumMismatch, ModelNotFound, LoadFailed, ...;
// Ready=False/CrashLoopBackOff with the last end. A changed model is loaded beside the old one, which serves until the switch; one that does not fit
// or load leaves the old one serving. A raised floor or isolation that does not fit leaves what was granted before in force; a changed isolation
// restarts nothing. Ready=True: as many instances serve as the spec demands (instances, else minInstances): Serving, RollingOut (what was changed is
// being loaded), PartlyServing (automation wants more) or ServingOldSpec (what was changed is refused; instances of the old spec that end are not
// started again). Fewer: False/PartlyServing. A quota lowered below what is used takes nothing away: nobody of that tenant gets more instances than
// it had, crashed ones come back (QuotaExceeded says so; the tenant's own condition is the TenantReconciler's). A file that was replaced under the
// same spec is taken when it is next looked at (a changed spec, a crash, a start of the program): as another version, rolled out like a changed spec
// and said (event ModelChanged), never beside the old one for good. An instance that is silent stays and counts as not ready (Ready: reason
// Unresponsive, or PartlyServing that names it) until it answers or is ended. Restarts: back-off per service (backoff.h). At the start, nothing is
// started before every service's file was looked at (10 s at most), so that the allocator hears of all instances in one turn and gives them the homes
// they had. spec.instances is the user's word; else proposeInstances() and the width of runs decide within minInstances..maxInstances. Width: where a
// service has an objective that runs by one thread do not meet, its model's run times by more threads are measured, by a worker that serves nobody,
// while nothing waits anywhere and the service has no request; then allocation/width.h chooses, and a change is a roll-out: an instance of the other
// width is loaded beside the old one, has no CPUs of its own before it is ready, and takes over. Where it pays, all instances of such a service run
// over one copy of the weights (weight_sharing.cc). This is the sole writer of status.desiredInstances. Complexity: a pass is O(services log services
// + instances). Errors of the store are logged and tried again in 5 s. Thread rule: control loop; no call from inside a port's callback re-enters a
// pass: passes run on turns of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocation/width.h"
#include "base/cpu_set.h"
#include "base/result.h"
#include "controller/allocation_port.h"
#include "controller/gateway_port.h"
#include "controller/measurements.h"
#include "controller/object_follower.h"
#include "controller/service_plan.h"
#include "controller/service_record.h"
#include "controller/tenants.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "ports/event_log.h"
#include "ports/model_files.h"
#include "ports/object_store.h"
#include "tenancy/quota.h"

namespace coterie::controller {

struct InstanceReconcilerConfig {
  std::function<std::string(const TenantName&)> modelRoot;     // absolute folder; required
  std::function<std::uint32_t(const TenantName&)> tenantUser;  // uid of its workers; empty: all run as we do
  Bytes machineMemory;                                         // that may be given out, Coterie's own included; required
  Bytes systemMemory{256LL << 20};                             // of it, for Coterie itself
  int machineCpus{1};                                          // lanes of a service without maxCpus
  bool loanLanes{true};
  Bytes laneArena{8LL << 20};  // what one lane may add to an instance's memory
  Seconds startBarrier{10};
  Seconds drainTimeout{30};  // then it is stopped with what it has
  Millis stopGrace{5000};
  Seconds resync{5};         // while something is refused or could not be written
  Seconds inspectAgain{15};  // a file that was missing or wrong
  std::string machineShape;  // run times are remembered with it
  bool widths{true};         // the width of runs follows objectives
  Millis widthLook{200};     // how often the load of a service whose width may change is looked at
  Seconds widthWindow{10};   // over which the looks are judged
  Millis quietBefore{1000};  // so long without a request, before run times are measured
  Millis measureTime{5000};  // for all widths of a model
  Seconds measureAgain{60};  // after a failure
  bool shareWeights{true};   // of a model whose widths are measured, where runs over shared weights are worth it
};

struct InstanceSummary {
  InstanceId id;
  InstanceState state{InstanceState::Starting};
  int progress{0};
  int pid{0};
  Bytes memoryLimit;
  WallTime started;
};
struct WidthSummary {
  int inForce{1};                                     // threads of one run of an instance that is started now
  std::vector<allocation::RunTime> curve;             // as far as measured
  std::optional<allocation::WidthQuestion> question;  // the last window's load on the CPUs of now; none: nothing was seen, or it may have one CPU
  std::optional<allocation::WidthChoice> choice;      // the proposal
  std::string held;                                   // why the proposal is not followed; empty: it is
  Bytes shared;                                       // weights that its instances have in memory once; 0: each has a copy
};
struct ServiceSummary {
  ServiceName name;
  GroupId group;
  TenantName tenant;  // empty: nobody owns the namespace
  ModelServiceSpec spec;
  int desired{0};
  int serving{0};
  int restarts{0};
  Bytes measuredMemory;  // limit of one instance; 0: never loaded
  std::vector<Obstacle> obstacles;
  std::vector<Condition> conditions;
  std::vector<InstanceSummary> instances;
  WidthSummary width;
};

class InstanceReconciler final : public ContainerRuntime::Listener {
 public:
  struct Ports {
    EventLoop& loop;
    ObjectStore& store;
    EventLog& events;
    ContainerRuntime& runtime;
    ModelFiles& files;
    GatewayPort& gateway;
    AllocationPort& allocation;
  };
  // directory: the tenants' as it is at any time.
  InstanceReconciler(Ports ports, InstanceReconcilerConfig config, std::function<const TenantDirectory&()> directory);
  ~InstanceReconciler() override;

  [[nodiscard]] Status start();
  void tenantsChanged() { pass_.trigger(); }
  // CPUs, quotas or the machine changed: what waits may fit now.
  void lookAgain() { pass_.trigger(); }

  // Where a tenant uses more than its quota, as of the last pass; and who hears that this changed.
  [[nodiscard]] std::vector<tenancy::QuotaExcess> excessOf(const TenantName& tenant) const;
  void onExcess(std::function<void()> changed) { excessChanged_ = std::move(changed); }

  // From the dynamic resource controller.
  void proposeInstances(const ServiceName& service, int instances);
  void placed(GroupId group, InstanceId instance, const CpuSet& home, const CpuSet& loans);
  void floorLost(GroupId group);  // CPUs went away and this group's floor no longer fits

  // An end of the program: nothing is started any more, everything is drained; allStopped() then.
  void shutDown(std::function<void()> allStopped);

  [[nodiscard]] std::vector<ServiceSummary> summaries() const;  // ascending name
  [[nodiscard]] std::optional<ServiceSummary> summary(const ServiceName& name) const;

  void instanceProgress(InstanceId id, int percent) override;
  void instanceReady(InstanceId id, const InstanceReady& ready) override;
  void instanceEnded(InstanceId id, const InstanceEnd& end) override;
  void instanceSilent(InstanceId id, const std::string& why) override;
  void instanceAnswers(InstanceId id) override;

 private:
  using Records = std::map<ServiceName, ServiceRecord>;
  struct Room {
    Bytes machine;
    Bytes quota;
  };
  enum class Verdict : std::uint8_t { Run, Hold, None };  // start and keep; keep but start nothing; end all

  // instance_reconciler.cc: the pass
  void reconcile();
  bool readStore();
  void take(const StoredObject& object);
  void reconcileService(ServiceRecord& record);
  [[nodiscard]] Verdict admit(ServiceRecord& record);
  void execute(ServiceRecord& record, const ServiceSteps& steps);
  void forgetGone();
  void armTimer();
  [[nodiscard]] std::vector<ServiceRecord*> oldestFirst();

  // admission.cc
  [[nodiscard]] bool admitQuota(ServiceRecord& record, const TenantView& tenant);
  [[nodiscard]] std::vector<tenancy::QuotaExcess> excessNow(const TenantView& tenant) const;
  [[nodiscard]] bool holdGrowth(ServiceRecord& record, const TenantView& tenant);
  void noteExcess();
  [[nodiscard]] bool admitFloor(ServiceRecord& record, const TenantView& tenant);
  [[nodiscard]] bool admitMemory(ServiceRecord& record, const TenantView& tenant);
  static void noteMissingMemory(ServiceRecord& record, const ServiceSteps& steps);
  [[nodiscard]] Room roomFor(const ServiceRecord& self, const TenantView* tenant) const;
  [[nodiscard]] ServiceGroup groupOf(const ServiceRecord& record, const TenantView& tenant, const CpuClaim& claim) const;
  [[nodiscard]] int unitCpus(Isolation isolation) const;  // 0: it is not isolated
  void refuseClaim(ServiceRecord& record, const TenantView& tenant, const CpuClaim& wanted, MilliCpu missing);
  [[nodiscard]] std::string shortageText(const ServiceRecord& record, const allocation::UnitShortage& shortage) const;
  [[nodiscard]] int mostCpusOf(const ServiceRecord& record) const;
  [[nodiscard]] int ownLanesOf(const ServiceRecord& record) const;
  [[nodiscard]] int lanesOf(const ServiceRecord& record) const { return ownLanesOf(record) * (config_.loanLanes ? 2 : 1); }
  // self: its reserve is not counted.
  [[nodiscard]] Bytes memoryInUse(const std::optional<TenantName>& tenant, const ServiceRecord* self = nullptr) const;
  static void trimReserve(ServiceRecord& record);
  void lowerBarrier();

  // model_admission.cc
  [[nodiscard]] bool admitFile(ServiceRecord& record, const TenantView& tenant);
  void inspect(ServiceRecord& record, const std::string& root, Bytes largest);
  static void lookAgainAt(ServiceRecord& record);
  void noteChangedFile(ServiceRecord& record, const ModelFile& file);
  [[nodiscard]] bool mayBeRepaired(const ServiceRecord& record) const;
  [[nodiscard]] std::string versionOf(const ServiceRecord& record, const ModelFile& file) const;

  // instance_actions.cc
  [[nodiscard]] InstanceSpec specOf(const ServiceRecord& record) const;
  void startInstance(ServiceRecord& record);
  void serve(ServiceRecord& record, InstanceRecord& instance);
  void endInstance(ServiceRecord& record, InstanceRecord& instance);
  void stopInstance(InstanceRecord& instance);
  void noteFailure(ServiceRecord& record, const InstanceRecord& instance, const InstanceEnd& end);
  [[nodiscard]] std::pair<ServiceRecord*, InstanceRecord*> find(InstanceId id);

  // width_actions.cc
  void followModel(ServiceRecord& record);
  void armWidthLook();
  void lookAtWidths();
  void lookAtWidth(ServiceRecord& record, const GroupLoad& load);
  [[nodiscard]] bool mayWiden(const ServiceRecord& record) const;
  [[nodiscard]] std::optional<allocation::WidthQuestion> widthQuestionNow(const ServiceRecord& record) const;
  [[nodiscard]] allocation::WidthQuestion questionOf(const ServiceRecord& record, const GroupLoad& load) const;
  void closeWindow(ServiceRecord& record, const GroupLoad& load);
  void setWidth(ServiceRecord& record, int width, const std::string& why);
  [[nodiscard]] std::string circumstancesOf(const ServiceRecord& record) const;
  [[nodiscard]] bool wantsCurve(const ServiceRecord& record, const GroupLoad& load) const;
  void startMeasuring(ServiceRecord& record, bool curveWanted);
  void endMeasuring();
  void takeRunTimes(ServiceRecord& record, std::vector<allocation::RunTime> runs, bool inPlace);
  [[nodiscard]] bool measuringReady(InstanceId id, const InstanceReady& ready);
  [[nodiscard]] bool measuringEnded(InstanceId id, const InstanceEnd& end);

  // weight_sharing.cc
  [[nodiscard]] static Bytes preparingLimit(const ServiceRecord& record);
  [[nodiscard]] bool wantsPrepared(const ServiceRecord& record, const GroupLoad& load) const;
  void takePrepared(ServiceRecord& record, std::shared_ptr<const PreparedModel> prepared);
  void distrustPrepared(ServiceRecord& record, const InstanceRecord& failed);
  [[nodiscard]] static std::string measuredAs(const ServiceRecord& record, const std::string& sha256);
  [[nodiscard]] std::optional<Measurement> measurementOf(const ServiceRecord& record, const std::string& sha256) const;
  [[nodiscard]] static Bytes preparedMemory(const ServiceRecord& record, const std::optional<TenantName>& tenant);

  // service_status.cc
  void tellGateway(ServiceRecord& record);
  void writeStatus(ServiceRecord& record);
  void setConditions(ServiceRecord& record);
  void note(const ServiceRecord& record, std::string reason, std::string message, Value fields = {});
  [[nodiscard]] static Value statusOf(const ServiceRecord& record);
  [[nodiscard]] ServiceSummary summaryOf(const ServiceName& name, const ServiceRecord& record) const;

  Ports ports_;
  InstanceReconcilerConfig config_;
  std::function<const TenantDirectory&()> directory_;
  Coalesced pass_;
  ObjectFollower follower_;
  Measurements measurements_;
  Records records_;
  std::int32_t lastGroup_{-1};
  std::int32_t lastInstance_{0};
  bool barrierPassed_{false};
  Instant barrierUntil_{};
  bool readFailed_{false};   // in the last pass: not all services are known
  bool writeFailed_{false};  // in the last pass: a status is to be written again
  bool writeFaultTold_{false};
  bool shuttingDown_{false};
  std::function<void()> allStopped_;
  std::map<TenantName, std::vector<tenancy::QuotaExcess>> excess_;  // tenants within their quota have none
  std::function<void()> excessChanged_;
  TimerHandle timer_;
  // A worker that times a model's widths, makes its prepared form, and serves nobody; one at a time.
  struct Measuring {
    InstanceId id;
    ServiceName service;
    TenantName tenant;
    std::string sha256;
    std::string circumstances;
    std::string version;  // of the service, when it was started
    Bytes limit;
    bool curveWanted{true};  // else only the form
    bool givenUp{false};     // nothing it says counts any more
    bool ended{false};       // it has said what it could
  };
  std::optional<Measuring> measuring_;
  TimerHandle widthTimer_;
  bool widthLookArmed_{false};
  std::shared_ptr<bool> alive_{std::make_shared<bool>(true)};  // shared with callbacks of ports, which may outlive this
};

}  // namespace coterie::controller
