// The gateway's inside: one object, its functions in seven files by stage of a request.
//   core.cc            tenants, services, what a call is for; snapshot
//   core_callers.cc    who calls
//   core_views.cc      metadata, lists, statistics
//   core_infer.cc      an inference from its head to the queue
//   core_limits.cc     what a request takes of its tenant's limits, and gives back
//   core_sequences.cc  requests of stateful models: their order, and the instance that keeps the state
//   core_run.cc        from the queue to its answer: lanes, deadlines, crashes
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.h"
#include "gateway/gateway.h"
#include "gateway/heavy_work.h"
#include "gateway/replies.h"
#include "gateway/service.h"
#include "oip/documents.h"
#include "oip/infer_response.h"
#include "oip/target.h"
#include "tenancy/authentication_limits.h"
#include "tenancy/limits.h"

namespace coterie::gateway {

inline constexpr std::string_view kUnknownTenant = "UnknownTenant";  // the reason where a key is good and its tenant is not known here

class Gateway::Core final : public DeploymentEvents {
 public:
  Core(EventLoop& loop, const GatewayOptions& options, Authenticate authenticate);
  ~Core() override;
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void onRequest(const std::shared_ptr<http::RequestContext>& context) { onRequest(context, Lookup::First); }
  void setTenant(const TenantName& name, const TenantSettings& settings);
  void removeTenant(const TenantName& name);
  std::shared_ptr<const ServiceLoad> publishService(const ServiceName& name, const ServiceSettings& settings, ModelBackend* backend,
                                                    std::function<void()> drained);
  void withdrawService(const ServiceName& name, std::function<void()> drained);
  void endedFromOutside(InstanceId instance);
  void setLanes(const ServiceName& name, InstanceId instance, LaneAllowance allowance);
  void drain() { draining_ = true; }
  [[nodiscard]] GatewaySnapshot snapshot() const;

  void lanesChanged(Deployment& deployment) override;
  void instanceWithoutLanes(Deployment& deployment, InstanceId instance) override;

 private:
  using Context = std::shared_ptr<http::RequestContext>;
  // What it means that something is not known here: nobody was asked yet, it does not exist, or whoever was asked did not answer in time.
  enum class Lookup : std::uint8_t { First, Final, Unanswered };
  using Continue = std::function<void(Lookup)>;
  // A request before it is known to be an inference.
  struct Call {
    const Context& context;
    oip::Target target;
    std::string requestId;
    Tenant* tenant{nullptr};
    Role role{Role::Infer};
    std::string keyId{};  // until its role was asked
    Instant now{};
    Lookup lookup{Lookup::First};
  };
  // Names an inference in callbacks; small enough to live inside a std::function.
  struct Ticket {
    std::uint32_t index{0};
    std::uint32_t generation{0};
  };

  using Answers = Result<std::vector<std::shared_ptr<const Answer>>>;  // of one run, one for each that ran

  // core.cc
  [[nodiscard]] Instant now() const { return loop_.clock().now(); }
  struct Known {
    Tenant* tenant;
    Role role;
    std::string keyId;
  };
  // A refusal that is answered as it is, or the caller.
  [[nodiscard]] std::variant<Known, Refused> whoCalls(const http::RequestContext& context);
  [[nodiscard]] std::shared_ptr<Service> find(const Tenant& tenant, std::string_view model) const;
  [[nodiscard]] bool maySee(const Tenant& tenant, const Service& service) const { return service.isFor(tenant.id); }
  Tenant& tenantNamed(const TenantName& name);
  static void tellStation(Deployment& deployment, const Tenant& tenant);
  void onRequest(const Context& context, Lookup lookup);
  bool catchUp(Continue then);
  void startCatchUp();
  void caughtUp(std::uint64_t round, Lookup lookup);
  void answerOpen(Call& call);
  void route(Call& call);
  void refuse(Call& call, const Refused& refused, const Service* service = nullptr);
  void tellDenied(const Call& call, const Refused& refused) const;
  void turnAway(const Call& call, const Refused& refused, const Service* service = nullptr);
  void answer(Call& call, std::string body);
  void retire(Deployment* deployment, std::function<void()> drained);
  void finishRetired(Deployment& deployment);
  void publishLoad(Deployment& deployment);
  void lookAtShares(Service& service);
  void tick();

