// The gateway: Open Inference Protocol over HTTP, for many tenants, in front of the instances of this machine.
//
// One request: the source's limit of failed authentication -> authenticate -> tenant's limits -> the role's rights (tenancy/authorization.h) -> which
// service -> header and body limits -> read the JSON -> a cell of the service's request arena
// -> read tensor bytes from the socket into the cell -> Station::enqueue -> a lane when it is this request's turn -> the answer, binary outputs sent
// in place.
//   Names       `service` (in the tenant's namespaces, in the order that they are written) or `namespace.service`. What the caller may not see does
//   not exist: same
//               404, same body; every listing is filtered.
//   Keys        `Authorization: Bearer ctk_...` or `X-API-Key: ctk_...`. Who the caller is follows from the key alone; no header can change it.
//   Health and GET /v2
//               need none.
//   Roles       what a key's role never may is 403 before anything is looked up, whichever model is named.
//   Deadline    the earliest of parameter `timeout` (us), header Coterie-Timeout-Ms and the service's default, from the complete head on. Waiting
//   requests that
//               cannot make it are dropped; a running one is answered 504 at its deadline and its lane told to stop.
//   Client gone its place in the queue is free at once; on a lane: told to stop, and slot, concurrency and charge stay until the worker confirms the
//               end.
//   No lane     waits in the waiting room up to waitForInstance or its deadline, then 503; at once where noInstanceBefore says that it waits in vain.
//               Known but never loaded services answer that at once.
//   Batches     requests that the station puts together are one run (batching.h), each is answered its own rows. One that failed is run again one by
//               one; a client that leaves and a deadline that passes end nobody else's; who ran at a crash runs alone from then on.
//   Crashes     never started: goes to another lane once, within a budget of retries (retry_budget.h). In flight: 503 InstanceCrashed; an input in
//               flight at two crashes: 500 RequestCrashedModel for a time that is said (crash_memory.h).
//   Refusals    {"error","reason","limit","retryAfterMs","requestId"}, header Coterie-Reason, Retry-After in whole seconds spread by +-20 %.
// A replaced model (publish with another backend) takes new requests at once; what the old backend has queued or running is finished there first.
// Complexity: per request O(header + JSON + log queue), a handful of allocations, no copy of binary tensors.
// Errors: none of its own towards the caller of this class; setLanes and withdraw of unknown services do nothing.
// Thread rule: everything on the loop's thread, except reading ServiceLoad. Order of destruction: the HTTP server, this, the backends.
// Source: KServe Open Inference Protocol v2 with binary extension; design notes "dispatch", "Rules around it".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dispatch/sequences.h"
#include "gateway/access.h"
#include "gateway/load.h"
#include "gateway/statistics.h"
#include "http/server.h"
#include "model/ids.h"
#include "model/objects.h"
#include "model/role.h"
#include "ports/clock.h"
#include "ports/model_backend.h"
#include "tenancy/authentication_limits.h"

