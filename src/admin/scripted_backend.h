// For tests of the admin API and the CLI: a server that tells what the test put in.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/admin_backend.h"

namespace coterie::admin {

class ScriptedBackend final : public AdminBackend {
 public:
  [[nodiscard]] VersionInfo version() const override {
    return {"0.1.0", "abc", "ONNX Runtime 1.32.0", gatewayUrl, "http://127.0.0.1:8001", WallTime{5}};
  }
  [[nodiscard]] Result<Explanation> explain(const ServiceName& service, const std::optional<TenantName>& viewer) const override {
    eyes = viewer;
    if (service.name != "speech") return serviceNotFound(service);
    Explanation e;
    e.service = service;
    e.whyThese = {{"SameL3", "they share a cache"}};
    e.width = {1, 2, 1, {{1, 2, {}, Millis(82), false, 25, false}, {2, 1, {}, {}, true, 22, false}}, {{"ObjectiveNotMet", "no width meets it"}}};
    return e;
  }
  [[nodiscard]] Result<std::vector<InstanceInfo>> instances(const ServiceName&) const override { return std::vector<InstanceInfo>(2); }
  [[nodiscard]] TopReport top() const override { return TopReport{MilliCpu(2000), MilliCpu(1500), true, services}; }
  [[nodiscard]] std::vector<LimitLine> limits() const override { return limitLines; }
  [[nodiscard]] std::string metrics(const std::optional<TenantName>& tenant) const override { return "of " + (tenant ? tenant->value : "all"); }
  [[nodiscard]] Result<LogPage> logs(const ServiceName&, std::optional<std::uint64_t> after, std::size_t most) const override {
    LogPage page;
    for (std::uint64_t i = after.value_or(0); i < 5 && page.lines.size() < most; ++i)
      page.lines.push_back({WallTime{1}, InstanceId(1), "line " + std::to_string(i)});
    page.next = 5;
    return page;
  }
  [[nodiscard]] DrcMode drc() const override { return mode; }
  [[nodiscard]] Status setDrc(DrcMode wanted) override { return mode = wanted, Status(); }
  [[nodiscard]] Result<identity::NewKey> createKey(const TenantName& tenant, Role role, const std::string& label,
                                                   std::optional<Seconds> lifetime) override {
    identity::KeyInfo info;
    info.id = "id" + std::to_string(keys.size());
    info.tenant = tenant;
    info.role = role;
    info.label = label;
    if (lifetime) info.expires = WallTime{lifetime->count() * 1'000'000};
    keys.push_back(info);
    return identity::NewKey{info, "ctk_secret"};
  }
  [[nodiscard]] std::vector<identity::KeyInfo> listKeys(const std::optional<TenantName>& tenant) const override {
    std::vector<identity::KeyInfo> out;
    for (const auto& key : keys) {
      if (!tenant || key.tenant == *tenant) out.push_back(key);
    }
    return out;
  }
  [[nodiscard]] Result<identity::NewKey> rotateKey(const std::string& id, Seconds overlap) override {
    identity::NewKey key;
    key.info.id = id;
    key.info.formerUntil = WallTime{overlap.count() * 1'000'000};
    key.key = "ctk_new";
    return key;
  }
  [[nodiscard]] Status revokeKey(const std::string& id) override {
    for (auto& key : keys) {
      if (key.id == id) return key.revoked = WallTime{1}, Status();
    }
    return Error{Code::NotFound, "KeyNotFound", "no key " + id};
  }
  [[nodiscard]] Result<identity::Identity> authenticate(std::string_view key) const override {
    const auto found = callers.find(key);
    if (found == callers.end()) return Error{Code::Unauthenticated, "InvalidKey", "no such key"};
    return found->second;
  }
  [[nodiscard]] bool stillValid(const identity::Identity& identity) const override {
    return std::any_of(callers.begin(), callers.end(), [&](const auto& caller) { return caller.second.keyId == identity.keyId; });
  }
  [[nodiscard]] Status revokeAllKeys(const TenantName& tenant) override { return revokedAll.push_back(tenant.value), Status(); }
  [[nodiscard]] Bytes measuredMemory(const ServiceName& service) const override {
    if (onMeasured) onMeasured(service);
    return Bytes(100);
  }
  [[nodiscard]] int unitCpus(Isolation) const override { return 2; }

  std::string gatewayUrl{"http://127.0.0.1:8000"};
  std::function<void(const ServiceName&)> onMeasured;  // between the read and the write of an update
  std::vector<TopService> services{TopService{}};      // of top()
  std::vector<LimitLine> limitLines;
  DrcMode mode{DrcMode::On};
  std::vector<identity::KeyInfo> keys;
  std::map<std::string, identity::Identity, std::less<>> callers;  // what a key says who calls
  mutable std::optional<TenantName> eyes;                          // of the last explanation
  std::vector<std::string> revokedAll;
};

}  // namespace coterie::admin