  // core_views.cc
  void answerModel(Call& call, Service& service);
  void answerIndex(Call& call);
  void answerStatistics(Call& call);
  [[nodiscard]] std::string nameFor(const Tenant& tenant, const Service& service) const;
  [[nodiscard]] static oip::ModelStatistics statisticsOf(const Tenant& tenant, const Service& service, std::string name);

  // core_infer.cc
  void startInfer(Call& call, const std::shared_ptr<Service>& service);
  [[nodiscard]] static std::optional<Refused> foresee(Deployment& deployment, const Tenant& tenant, Instant deadline, Instant when);
  void readPlain(Inference& inference);
  void readPacked(Inference& inference);
  void parse(Inference& inference, std::optional<std::uint64_t> binaryLength);
  void onWholeBody(Inference& inference, std::string body, const std::string& encoding, const std::string& headerLength);
  void onUnpacked(Inference& inference);
  void copyTensors(Inference& inference);
  bool takeRequest(Inference& inference, Result<oip::InferRequest> request);
  void readTensors(Inference& inference);
  void bodyComplete(Inference& inference);
  void onFilled(Inference& inference, const Status& filled);
  // Runs `work` beside the loop, then `then` with its result on the loop; `work` may use the inference's buffers, its answer and its backend's
  // signature.
  template <typename T>
  void aside(Inference& inference, std::function<T()> work, void (*then)(Core&, Inference&, T));
  [[nodiscard]] std::int64_t roomInBuffers(const Tenant& tenant) const;
  [[nodiscard]] Refused buffersFull() const;
  [[nodiscard]] std::uint64_t roomForBody(const Inference& inference) const;
  [[nodiscard]] std::optional<Refused> holdBody(Inference& inference, std::uint64_t bytes);
  void dropBody(Inference& inference);
  [[nodiscard]] Refused unpackedTooLarge(Inference& inference);
  void count(Inference& inference, std::int64_t bytes);
  bool buffer(Inference& inference, std::uint64_t bytes);
  void unbuffer(Inference& inference);
  void giveBack(Tenant& tenant, std::int64_t bytes);
  bool checkClient(Inference& inference, const Status& read);
  Inference& take();
  void release(Inference& inference);
  [[nodiscard]] Inference* at(Ticket ticket);
  [[nodiscard]] static Ticket ticketOf(const Inference& inference) { return {inference.index, inference.generation}; }

  // core_limits.cc: each is of both, the tenant's quota and its limits at the service
  static tenancy::RequestLimiter& limiterAt(Service& service, const Tenant& tenant);
  static void limitsChanged(Service& service);
  [[nodiscard]] static Refused limitRefused(const tenancy::LimitRefusal& refusal, const Tenant& tenant, const Service& service);
  [[nodiscard]] Nanos queuedTime(const Tenant& tenant) const;
  [[nodiscard]] Nanos queuedTime(const Service& service, const Tenant& tenant) const;
  [[nodiscard]] std::optional<Refused> mayStart(Tenant& tenant, Service& service, Instant when);
  [[nodiscard]] std::optional<Refused> queueFull(Tenant& tenant, Service& service);
  static void finished(Inference& inference);
  [[nodiscard]] static std::optional<Refused> charge(Inference& inference, std::uint64_t bytes);
  static void unchargeBody(Inference& inference);
  static void uncharge(Inference& inference);
  [[nodiscard]] std::optional<Refused> enterQueue(Inference& inference);
  static void enterQueueAgain(Inference& inference);
  [[nodiscard]] std::vector<LimitSnapshot> limitsOf() const;

  // core_sequences.cc
  void joinSequence(Inference& inference);
  [[nodiscard]] Refused sequenceRefused(const Inference& inference, dispatch::SequenceRefusal refusal) const;
  void advance(Service& service, const dispatch::SequenceKey& key);
  bool takeTurn(Inference& inference, InstanceId instance, RunRequest& request);
  void finishSequence(Inference& inference, bool succeeded, bool neverStarted);
  void leaveSequence(Inference& inference);
  void loseSequences(Service& service, InstanceId instance);
  void dismiss(const std::vector<std::uint64_t>& cookies, dispatch::SequenceRefusal refusal);
  [[nodiscard]] bool keepsState(const Service& service, InstanceId instance) const;
  void freeStates(Service& service);
  void expireSequences(const std::shared_ptr<Service>& service);
  void dropOverdueOrdered(Deployment& deployment);