namespace coterie::gateway {

// Whose key is it, and what may it do?
struct Caller {
  TenantName tenant;
  Role role{Role::Infer};
  std::string keyId{};  // for logs
};
// Unauthenticated errors are answered as they are. Called at most once per look at a request; not for a source over its limit of failures.
using Authenticate = std::function<Result<Caller>(std::string_view key)>;

// Somebody who was refused for who he is: 401, where nobody is known (no keyId, no tenant), or 403. Valid during the call.
struct Denied {
  std::string_view source;  // where the request came from, as http::RequestContext has it
  std::string_view keyId;
  std::string_view tenant;
  Role role{Role::Infer};
  std::string_view reason;  // "InvalidKey"
  std::string_view verb;    // what was asked for, as tenancy/authorization.h has it; empty: nothing that takes a right
  std::string_view kind;
  std::string_view model;
};

struct GatewayOptions {
  std::string version{"0"};                     // Coterie's, for GET /v2
  std::size_t maxJsonBytes{64 * 1024 * 1024};   // JSON part of one request; more: 413
  std::size_t maxBodyBytes{256 * 1024 * 1024};  // one request, unpacked; more: 413
  // JSON and compressed bodies of all requests, and answers that are written or wait for their clients to read them. A tenant may hold as many of
  // these bytes as it leaves free, so the first hoarder gets half; more: 503 BuffersFull.
  Bytes maxBufferedBytes{512LL * 1024 * 1024};
  // Calls back (later, on this loop) when all that was acknowledged to administrators before has been told to this gateway. A request for a service
  // or tenant that is not known waits for it, before it is told so; after two seconds it gets 503 CatchingUp. Empty: told at once.
  std::function<void(std::function<void()> done)> catchUp;
  // What its stations are told and answer, as dispatch/record.h has it, on this loop. Empty: not recorded.
  std::function<void(std::string_view)> record;
  // Is told of every 401 and 403, on this loop. Empty: nobody is.
  std::function<void(const Denied&)> denied;
  // Is told of every inference request that is answered, on this loop. Empty: nobody is.
  TellAccess access;
  // Of failed authentication by source, before a key is looked at; more: 429 AuthenticationLimited.
  tenancy::AuthenticationLimitOptions authentication;
  std::uint64_t seed{1};  // of request ids and the spread of Retry-After
};

struct TenantSettings {
  std::vector<std::string> namespaces;  // where `service` is looked up, in this order
  std::int64_t weight{100};
  RequestLimits quota;  // of all its requests
  Band band{Band::Normal};
  bool sharesBatches{false};  // its requests may run as one with those of others that say the same
};

struct ServiceSettings {
  TenantName tenant;
  std::vector<TenantName> consumers;  // who may call it beside its tenant, and pays for it
  bool everybody{false};              // consumers are all tenants
  RequestLimits tenantLimits;         // of each tenant's requests here, beside its own quota
  std::int64_t weight{100};           // within the tenant
  Nanos deadline{Seconds(30)};        // of requests that name none: 10 x objective, or 30 s
  Nanos maxRun{Seconds(300)};         // on a lane; then it is told to stop, and killed a second later
  Nanos objective{};                  // 0: none; for withinObjective
  Nanos initialRun{Millis(10)};       // run time before anything was measured: the probe's mean
  int maxBatch{1};                    // requests that may run as one, where the model can (batching.h); 1: none
  // Of a stateful service. stateBytes 0: what the states have at their start.
  std::optional<dispatch::SequenceLimits> sequences;
  Nanos waitForInstance{Seconds(5)};       // in the waiting room
  Instant noInstanceBefore{};              // known by the supervisor (restart back-off): who cannot wait until then gets its 503 at once
  std::int64_t maxQueuedRequests{10'000};  // waiting room included
  Bytes maxQueuedBytes;                    // 0: the arena is the limit
  std::string notReadyReason{"Loading"};   // CamelCase, for services without a backend: why
  std::string notReadyMessage;             // for people
  std::function<void()> queueFormed;       // somebody waits beyond the own lanes, and nobody did before; on this loop
};

// How many lanes of one instance may be dispatched to: the first `own` of its own lanes and the first `loan` of its loan lanes.
struct LaneAllowance {
  int own{1};
  int loan{0};
  friend bool operator==(const LaneAllowance&, const LaneAllowance&) = default;
};

class Gateway final : public http::RequestHandler {
 public:
  Gateway(EventLoop& loop, const GatewayOptions& options, Authenticate authenticate);
  ~Gateway() override;
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  void onRequest(const std::shared_ptr<http::RequestContext>& request) override;

  // Adds or changes. A removed tenant's requests are refused; those under way end as usual.
  void setTenant(const TenantName& tenant, const TenantSettings& settings);
  void removeTenant(const TenantName& tenant);

  // Adds a service, changes its settings, or replaces its backend (nullptr: known, but nothing loaded). `drained` is called, later, when the backend
  // that was replaced has nothing queued or running any more (at once if there was none); only then may it be destroyed. The load cell stays the same
  // while the service exists.
  std::shared_ptr<const ServiceLoad> publishService(const ServiceName& service, const ServiceSettings& settings, ModelBackend* backend,
                                                    std::function<void()> drained = {});
  // New requests get 404 from here on; `drained` as above.
  void withdrawService(const ServiceName& service, std::function<void()> drained = {});
  // That instance was ended by somebody outside (kill -9, and not for its memory): what it ran is not held to have crashed it. To be
  // called after the crash was seen here. O(services).
  void endedFromOutside(InstanceId instance);
  // From the DRC. An instance never mentioned may use one own lane.
  void setLanes(const ServiceName& service, InstanceId instance, LaneAllowance allowance);

  // From here on new requests get 503 Draining, and /v2/health/ready says so.
  void drain();
  [[nodiscard]] GatewaySnapshot snapshot() const;

 private:
  class Core;
  friend class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace coterie::gateway
