// What a running server tells about itself and lets an administrator do, beyond reading and writing objects. src/serve implements it; admin_handler.h
// turns it into HTTP.
//
// Errors: NotFound for unknown services and keys; the rest as the parts behind it say. Everything here is a snapshot: values, no references.
// Thread rule: the control loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "identity/key_store.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "model/role.h"
#include "tenancy/limits.h"

namespace coterie::admin {

struct VersionInfo {
  std::string version;     // "0.1.0"
  std::string revision;    // of the source; empty: unknown
  std::string runtime;     // "ONNX Runtime 1.32.0"; empty: none yet
  std::string gatewayUrl;  // "http://127.0.0.1:8000"
  std::string adminUrl;    // of /metrics, /healthz, /readyz
  WallTime started;
};

// One line of an explanation: the reason for programs, the message for people.
struct Because {
  std::string reason;
  std::string message;
};

// A width that was judged: threads of one run, as many servers as the CPUs carry.
struct WidthLine {
  int threads{1};
  int servers{1};
  Nanos wait{};         // at the objective's quantile
  Nanos latency{};      // wait and run
  bool endless{false};  // more arrives than it serves
  double requestsPerSecond{0};
  bool meetsObjective{false};
};

// How many threads one request is run by.
struct WidthInfo {
  int threads{1};          // of instances that start now
  int proposedThreads{0};  // 0: there is no proposal
  int proposedInstances{0};
  std::vector<WidthLine> judged;  // ascending threads
  std::vector<Because> why;
};

struct Explanation {
  ServiceName service;
  TenantName tenant;
  MilliCpu entitlement;
  MilliCpu demand;
  MilliCpu floor;
  MilliCpu ceiling;       // 0: the machine
  std::string home;       // CPU list, "0-1"; empty: none (pool, or not running)
  std::string loans;      // CPU list
  std::string pool;       // CPU list of the shared pool if it lives there
  std::string isolation;  // "core", "cache", "node"; empty: none
  int instances{0};
  int ownLanes{0};
  int loanLanes{0};
  std::vector<Because> whyThese;  // why these CPUs
  std::vector<Because> whyThisMany;
  std::vector<Because> whyNotMore;
  WidthInfo width;
};

struct InstanceInfo {
  InstanceId id;
  int pid{0};
  std::string state;   // "Starting", "Ready", "Draining", "BackOff"
  std::string reason;  // of the state, CamelCase; may be empty
  std::string home;    // CPU list
  int ownLanes{0};
  int loanLanes{0};
  int restarts{0};
  Bytes memory;       // resident
  Bytes memoryLimit;  // 0: none
  WallTime started;
};

struct TopService {
  ServiceName service;
  TenantName tenant;
  bool ready{false};
  double requestsPerSecond{0};
  Nanos p50{};  // of the last 10 to 20 s
  Nanos p99{};
  Nanos objective{};  // 0: none
  std::int64_t queued{0};
  std::int64_t inFlight{0};
  MilliCpu entitlement;
  MilliCpu home;  // owned CPUs, or the share of the pool
  MilliCpu use;   // of all its lanes
  MilliCpu lent;
  MilliCpu borrowed;
  std::string isolation;  // "core", "cache", "node"; empty: none
  int instances{0};
};

struct TopReport {
  MilliCpu capacity;
  MilliCpu use;
  bool drcOn{true};
  std::vector<TopService> services;  // by name
};

// A limit of one tenant's requests: of all that it calls, or of its calls of one service.
struct LimitLine {
  TenantName tenant;
  std::optional<ServiceName> service;
  tenancy::LimitUse use;
};

struct LogLine {
  WallTime time;
  InstanceId instance;
  std::string text;
};

struct LogPage {
  std::vector<LogLine> lines;  // oldest first
  std::uint64_t next{0};       // give this to continue
};

// Who the caller is; without a key, the platform's administrator.
struct WhoAmI {
  std::uint32_t user{0};
  Role role{Role::PlatformAdmin};
  TenantName tenant;  // with keyId, label and expires: of the key
  std::string keyId;
  std::string label;
  std::optional<WallTime> expires;
};

// May somebody do something?
struct Verdict {
  bool allowed{false};
  std::string reason;  // "RoleAllows", "RoleForbids", "NotItsOwn"
  std::string message;
};

enum class DrcMode : std::uint8_t { Off, On };

[[nodiscard]] inline Error serviceNotFound(const ServiceName& service) {
  return {Code::NotFound, "ServiceNotFound", "no ModelService " + service.path() + "; `coterie get modelservices -A` lists them"};
}

class AdminBackend {
 public:
  virtual ~AdminBackend() = default;

  [[nodiscard]] virtual VersionInfo version() const = 0;
  // What it tells of other tenants' services it does not name them by, nor others' processes, if it is for a tenant's eyes.
  [[nodiscard]] virtual Result<Explanation> explain(const ServiceName& service, const std::optional<TenantName>& eyes) const = 0;
  [[nodiscard]] virtual Result<std::vector<InstanceInfo>> instances(const ServiceName& service) const = 0;
  [[nodiscard]] virtual TopReport top() const = 0;
  // Of all tenants: each one's own, also those that are not set; of services only those that are set or were met. By tenant, then service.
  [[nodiscard]] virtual std::vector<LimitLine> limits() const = 0;
  // Prometheus' page, of all or of one tenant.
  [[nodiscard]] virtual std::string metrics(const std::optional<TenantName>& tenant) const = 0;
  // At most `most` lines written after `after`; without it, the last `most`.
  [[nodiscard]] virtual Result<LogPage> logs(const ServiceName& service, std::optional<std::uint64_t> after, std::size_t most) const = 0;

  [[nodiscard]] virtual DrcMode drc() const = 0;
  [[nodiscard]] virtual Status setDrc(DrcMode mode) = 0;

  [[nodiscard]] virtual Result<identity::NewKey> createKey(const TenantName& tenant, Role role, const std::string& label,
                                                           std::optional<Seconds> lifetime) = 0;
  [[nodiscard]] virtual std::vector<identity::KeyInfo> listKeys(const std::optional<TenantName>& tenant) const = 0;
  [[nodiscard]] virtual Result<identity::NewKey> rotateKey(const std::string& id, Seconds overlap) = 0;
  [[nodiscard]] virtual Status revokeKey(const std::string& id) = 0;
  // Whose key it is: Unauthenticated, as identity/key_table.h has it.
  [[nodiscard]] virtual Result<identity::Identity> authenticate(std::string_view key) const = 0;
  [[nodiscard]] virtual bool stillValid(const identity::Identity& identity) const = 0;
  // Called when a tenant was deleted, so that a later one of that name inherits nothing.
  [[nodiscard]] virtual Status revokeAllKeys(const TenantName& tenant) = 0;

  // The measured memory of one instance, for quotas of services that name none; 0: never loaded.
  [[nodiscard]] virtual Bytes measuredMemory(const ServiceName& service) const = 0;
  // CPUs of the largest unit of a level of isolation on this machine, for quotas too.
  [[nodiscard]] virtual int unitCpus(Isolation isolation) const = 0;
};

}  // namespace coterie::admin
