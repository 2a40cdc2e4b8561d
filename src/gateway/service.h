// What the gateway knows of a service, of a backend that runs it, and of one inference. Internal to src/gateway; logic is in core*.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dispatch/recorded_station.h"
#include "gateway/crash_memory.h"
#include "gateway/fair_share.h"
#include "gateway/gateway.h"
#include "gateway/load.h"
#include "gateway/retry_budget.h"
#include "gateway/statistics.h"
#include "http/server.h"
#include "model/ids.h"
#include "oip/infer_request.h"
#include "ports/clock.h"
#include "ports/model_backend.h"
#include "tenancy/limits.h"

namespace coterie::gateway {

struct Tenant {
  TenantId id;
  TenantName name;
  TenantSettings settings;
  bool removed{false};
  std::int64_t buffered{0};  // of the gateway's buffered bytes, this tenant's
  RequestCounts counts;
  tenancy::RequestLimiter limits;  // of all its requests
};

class Deployment;

// Stays while requests of it are under way, also when it has been withdrawn.
struct Service {
  ServiceName name;
  ServiceSettings settings;
  TenantId tenant;
  std::set<TenantId> consumers;  // beside it
  std::shared_ptr<ServiceLoad> load;
  std::map<InstanceId, LaneAllowance> allowances;
  std::map<TenantId, ServiceStatistics> callers;       // each tenant's own requests
  std::map<TenantId, tenancy::RequestLimiter> limits;  // of each tenant's own requests, by settings.tenantLimits
  RunCounts runs;                                      // of all callers together
  FairShare shares;
  CrashMemory crashes;  // of the model that is loaded now
  RetryBudget retries;
  dispatch::SequenceTable sequences;           // of a stateful one
  std::optional<TimerHandle> sequencesExpire;  // none: there are no sequences
  Deployment* current{nullptr};                // takes new requests; null: nothing loaded

  [[nodiscard]] bool isFor(TenantId caller) const { return caller == tenant || settings.everybody || consumers.count(caller) > 0; }
};

struct Lane {
  LaneInfo info;
  dispatch::SlotId slot;
  bool present{false};
  bool open{false};
  bool lost{false};                       // its worker is known to be dead, laneGone() has still to come
  std::vector<std::uint32_t> inferences;  // what runs there as one; empty: it is free
  bool terminating{false};                // nobody waits for it any more
};

// What a deployment tells the core of.
class DeploymentEvents {
 public:
  virtual ~DeploymentEvents() = default;
  virtual void lanesChanged(Deployment& deployment) = 0;
  virtual void instanceWithoutLanes(Deployment& deployment, InstanceId instance) = 0;
};

// One backend of a service, with the station that orders its requests. A replaced one stays until it has finished what it holds.
class Deployment final : public ModelBackend::Listener {
 public:
  Deployment(std::shared_ptr<Service> of, ModelBackend& runsOn, DeploymentEvents& events, dispatch::StationLog* log);
  ~Deployment() override;
  Deployment(const Deployment&) = delete;
  Deployment& operator=(const Deployment&) = delete;

  void laneReady(const LaneInfo& lane) override;
  void laneGone(const LaneRef& lane) override;
  // Opens and closes slots as the service's allowances say. True if one was opened.
  bool applyAllowances();
  void settingsChanged();
  // Its requests may run as one, now or later: they are given keys.
  [[nodiscard]] bool batches() const { return std::min(service->settings.maxBatch, batchLimit_) > 1; }
  // Its model carries a state from request to request.
  [[nodiscard]] bool stateful() const { return stateful_; }
  [[nodiscard]] dispatch::SequenceLimits sequenceLimits() const;
  // What a request that ran alone showed: whether each output has the rows of the inputs. Nothing runs as one before that was seen, and nothing any
  // more once it was otherwise: of a batch, an output of another meaning might have the right number by chance.
  void sawRows(bool kept);
  // So many at once went wrong by being so many: from here on at most `most`, until the setting or the model changes.
  void limitBatches(int most);
  // The same after a crash; taken back should it turn out that somebody outside ended the instance.
  void limitBatchesAfterCrash(int most, InstanceId instance);
  void endedFromOutside(InstanceId instance);
  // The worker of this instance is dead: nothing more to any of its lanes, though laneGone() comes only after the completions.
  void instanceLost(InstanceId instance);
  [[nodiscard]] int openLanes(LaneClass laneClass) const { return laneClass == LaneClass::Own ? openOwn_ : openLoan_; }
  [[nodiscard]] bool hasOpenLane() const { return openOwn_ + openLoan_ > 0; }
  [[nodiscard]] int presentLanes(LaneClass laneClass) const;