  // core_run.cc
  void admit(Inference& inference);
  [[nodiscard]] static dispatch::Request requestTo(Deployment& deployment, const Tenant& tenant, Instant deadline);
  void enqueue(Inference& inference);
  [[nodiscard]] std::uint64_t batchKeyOf(Inference& inference);
  void wait(Inference& inference);
  void dismissWaiting(Deployment& deployment);
  [[nodiscard]] Inference* mostOf(const Deployment& deployment, const Inference& newcomer);
  void leaveWaitingRoom(Inference& inference);
  void pump(Deployment& deployment);
  void run(Deployment& deployment, std::span<const dispatch::Dispatch> together);
  void start(Inference& inference, const dispatch::Dispatch& dispatch);
  void completed(Inference& first, RunOutcome outcome);
  [[nodiscard]] Answers answersTo(const std::vector<Ticket>& members, RunOutcome& outcome);
  void countRun(Service& service, const std::vector<Ticket>& members, Nanos took);
  void runAgain(Deployment& deployment, const std::vector<Ticket>& members);
  void finish(Inference& inference, const RunOutcome& outcome, Result<std::shared_ptr<const Answer>> answer);
  void respond(Inference& inference, std::shared_ptr<const Answer> answer);
  struct Written;
  bool countAnswer(Inference& inference, std::uint64_t bytes);
  void send(Inference& inference, Written written);
  void crashedOrLost(Inference& inference, const RunOutcome& outcome);
  void clientGone(Inference& inference);
  void refuse(Inference& inference, const Refused& refused);
  void end(Inference& inference, int status, std::string_view reason, std::uint64_t bytesOut = 0);
  void tellAccess(const Inference& inference, int status, std::string_view reason, std::uint64_t bytesOut, Instant finished) const;
  void abandon(Inference& inference);
  void arm(Deployment& deployment, Instant when);
  void onTimer(Deployment& deployment);

  EventLoop& loop_;
  GatewayOptions options_;
  Authenticate authenticate_;
  Rng rng_;
  std::unique_ptr<dispatch::StationLog> stationLog_;  // none: nothing is recorded
  bool draining_{false};
  std::vector<std::unique_ptr<Tenant>> tenants_;  // by TenantId
  std::unordered_map<TenantName, TenantId> tenantIds_;
  tenancy::AuthenticationLimits authentication_;
  std::unordered_map<ServiceName, std::shared_ptr<Service>> services_;
  std::vector<std::unique_ptr<Deployment>> deployments_;
  std::vector<std::unique_ptr<Inference>> inferences_;
  std::vector<std::uint32_t> freeInferences_;
  RequestCounts unauthenticated_;
  std::int64_t bufferedBytes_{0};
  std::vector<Continue> catchingUp_;   // go on when this round of catching up is over
  std::vector<Continue> catchUpNext_;  // came after it had begun
  std::uint64_t catchUpRound_{0};
  TimerHandle catchUpTimer_;
  TimerHandle tick_;
  bool ticking_{false};
  std::shared_ptr<Core*> self_;  // null inside once this is gone: for callbacks of backends
  HeavyWork heavy_;              // last, so that it ends first
};

// An answer as it will be sent.
struct Gateway::Core::Written {
  Status status;
  oip::InferResponse text;
  std::shared_ptr<const Answer> answer;
};

template <typename T>
void Gateway::Core::aside(Inference& inference, std::function<T()> work, void (*then)(Core&, Inference&, T)) {
  struct State {
    std::function<T()> work;
    std::optional<T> result;
  };
  auto state = std::make_shared<State>(State{std::move(work), std::nullopt});
  inference.helping = true;
  State* const raw = state.get();  // the closure that owns it runs and dies on the loop
  heavy_.run(
      inference.tenant->id, [raw] { raw->result.emplace(raw->work()); },
      [self = self_, ticket = ticketOf(inference), state, then] {
        if (*self == nullptr) return;
        Inference* const helped = (*self)->at(ticket);
        if (helped == nullptr) return;
        helped->helping = false;
        if (helped->answered) return (*self)->release(*helped);
        then(**self, *helped, std::move(*state->result));
      });
}

}  // namespace coterie::gateway
