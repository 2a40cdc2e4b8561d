// The only place where the control loop and the gateway's loop meet.
//
// Towards the reconcilers it is the GatewayPort and the AllocationPort, towards the DRC its listener, towards the backends their supervision. Calls
// cross as posted closures that carry values; load figures cross through ServiceLoad's atomics. Nothing here blocks, save snapshot(), which waits for
// one turn of the gateway's loop (the gateway never waits for the control loop, so this cannot lock up). O(1) plus what the called part costs. Thread
// rule: control loop, save channel::Supervision, which comes from the gateway's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/drc.h"
#include "channel/arena.h"
#include "channel/local_backend.h"
#include "controller/allocation_port.h"
#include "controller/gateway_port.h"
#include "controller/instance_reconciler.h"
#include "gateway/gateway.h"
#include "http/server.h"
#include "ports/clock.h"
#include "ports/event_log.h"
#include "process/process_runtime.h"
#include "serve/gateway_side.h"

namespace coterie::serve {

struct GatewayFigures {
  gateway::GatewaySnapshot gateway;
  http::ServerStats server;
};

// What the bridge wants of whoever runs the workers, on the control loop; see process::ProcessRuntime, which is who it is outside of tests.
struct WorkerSide {
  std::function<Status(const ServiceName&, int fd, std::uint64_t size)> setRequestArena;
  std::function<Result<channel::InstanceEndpoint>(InstanceId)> takeEndpoint;
  std::function<void(InstanceId, EndReason, const std::string& message)> violated;
  std::function<void(InstanceId, const std::string& silence)> heard;
};
[[nodiscard]] WorkerSide workerSide(process::ProcessRuntime& runtime);

class Bridge final : public controller::GatewayPort, public controller::AllocationPort, public agent::Drc::Listener, public channel::Supervision {
 public:
  Bridge(EventLoop& control, EventLoop& gatewayLoop, gateway::Gateway& gateway, WorkerSide workers, EventLog& events, channel::ArenaOptions arena);
  ~Bridge() override;

  // The parts that need the bridge themselves; before anything runs.
  void connect(agent::Drc& drc, controller::InstanceReconciler& reconciler) {
    drc_ = &drc;
    reconciler_ = &reconciler;
  }
  void connectServer(const http::Server* server) { server_ = server; }
  [[nodiscard]] agent::DemandSample sampleDemand(GroupId group) const;
  // Waits for the gateway's loop; empty figures if it does not answer within two seconds.
  [[nodiscard]] GatewayFigures figures() const;
  [[nodiscard]] std::optional<GroupId> groupOf(const ServiceName& service) const;

  // controller::GatewayPort
  void setTenant(const TenantName& tenant, const TenantSpec& spec) override;
  void removeTenant(const TenantName& tenant) override;
  void setService(const controller::GatewayService& service) override;
  void removeService(const ServiceName& service) override;
  void addInstance(const ServiceName& service, const std::string& version, InstanceId instance, const InstanceReady& ready) override;
  void drainInstance(InstanceId instance, std::function<void()> drained) override;
  void suspendInstance(InstanceId instance) override;
  void resumeInstance(InstanceId instance) override;
  void instanceGone(InstanceId instance) override;
  void instanceEndedFromOutside(InstanceId instance) override;

  // controller::AllocationPort
  [[nodiscard]] MilliCpu missingForFloor(const controller::ServiceGroup& group) const override;
  [[nodiscard]] allocation::IsolationTerms isolationTerms(Isolation level) const override;
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const controller::ServiceGroup& group) const override;
  void setGroup(const controller::ServiceGroup& group) override;
  void removeGroup(GroupId group) override;
  void instanceStarting(GroupId group, InstanceId instance, Bytes expected) override;
  void instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) override;
  void instanceEnded(GroupId group, InstanceId instance) override;
  [[nodiscard]] std::optional<controller::GroupLoad> loadOf(GroupId group) const override;

  // agent::Drc::Listener
  void lanesChanged(GroupId group, const std::vector<agent::LaneAllowance>& lanes) override;
  void pendingChanged(GroupId group, bool pending) override;

  // channel::Supervision, on the gateway's loop
  void misbehaved(InstanceId id, EndReason reason, const std::string& message) override;
  void silent(InstanceId id, const std::string& why) override;
  void answers(InstanceId id) override;

 private:
  struct Service {
    std::shared_ptr<channel::RequestArena> arena;
    std::shared_ptr<const gateway::ServiceLoad> load;  // written by the gateway's loop, read here: atomics only
    gateway::ServiceSettings settings;
  };
  [[nodiscard]] int nodesOf(const CpuSet& cpus) const;
  [[nodiscard]] agent::GroupSpec specOf(const controller::ServiceGroup& group) const;
  [[nodiscard]] TenantId tenantId(const TenantName& tenant) const;
  void publish(const ServiceName& name, const Service& service);
  void notePlaces(GroupId group, const std::vector<agent::LaneAllowance>& lanes);
  void noteMove(const ServiceName& service, InstanceId instance, const CpuSet& home);

  EventLoop& control_;
  EventLoop& gatewayLoop_;
  gateway::Gateway& gateway_;
  WorkerSide workers_;
  EventLog& events_;
  channel::ArenaOptions arena_;
  std::unique_ptr<GatewaySide> side_;  // used on the gateway's loop
  agent::Drc* drc_{nullptr};
  controller::InstanceReconciler* reconciler_{nullptr};
  const http::Server* server_{nullptr};
  std::map<ServiceName, Service> services_;
  std::map<GroupId, ServiceName> groups_;
  std::map<InstanceId, CpuSet> homes_;  // as last noted in the event log
  struct Allowance {
    ServiceName service;
    gateway::LaneAllowance lanes;
  };
  std::map<InstanceId, Allowance> allowances_;  // as last told; the gateway forgets them while an instance is suspended
  std::set<InstanceId> suspended_;
  mutable std::map<TenantName, TenantId> tenantIds_;
};

}  // namespace coterie::serve