  std::shared_ptr<Service> service;
  ModelBackend& backend;
  dispatch::RecordedStation station;
  dispatch::ServiceId stationService;
  dispatch::Decisions decisions;           // reused
  std::vector<Lane> lanes;                 // by slot cookie; places are reused
  std::vector<std::uint32_t> waitingRoom;  // inferences without an open lane, oldest first
  std::int64_t waitingBytes{0};
  std::vector<std::uint32_t> ordered;  // inferences that wait for those of their sequence before them
  std::int64_t busyOwn{0};
  std::int64_t busyLoan{0};
  std::int64_t attached{0};  // inferences that hold a cell or wait here
  bool retiring{false};
  std::function<void()> drained;
  bool pumping{false};
  bool pumpAgain{false};
  TimerHandle timer;
  std::optional<Instant> armed;

 private:
  [[nodiscard]] dispatch::ServiceOptions serviceOptions() const;
  [[nodiscard]] int mostTogether() const { return rowsSeen_ ? std::max(1, std::min(service->settings.maxBatch, batchLimit_)) : 1; }

  DeploymentEvents& events_;
  bool stateful_;
  Bytes stateBytes_;
  int askedTogether_{1};  // by the settings
  int batchLimit_{1};
  bool rowsSeen_{false};
  InstanceId limitedBy_;  // the latest crash of a batch
  int limitBefore_{1};
  int openOwn_{0};
  int openLoan_{0};
};

// Ordered: behind others of its sequence.
enum class Stage : std::uint8_t { Free, Reading, Ordered, Waiting, Queued, Running };

// One inference from its head to its end. Reused with its buffers; `generation` tells a late callback that it comes too late.
struct Inference {
  std::uint32_t index{0};
  std::uint32_t generation{1};
  Stage stage{Stage::Free};
  std::shared_ptr<http::RequestContext> context;  // until answered
  Tenant* tenant{nullptr};
  std::shared_ptr<Service> service;
  Deployment* deployment{nullptr};
  std::string model;  // as the caller wrote it
  std::string requestId;
  std::string keyId;
  http::Peer peer;
  std::uint64_t bytesIn{0};                     // of the body, as Access has it
  std::string text;                             // the JSON part, or (packed) the whole body
  bool packed{false};                           // came chunked or compressed, so it was read as a whole
  std::uint64_t unpackLimit{0};                 // of a compressed one
  std::string lengthHeader;                     // of a packed one: Inference-Header-Content-Length
  std::int64_t buffered{0};                     // bytes of its body, then of its answer, on the gateway's bound
  std::int64_t charged{0};                      // bytes on the limits of queued bytes
  std::int64_t held{0};                         // bytes on the limits of bytes in flight
  bool queued{false};                           // on the limits of queued requests
  tenancy::RequestLimiter* atService{nullptr};  // the tenant's limits at this service
  oip::InferRequest request;
  std::shared_ptr<InputCell> cell;
  std::vector<InputTensor> inputs;
  std::vector<std::span<std::byte>> parts;
  std::uint64_t elements{0};
  dispatch::RequestHandle handle;
  std::optional<dispatch::SequenceKey> sequence;  // that it has a place in: until it left, or its run has ended
  std::optional<dispatch::SequenceRun> part;      // of the sequence, once it ran
  std::uint32_t lane{0};
  InstanceId instance;  // where it runs, or ran last
  Instant arrived{};
  Instant queuedAt{};
  Instant dispatchedAt{};
  Instant deadline{};
  Instant waitUntil{};  // in the waiting room
  bool answered{false};
  bool retried{false};
  bool helping{false};  // the helper thread works on it: its buffers stay
};

}  // namespace coterie::gateway
