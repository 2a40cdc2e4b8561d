// What an administrator may ask of a running `coterie serve`, answered from its parts. Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "admin/admin_backend.h"
#include "agent/drc.h"
#include "controller/instance_reconciler.h"
#include "identity/key_store.h"
#include "ports/clock.h"
#include "ports/container_runtime.h"
#include "ports/event_log.h"
#include "serve/bridge.h"
#include "serve/log_book.h"

namespace coterie::serve {

class AdminService final : public admin::AdminBackend {
 public:
  struct Parts {
    EventLoop& loop;
    agent::Drc& drc;
    controller::InstanceReconciler& reconciler;
    const Bridge& bridge;
    identity::KeyStore& keys;
    const ContainerRuntime& runtime;
    const LogBook& logs;
    std::function<std::string(const std::optional<TenantName>&)> metrics;
  };
  AdminService(Parts parts, admin::VersionInfo version) : parts_(std::move(parts)), version_(std::move(version)) { tick(); }

  [[nodiscard]] admin::VersionInfo version() const override { return version_; }
  [[nodiscard]] Result<admin::Explanation> explain(const ServiceName& service, const std::optional<TenantName>& eyes) const override;
  [[nodiscard]] Result<std::vector<admin::InstanceInfo>> instances(const ServiceName& service) const override;
  [[nodiscard]] admin::TopReport top() const override;
  [[nodiscard]] std::vector<admin::LimitLine> limits() const override;
  [[nodiscard]] std::string metrics(const std::optional<TenantName>& tenant) const override { return parts_.metrics(tenant); }
  [[nodiscard]] Result<admin::LogPage> logs(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const override;
  [[nodiscard]] admin::DrcMode drc() const override { return parts_.drc.view().frozen ? admin::DrcMode::Off : admin::DrcMode::On; }
  [[nodiscard]] Status setDrc(admin::DrcMode mode) override;
  [[nodiscard]] Result<identity::NewKey> createKey(const TenantName& tenant, Role role, const std::string& label,
                                                   std::optional<Seconds> lifetime) override;
  [[nodiscard]] std::vector<identity::KeyInfo> listKeys(const std::optional<TenantName>& tenant) const override { return parts_.keys.list(tenant); }
  [[nodiscard]] Result<identity::NewKey> rotateKey(const std::string& id, Seconds overlap) override;
  [[nodiscard]] Status revokeKey(const std::string& id) override;
  [[nodiscard]] Result<identity::Identity> authenticate(std::string_view key) const override;
  [[nodiscard]] bool stillValid(const identity::Identity& identity) const override;
  [[nodiscard]] Status revokeAllKeys(const TenantName& tenant) override;
  [[nodiscard]] Bytes measuredMemory(const ServiceName& service) const override;
  [[nodiscard]] int unitCpus(Isolation isolation) const override { return parts_.bridge.isolationTerms(isolation).unitCpus; }

 private:
  struct Rates {  // CPU of one group over the last second
    Instant at{};
    Nanos used{}, lent{}, borrowed{};
    MilliCpu use, lentRate, borrowedRate;
  };
  [[nodiscard]] Result<controller::ServiceSummary> find(const ServiceName& service) const;
  void explainCpus(const agent::GroupView& group, const agent::DrcView& view, const std::optional<TenantName>& eyes,
                   admin::Explanation& explanation) const;
  void tick();
  void measure(const agent::GroupView& group);

  Parts parts_;
  admin::VersionInfo version_;
  std::map<GroupId, Rates> rates_;
  TimerHandle timer_;
};

}  // namespace coterie::serve
