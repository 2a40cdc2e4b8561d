// One machine under the dynamic resource controller, without HTTP and store: the product's own parts wired as `coterie serve` wires them
// (process::ProcessRuntime, channel::LocalBackend, agent::Drc, linux controllers), with a load per service.
//
// Service i is tenant i and group i. Thread rule: the loop's thread, callbacks included. Errors: those of the parts; what goes wrong later is told
// through Events::failed, once per fault.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/drc.h"
#include "agent/home_journal.h"
#include "agent/realtime_applier.h"
#include "channel/local_backend.h"
#include "closed_loop.h"
#include "linux/live_machine.h"
#include "ports/clock.h"
#include "process/process_runtime.h"

namespace coterie::in_node {

// How one service is run: containers, threads of a run, lanes.
struct Form {
  int containers{1};
  int width{1};
  bool spin{false};
  int ownLanes{1};
  int loanLanes{0};
};

class BenchNode final : private ContainerRuntime::Listener, private agent::Drc::Listener, public channel::Supervision {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void serviceReady(std::size_t service) = 0;  // all its containers answer
    virtual void failed(const std::string& message) = 0;
  };
  struct Options {
    std::string program;  // the first word of a worker's command line
    allocation::Config allocation;
  };

  // `inner` carries processes and applies; `loop` carries requests and plans and may keep a clock of its own.
  BenchNode(EventLoop& inner, EventLoop& loop, Events& events) : inner_(inner), loop_(loop), events_(events) {}
  BenchNode(const BenchNode&) = delete;
  BenchNode& operator=(const BenchNode&) = delete;

  Status start(const Options& options, std::size_t services);
  Status startService(std::size_t service, const std::string& model, const Form& form);
  // Shapes that are not given and the first estimate of a run are filled in from the service's signature and probe.
  void beginLoad(std::size_t service, ServiceCounters& counters, ClosedLoopOptions options, std::function<void()> finished);
  // Its load must have been let run dry. Its CPUs are free once its processes have ended.
  void stopService(std::size_t service);

  [[nodiscard]] int cpus() const { return cpus_; }
  [[nodiscard]] agent::Drc& drc() { return *drc_; }
  [[nodiscard]] ClosedLoop& load(std::size_t service) { return *services_[service].load; }
  [[nodiscard]] const InstanceReady& firstReady(std::size_t service) const { return services_[service].firstReady; }
  [[nodiscard]] std::string actuator() const { return drc_->view().controller + ", applier " + applier_->policyText(); }
  [[nodiscard]] static agent::GroupSpec groupSpec(std::size_t service);
  [[nodiscard]] static InstanceId instanceOf(std::size_t service, int container) {
    return InstanceId(static_cast<std::int32_t>(service) * kInstancesPerService + container);
  }

 private:
  struct Service {
    Form form;
    std::shared_ptr<channel::RequestArena> arena;
    std::unique_ptr<channel::LocalBackend> backend;
    std::unique_ptr<ClosedLoop> load;
    InstanceReady firstReady;
    int ready{0};
    bool stopping{false};
    std::vector<agent::LaneAllowance> lanes;
  };
  static constexpr int kInstancesPerService = 64;

  void instanceProgress(InstanceId, int) override {}
  void instanceReady(InstanceId id, const InstanceReady& ready) override;
  void instanceEnded(InstanceId id, const InstanceEnd& end) override;
  void lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) override;
  void pendingChanged(GroupId, bool) override {}
  void misbehaved(InstanceId, EndReason, const std::string& message) override { events_.failed("a worker misbehaved: " + message); }
  [[nodiscard]] agent::DemandSample demandOf(GroupId group) const;
  [[nodiscard]] static std::size_t serviceOf(InstanceId id) { return static_cast<std::size_t>(id.value / kInstancesPerService); }

  EventLoop& inner_;
  EventLoop& loop_;
  Events& events_;
  int cpus_{1};
  linux::LiveMachine machine_;
  std::unique_ptr<CpuController> controller_;
  std::unique_ptr<agent::RealtimeApplier> applier_;
  agent::MemoryHomeJournal journal_;
  std::unique_ptr<agent::Drc> drc_;
  std::unique_ptr<process::ProcessRuntime> runtime_;
  std::vector<Service> services_;
};

// ONNX Runtime: $COTERIE_ORT, else where ./dev setup puts it.
[[nodiscard]] std::string runtimeLibrary();

// The generated models, made once below build/bench/models (or $COTERIE_BENCH_MODELS).
[[nodiscard]] std::string modelPath(const std::string& model);
[[nodiscard]] Status makeModels(const std::vector<std::string>& models);

// A bench that starts workers is also their program.
[[nodiscard]] bool isWorkerCall(int argc, char** argv);
int workerCall(int argc, char** argv);

}  // namespace coterie::in_node
