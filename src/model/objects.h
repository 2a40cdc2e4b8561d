// The objects people write: Tenant (cluster-scoped) and ModelService (namespaced), group coterie.dev, version v1alpha1.
//
// Kubernetes conventions: metadata, spec, status; conditions by type with reasons; observedGeneration. Typed values only: objects/decode.h turns a
// Value tree into these and lists every fault by path; objects/encode.h goes back. A field without an enforcer is not here. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "model/band.h"
#include "model/ids.h"
#include "model/isolation.h"
#include "model/states.h"
#include "model/tensor.h"

namespace coterie {

inline constexpr std::string_view kApiVersion = "coterie.dev/v1alpha1";
inline constexpr std::string_view kTenantKind = "Tenant";
inline constexpr std::string_view kModelServiceKind = "ModelService";

struct Metadata {
  std::string name;
  std::string nameSpace;  // empty for Tenant
  std::vector<std::pair<std::string, std::string>> labels;
};

enum class ConditionStatus : std::uint8_t { Unknown, True, False };
struct Condition {
  std::string type;  // "Ready", "Allocated", "ModelLoaded", "ObjectiveMet", "Sandboxed", ...
  ConditionStatus status{ConditionStatus::Unknown};
  std::int64_t observedGeneration{0};
  std::int64_t lastTransitionMicros{0};
  std::string reason;  // CamelCase
  std::string message;
  friend bool operator==(const Condition&, const Condition&) = default;
};

// What may come, run and wait of a tenant at once; 0: no limit. Of all that it calls (Tenant.spec.quota), or, of each tenant by itself, at one
// service (ModelService.spec.tenantLimits). tenancy/limits.h enforces them.
struct RequestLimits {
  std::int64_t requestsPerSecond{0};
  std::int64_t burstRequests{0};       // at once, after a pause; 0: one second's worth
  std::int64_t concurrentRequests{0};  // waiting or running
  Bytes queuedBytes;                   // of requests that wait
  Bytes inFlightBytes;                 // of requests that wait or run
  std::int64_t queuedRequests{0};      // that wait for a lane or an instance
  Nanos queuedTime{};                  // queuedSeconds: what those that wait will take on lanes, as estimated
  friend bool operator==(const RequestLimits&, const RequestLimits&) = default;
};

// 0: no limit. quota.cpus counts what the tenant's services own together: whole CPUs, and their shares of the pool. It bounds their floors (minCpus)
// when they are written and all that they own afterwards; what it leaves goes to others. Borrowed idle time is free: while their owners sleep, a
// service runs on others' CPUs up to its own maxCpus.
struct TenantQuota : RequestLimits {
  MilliCpu cpus;             // quota.cpus: owned by the services together
  Bytes memory;              // quota.memory: sum of the instances' memory limits
  std::int64_t services{0};  // quota.services
};

struct TenantSpec {
  std::vector<std::string> namespaces;  // at least one; each belongs to one tenant
  std::int64_t weight{100};             // 1..10000
  Band band{Band::Normal};              // high | normal | low
  bool sharesBatches{false};            // its requests may run in one batch with those of other tenants that say the same
  TenantQuota quota;
};

struct Objective {
  Nanos latency{};        // objective.latencyMs
  double percentile{99};  // objective.percentile, 50..99.9
};

// stateful: the model carries a state from request to request of a sequence.
struct StatefulSpec {
  StatePairs states;              // stateful.states: output -> the input that it is of the sequence's next request
  std::int64_t maxSequences{64};  // of one tenant at a time
  Seconds maxIdle{300};           // stateful.idleSeconds: then a sequence is forgotten
  std::int64_t maxWaiting{16};    // requests of one sequence that wait for the one before
  Bytes stateMemory;              // of one sequence at most; 0: what the state has at its start
  Bytes memory{64LL << 20};       // of all sequences together, beside what the model needs
  friend bool operator==(const StatefulSpec&, const StatefulSpec&) = default;
};

struct ModelServiceSpec {
  std::string modelUri;  // model.uri: "file:relative/path.onnx", below the tenant's model root
  std::string sha256;    // model.sha256; empty: not checked, and a file replaced in place is rolled out when it is next looked at
  std::optional<Objective> objective;
  std::optional<int> instances;  // the user's word; suspends automation
  int minInstances{1};
  int maxInstances{1};
  MilliCpu minCpus;                                        // floor of the group; "500m" or 2; 0: none
  MilliCpu maxCpus;                                        // ceiling of the group; 0: the machine
  Isolation isolation{Isolation::None};                    // none | core | cache | node: whole ones are owned, and no other tenant is beside it
  Bytes memory;                                            // per instance, "512Mi"; 0: measured
  std::int64_t weight{100};                                // within the tenant
  int maxBatch{1};                                         // batching.maxRequests: so many may run as one, 1..64; 1: each alone
  std::optional<StatefulSpec> stateful;                    // none: each request is by itself
  bool latencyCritical{true};                              // serviceClass: latency-critical | batch
  std::vector<std::string> consumers;                      // tenants that may call it beside its own, and pay for it; "*": everybody
  RequestLimits tenantLimits;                              // of each tenant that calls it, beside that tenant's own quota
  std::vector<std::pair<std::string, Shape>> probeShapes;  // probe.shapes
};

struct Tenant {
  Metadata metadata;
  TenantSpec spec;
};

struct ModelService {
  Metadata metadata;
  ModelServiceSpec spec;
  [[nodiscard]] ServiceName serviceName() const { return {metadata.nameSpace, metadata.name}; }
};

}  // namespace coterie
