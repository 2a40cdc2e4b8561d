// Listens to what the reconcilers tell gateway and allocator, and keeps the log book by it: whose instance is whose, which has ended, what is
// deleted.
//
// Every word goes on, unchanged and in the same turn, to the port that it is meant for. The one sign of a service's end is removeService(): its group
// ends also when it is merely stopped, and then its lines are still worth reading. O(log groups + log instances) beside what the port costs. Errors:
// none. Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "controller/allocation_port.h"
#include "controller/gateway_port.h"
#include "ports/clock.h"
#include "serve/log_book.h"

namespace coterie::serve {

class LogKeeper final : public controller::GatewayPort, public controller::AllocationPort {
 public:
  LogKeeper(LogBook& book, const Clock& clock, controller::GatewayPort& gateway, controller::AllocationPort& allocation)
      : book_(book), clock_(clock), gateway_(gateway), allocation_(allocation) {}

  // controller::GatewayPort
  void setTenant(const TenantName& tenant, const TenantSpec& spec) override { gateway_.setTenant(tenant, spec); }
  void removeTenant(const TenantName& tenant) override { gateway_.removeTenant(tenant); }
  void setService(const controller::GatewayService& service) override { gateway_.setService(service); }
  void removeService(const ServiceName& service) override {
    book_.forget(service);
    gateway_.removeService(service);
  }
  void addInstance(const ServiceName& service, const std::string& version, InstanceId instance, const InstanceReady& ready) override {
    gateway_.addInstance(service, version, instance, ready);
  }
  void drainInstance(InstanceId instance, std::function<void()> drained) override { gateway_.drainInstance(instance, std::move(drained)); }
  void suspendInstance(InstanceId instance) override { gateway_.suspendInstance(instance); }
  void resumeInstance(InstanceId instance) override { gateway_.resumeInstance(instance); }
  void instanceGone(InstanceId instance) override {
    book_.ended(instance, clock_.wall());
    gateway_.instanceGone(instance);
  }

  // controller::AllocationPort
  [[nodiscard]] MilliCpu missingForFloor(const controller::ServiceGroup& group) const override { return allocation_.missingForFloor(group); }
  [[nodiscard]] allocation::IsolationTerms isolationTerms(Isolation level) const override { return allocation_.isolationTerms(level); }
  [[nodiscard]] std::optional<allocation::UnitShortage> unitShortage(const controller::ServiceGroup& group) const override {
    return allocation_.unitShortage(group);
  }
  void setGroup(const controller::ServiceGroup& group) override {
    groups_[group.id] = group.service;
    allocation_.setGroup(group);
  }
  void removeGroup(GroupId group) override {
    groups_.erase(group);
    allocation_.removeGroup(group);
  }
  void instanceStarting(GroupId group, InstanceId instance, Bytes expected) override {
    if (const auto found = groups_.find(group); found != groups_.end()) book_.started(instance, found->second);
    allocation_.instanceStarting(group, instance, expected);
  }
  void instanceReady(GroupId group, InstanceId instance, const InstanceReady& ready) override { allocation_.instanceReady(group, instance, ready); }
  void instanceEnded(GroupId group, InstanceId instance) override { allocation_.instanceEnded(group, instance); }
  [[nodiscard]] std::optional<controller::GroupLoad> loadOf(GroupId group) const override { return allocation_.loadOf(group); }

 private:
  LogBook& book_;
  const Clock& clock_;
  controller::GatewayPort& gateway_;
  controller::AllocationPort& allocation_;
  std::map<GroupId, ServiceName> groups_;
};

}  // namespace coterie::serve
