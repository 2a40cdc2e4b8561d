#include "gateway/core.h"

#include <algorithm>
#include <utility>

#include "tenancy/authorization.h"

namespace coterie::gateway {

namespace {

constexpr Nanos kTick = Millis(100);
constexpr Nanos kLongestCatchUp = Seconds(2);  // then nobody can say whether it exists

Refused unknownModel(std::string_view model) {
  return {{Code::NotFound, "UnknownModel",
           "there is no model \"" + std::string(model) + "\" for this key; POST /v2/repository/index lists those there are"},
          {},
          {},
          0};
}

Refused wrongMethod(bool post) {
  return {{Code::InvalidArgument, "MethodNotAllowed", post ? "use POST for this path" : "use GET for this path"}, {}, {}, 405};
}

bool methodFits(http::Method method, oip::Endpoint endpoint) {
  switch (endpoint) {
    case oip::Endpoint::Unknown:
    case oip::Endpoint::TraceSetting:
    case oip::Endpoint::Logging: return true;
    default: break;
  }
  if (oip::wantsPost(endpoint)) return method == http::Method::Post;
  return method == http::Method::Get || method == http::Method::Head;
}

struct Right {
  tenancy::Verb verb;
  tenancy::Kind kind;
};

// What an endpoint asks of the caller's role; nothing where it tells and does nothing.
std::optional<Right> rightFor(oip::Endpoint endpoint) {
  using tenancy::Kind;
  using tenancy::Verb;
  switch (endpoint) {
    case oip::Endpoint::Infer: return Right{Verb::Infer, Kind::Model};
    case oip::Endpoint::ModelMetadata:
    case oip::Endpoint::ModelReady:
    case oip::Endpoint::ModelConfig: return Right{Verb::Get, Kind::Model};
    case oip::Endpoint::RepositoryIndex: return Right{Verb::List, Kind::Model};
    case oip::Endpoint::ModelStatistics: return Right{Verb::Get, Kind::Statistics};
    case oip::Endpoint::AllStatistics: return Right{Verb::List, Kind::Statistics};
    case oip::Endpoint::Live:  // open to all
    case oip::Endpoint::Ready:
    case oip::Endpoint::ServerMetadata:
    case oip::Endpoint::Unknown:  // and what does nothing
    case oip::Endpoint::RepositoryLoad:
    case oip::Endpoint::RepositoryUnload:
    case oip::Endpoint::TraceSetting:
    case oip::Endpoint::Logging:
    case oip::Endpoint::SharedMemoryStatus:
    case oip::Endpoint::SharedMemoryChange: break;
  }
  return std::nullopt;
}

Refused catchingUp() { return notReady("CatchingUp", "the server is busy learning what was changed; try again"); }

}  // namespace

Gateway::Core::Core(EventLoop& loop, const GatewayOptions& options, Authenticate authenticate)
    : loop_(loop),
      options_(options),
      authenticate_(std::move(authenticate)),
      rng_(options.seed),
      stationLog_(options.record ? std::make_unique<dispatch::StationLog>(options.record) : nullptr),
      authentication_(options.authentication),
      self_(std::make_shared<Core*>(this)),
      heavy_(loop) {}

Gateway::Core::~Core() {
  *self_ = nullptr;
  for (const auto& inference : inferences_) {
    if (inference->stage == Stage::Free || inference->answered) continue;
    const auto context = std::move(inference->context);
    inference->answered = true;
    if (context) context->respond(refusalResponse(notReady("Stopping", "the gateway is stopping"), inference->requestId, rng_));
  }
}

// --- Who calls, and what for ---

void Gateway::Core::onRequest(const Context& context, Lookup lookup) {
  const http::RequestHead& head = context->head();
  Call call{context, oip::parseTarget(head.target), requestIdOf(head, rng_), nullptr, Role::Infer, {}, now(), lookup};
  const oip::Endpoint endpoint = call.target.endpoint;
  if (endpoint == oip::Endpoint::Live || endpoint == oip::Endpoint::Ready || endpoint == oip::Endpoint::ServerMetadata) return answerOpen(call);

  auto who = whoCalls(*context);
  if (const Refused* stranger = std::get_if<Refused>(&who)) {
    const bool unknown = stranger->error.reason == kUnknownTenant;
    if (unknown && lookup == Lookup::First && catchUp([this, context](Lookup found) { onRequest(context, found); })) return;
    const Refused refused = unknown && lookup == Lookup::Unanswered ? catchingUp() : *stranger;
    ++unauthenticated_.started;
    unauthenticated_.answer(refused.httpStatus(), refused.error.reason);
    tellDenied(call, refused);
    return turnAway(call, refused);
  }
  Known& caller = std::get<Known>(who);
  call.tenant = caller.tenant;
  call.role = caller.role;
  call.keyId = std::move(caller.keyId);
  ++call.tenant->counts.started;
  if (const auto refusal = call.tenant->limits.start(call.now)) {
    const Refused refused = refusedBy(*refusal, call.tenant->name, {});
    call.tenant->counts.answer(refused.httpStatus(), refused.error.reason);
    return turnAway(call, refused);
  }
  route(call);
}

// An object was acknowledged elsewhere a moment before it is known here. So what is not found is looked for once more, when all that was
// acknowledged before has arrived. Rounds are shared: however many ask, one is under way. False: there is nobody to ask.
bool Gateway::Core::catchUp(Continue then) {
  if (!options_.catchUp) return false;
  const bool underWay = !catchingUp_.empty();
  (underWay ? catchUpNext_ : catchingUp_).push_back(std::move(then));
  if (!underWay) startCatchUp();
  return true;
}

void Gateway::Core::startCatchUp() {
  const std::uint64_t round = ++catchUpRound_;
  catchUpTimer_ = loop_.after(kLongestCatchUp, [this, round] { caughtUp(round, Lookup::Unanswered); });
  options_.catchUp([self = self_, round] {
    if (*self != nullptr) (*self)->caughtUp(round, Lookup::Final);
  });
}

void Gateway::Core::caughtUp(std::uint64_t round, Lookup lookup) {
  if (round != catchUpRound_ || catchingUp_.empty()) return;
  catchUpTimer_.reset();
  const auto now = std::exchange(catchingUp_, std::exchange(catchUpNext_, {}));
  if (!catchingUp_.empty()) startCatchUp();
  for (const auto& then : now) then(lookup);
}

// Endpoints that need no key.
void Gateway::Core::answerOpen(Call& call) {
  const http::Method method = call.context->head().method;
  if (!methodFits(method, call.target.endpoint)) return call.context->respond(refusalResponse(wrongMethod(false), call.requestId, rng_));
  if (call.target.endpoint == oip::Endpoint::Ready && draining_) {
    return call.context->respond(refusalResponse(notReady("Draining", "the server is shutting down"), call.requestId, rng_));
  }
  std::string body = call.target.endpoint == oip::Endpoint::Live ? oip::liveBody() : oip::readyBody(true);
  if (call.target.endpoint == oip::Endpoint::ServerMetadata) body = oip::serverMetadata(options_.version);
  call.context->respond(jsonResponse(std::move(body), call.requestId));
}

void Gateway::Core::route(Call& call) {
  using enum oip::Endpoint;
  const oip::Endpoint endpoint = call.target.endpoint;
  const auto unsupported = [&](std::string what) { return refuse(call, {{Code::Unimplemented, "Unsupported", std::move(what)}, {}, {}, 0}); };
  if (!methodFits(call.context->head().method, endpoint)) return refuse(call, wrongMethod(oip::wantsPost(endpoint)));
  // Before anything is looked up: the answer tells the caller about its role, and nothing about the model.
  if (const auto right = rightFor(endpoint)) {
    if (const Status may = tenancy::permits(call.role, right->verb, right->kind); !may.ok()) {
      const Refused refused{may.error(), {}, {}, 0};
      tellDenied(call, refused);
      return refuse(call, refused);
    }
  }
  switch (endpoint) {
    case Unknown:
      return refuse(
          call, {{Code::NotFound, "UnknownPath", "there is nothing at this path; the protocol's begin with /v2/models/ and /v2/health/"}, {}, {}, 0});
    case RepositoryIndex: return answerIndex(call);
    case AllStatistics: return answerStatistics(call);
    case SharedMemoryStatus: return answer(call, "[]");  // true: none can be registered
    case SharedMemoryChange: return unsupported("shared memory of clients is not supported; send tensors as binary data");
    case TraceSetting: return unsupported("request tracing is not supported");
    case Logging: return unsupported("log settings cannot be changed over this protocol");
    case RepositoryLoad: return unsupported("models are not loaded over this protocol; use `coterie apply -f SERVICE.yaml`");
    case RepositoryUnload: return unsupported("models are not unloaded over this protocol; use `coterie delete modelservice NAME`");
    default: break;
  }
  const auto service = find(*call.tenant, call.target.model);
  if (!service) {
    const auto again = [this, context = call.context, target = call.target, id = call.requestId, tenant = call.tenant, role = call.role,
                        keyId = call.keyId, at = call.now](Lookup found) {
      Call later{context, target, id, tenant, role, keyId, at, found};
      route(later);
    };
    if (call.lookup == Lookup::First && catchUp(again)) return;
    if (call.lookup == Lookup::Unanswered) return refuse(call, catchingUp());
    return refuse(call, unknownModel(call.target.model));
  }
  if (!call.target.version.empty() && call.target.version != oip::kModelVersion) {
    return refuse(
        call,
        {{Code::NotFound, "UnknownVersion", "model \"" + call.target.model + "\" has only version " + std::string(oip::kModelVersion)}, {}, {}, 0});
  }
  if (endpoint == Infer) return startInfer(call, service);
  answerModel(call, *service);
}

std::shared_ptr<Service> Gateway::Core::find(const Tenant& tenant, std::string_view model) const {
  const auto visible = [&](const ServiceName& name) -> std::shared_ptr<Service> {
    const auto found = services_.find(name);
    return found != services_.end() && maySee(tenant, *found->second) ? found->second : nullptr;
  };
  if (model.find('.') != std::string_view::npos) return visible(oip::resolveModel(model, {}));
  for (const std::string& nameSpace : tenant.settings.namespaces) {
    if (auto service = visible({nameSpace, std::string(model)})) return service;
  }
  return nullptr;
}

void Gateway::Core::refuse(Call& call, const Refused& refused, const Service* service) {
  call.tenant->limits.finish();
  call.tenant->counts.answer(refused.httpStatus(), refused.error.reason);
  turnAway(call, refused, service);
}

// Answers it; `service`: what it would have called, where the caller may know of it.
void Gateway::Core::turnAway(const Call& call, const Refused& refused, const Service* service) {
  http::Response response = refusalResponse(refused, call.requestId, rng_);
  if (options_.access && call.target.endpoint == oip::Endpoint::Infer) {
    options_.access({call.requestId, call.tenant == nullptr ? std::string_view() : std::string_view(call.tenant->name.value), call.keyId,
                     service == nullptr ? std::string_view() : std::string_view(service->name.nameSpace),
                     service == nullptr ? std::string_view() : std::string_view(service->name.name), refused.httpStatus(), refused.error.reason,
                     call.context->head().contentLength, response.body.size(), Nanos{}, Nanos{}, call.context->peer()});
  }
  call.context->respond(std::move(response));
}

void Gateway::Core::tellDenied(const Call& call, const Refused& refused) const {
  const int status = refused.httpStatus();
  if (!options_.denied || (status != 401 && status != 403)) return;
  const auto right = rightFor(call.target.endpoint);
  const std::string source = call.context->source();
  options_.denied({source, call.keyId, call.tenant == nullptr ? std::string_view() : std::string_view(call.tenant->name.value), call.role,
                   refused.error.reason, right ? tenancy::verbName(right->verb) : std::string_view(),
                   right ? tenancy::kindName(right->kind) : std::string_view(), call.target.model});
}

void Gateway::Core::answer(Call& call, std::string body) {
  call.tenant->limits.finish();
  call.tenant->counts.answer(200, {});
  call.context->respond(jsonResponse(std::move(body), call.requestId));
}

// --- Tenants and services ---

Tenant& Gateway::Core::tenantNamed(const TenantName& name) {
  const auto [known, added] = tenantIds_.try_emplace(name, TenantId(static_cast<std::int32_t>(tenants_.size())));
  if (added) {
    tenants_.push_back(std::make_unique<Tenant>());
    tenants_.back()->id = known->second;
    tenants_.back()->name = name;
    tenants_.back()->removed = true;  // until it is set
  }
  return *tenants_[static_cast<std::size_t>(known->second.value)];
}

void Gateway::Core::setTenant(const TenantName& name, const TenantSettings& settings) {
  Tenant& tenant = tenantNamed(name);
  tenant.removed = false;
  tenant.settings = settings;
  tenant.limits.set(settings.quota);
  for (const auto& deployment : deployments_) {
    if (deployment->station.view().hasTenant(tenant.id)) tellStation(*deployment, tenant);
  }
}

void Gateway::Core::tellStation(Deployment& deployment, const Tenant& tenant) {
  dispatch::TenantOptions options;
  options.weight = tenant.settings.weight;
  options.band = tenant.settings.band;
  options.sharesBatches = tenant.settings.sharesBatches;
  deployment.station.setTenant(tenant.id, tenant.name.value, options);
}

void Gateway::Core::removeTenant(const TenantName& name) {
  const auto known = tenantIds_.find(name);
  if (known != tenantIds_.end()) tenants_[static_cast<std::size_t>(known->second.value)]->removed = true;
}

std::shared_ptr<const ServiceLoad> Gateway::Core::publishService(const ServiceName& name, const ServiceSettings& settings, ModelBackend* backend,
                                                                 std::function<void()> drained) {
  auto& service = services_[name];
  if (!service) {
    service = std::make_shared<Service>();
    service->name = name;
    service->load = std::make_shared<ServiceLoad>();
  }
  service->settings = settings;
  service->tenant = tenantNamed(settings.tenant).id;
  service->consumers.clear();
  for (const TenantName& consumer : settings.consumers) service->consumers.insert(tenantNamed(consumer).id);
  limitsChanged(*service);
  Deployment* const before = service->current;
  if (before != nullptr && &before->backend == backend) {
    before->settingsChanged();
    dismissWaiting(*before);
    if (drained) loop_.post(std::move(drained));
    return service->load;
  }
  service->current = nullptr;
  service->crashes = {};
  retire(before, std::move(drained));
  if (backend == nullptr) return service->load;
  deployments_.push_back(std::make_unique<Deployment>(service, *backend, *this, stationLog_.get()));
  Deployment& deployment = *deployments_.back();
  service->current = &deployment;
  deployment.backend.setListener(&deployment);
  return service->load;
}

void Gateway::Core::withdrawService(const ServiceName& name, std::function<void()> drained) {
  const auto found = services_.find(name);
  if (found == services_.end()) {
    if (drained) loop_.post(std::move(drained));
    return;
  }
  retire(std::exchange(found->second->current, nullptr), std::move(drained));
  services_.erase(found);
}

void Gateway::Core::retire(Deployment* deployment, std::function<void()> drained) {
  if (deployment == nullptr) {
    if (drained) loop_.post(std::move(drained));
    return;
  }
  deployment->retiring = true;
  deployment->drained = std::move(drained);
  if (deployment->attached == 0) finishRetired(*deployment);
}

// Later, because the deployment may be on the stack.
void Gateway::Core::finishRetired(Deployment& deployment) {
  loop_.post([self = self_, gone = &deployment] {
    if (*self == nullptr) return;
    auto& all = (*self)->deployments_;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.get() == gone; });
    if (found == all.end() || (*found)->attached > 0) return;
    const auto drained = std::move((*found)->drained);
    for (auto& [caller, statistics] : (*found)->service->callers) statistics.slotNanos += (*found)->station.view().stats(caller).charged.count();
    all.erase(found);
    if (drained) drained();
  });
}

void Gateway::Core::setLanes(const ServiceName& name, InstanceId instance, LaneAllowance allowance) {
  const auto found = services_.find(name);
  if (found == services_.end()) return;
  LaneAllowance& current = found->second->allowances[instance];
  if (current == allowance && found->second->current == nullptr) return;
  current = allowance;
  for (const auto& deployment : deployments_) {
    if (deployment->service == found->second && deployment->applyAllowances()) lanesChanged(*deployment);
  }
}

void Gateway::Core::endedFromOutside(InstanceId instance) {
  for (const auto& [name, service] : services_) service->crashes.notItsFault(instance);
  for (const auto& deployment : deployments_) deployment->endedFromOutside(instance);
}

void Gateway::Core::lanesChanged(Deployment& deployment) {
  if (deployment.hasOpenLane()) {
    const std::vector<std::uint32_t> waiting = std::exchange(deployment.waitingRoom, {});
    deployment.waitingBytes = 0;
    for (const std::uint32_t index : waiting) enqueue(*inferences_[index]);
  }
  pump(deployment);
}

// --- Figures ---

void Gateway::Core::publishLoad(Deployment& deployment) {
  Service& service = *deployment.service;
  if (service.current != &deployment) return;
  const dispatch::Demand demand = deployment.station.view().demand(deployment.stationService, now());
  ServiceLoad& load = *service.load;
  const auto set = [](std::atomic<std::int64_t>& cell, std::int64_t value) { cell.store(value, std::memory_order_relaxed); };
  const std::int64_t queued = demand.queued + static_cast<std::int64_t>(deployment.waitingRoom.size());
  set(load.arrivalsMilliPerSecond, demand.arrivals.value);
  set(load.cpuNanosPerRequest, demand.cpuPerRequest.count());
  set(load.heldNanosPerRequest, demand.heldPerRequest.count());
  set(load.queued, queued);
  set(load.queuedBytes, demand.queuedBytes + deployment.waitingBytes);
  set(load.inFlight, demand.inFlight);
  set(load.busyOwnLanes, deployment.busyOwn);
  set(load.busyLoanLanes, deployment.busyLoan);
  const bool beyond = queued > 0 && deployment.busyOwn >= deployment.openLanes(LaneClass::Own);
  const bool formed = beyond && !load.queuedBeyondOwnLanes.load(std::memory_order_relaxed);
  load.queuedBeyondOwnLanes.store(beyond, std::memory_order_relaxed);
  if (!ticking_) {
    ticking_ = true;
    tick_ = loop_.after(kTick, [this] { tick(); });
  }
  if (formed && service.settings.queueFormed) service.settings.queueFormed();
}

void Gateway::Core::tick() {
  ticking_ = false;
  bool warm = false;
  for (const auto& [name, service] : services_) {
    const ServiceLoad& load = *service->load;
    if (load.arrivalsMilliPerSecond.load(std::memory_order_relaxed) == 0 && load.queued.load(std::memory_order_relaxed) == 0 &&
        load.inFlight.load(std::memory_order_relaxed) == 0)
      continue;
    warm = true;
    if (service->current != nullptr) publishLoad(*service->current);
    lookAtShares(*service);
  }
  if (warm && !ticking_) {
    ticking_ = true;
    tick_ = loop_.after(kTick, [this] { tick(); });
  }
}

void Gateway::Core::lookAtShares(Service& service) {
  if (service.current == nullptr) return;
  const dispatch::Station& station = service.current->station.view();
  std::vector<FairShare::Look> looks;
  for (const auto& [caller, statistics] : service.callers) {
    const dispatch::TenantStats stats = station.stats(caller);
    if (stats.queued + stats.inFlight > 0)
      looks.push_back({caller, station.share(caller, service.current->stationService), stats.charged, stats.queued > 0});
  }
  service.shares.look(now(), looks);
}

GatewaySnapshot Gateway::Core::snapshot() const {
  GatewaySnapshot all;
  all.bufferedBytes = bufferedBytes_;
  all.unauthenticated = unauthenticated_;
  all.limits = limitsOf();
  for (const auto& [name, service] : services_) {
    ServiceSnapshot row;
    row.name = name;
    row.tenant = tenants_[static_cast<std::size_t>(service->tenant.value)]->name;
    for (const auto& [caller, statistics] : service->callers) {
      CallerSnapshot its{statistics, tenants_[static_cast<std::size_t>(caller.value)]->name};
      for (const auto& deployment : deployments_) {
        if (deployment->service == service) its.slotNanos += deployment->station.view().stats(caller).charged.count();
      }
      its.entitledNanos = service->shares.entitled(caller).count();
      row.add(its);
      row.recentTotal.merge(statistics.recentTotal.read(now()));
      row.callers.push_back(std::move(its));
    }
    row.runs = service->runs;
    row.jainPermille = service->shares.jainPermille();
    row.batching = service->settings.maxBatch > 1;
    row.stateful = service->settings.sequences.has_value();
    row.sequences = service->sequences.live(dispatch::ServiceId(0));
    row.ownCpuNanos = service->load->ownCpuNanos.load(std::memory_order_relaxed);
    row.loanCpuNanos = service->load->loanCpuNanos.load(std::memory_order_relaxed);
    for (const auto& deployment : deployments_) {
      if (deployment->service != service) continue;
      row.queued += deployment->station.view().queued() + static_cast<std::int64_t>(deployment->waitingRoom.size());
      row.queuedBytes += deployment->station.view().queuedBytes() + deployment->waitingBytes;
      row.inFlight += deployment->station.view().demand(deployment->stationService, now()).inFlight;
      row.ownLanes += deployment->presentLanes(LaneClass::Own);
      row.openOwnLanes += deployment->openLanes(LaneClass::Own);
      row.openLoanLanes += deployment->openLanes(LaneClass::Loan);
    }
    all.services.push_back(std::move(row));
  }
  std::sort(all.services.begin(), all.services.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& tenant : tenants_) {
    if (tenant->removed && tenant->counts.started == 0) continue;
    all.tenants.push_back({tenant->name, tenant->counts, tenant->limits.concurrent(), tenant->limits.queuedBytes().value});
  }
  std::sort(all.tenants.begin(), all.tenants.end(), [](const auto& a, const auto& b) { return a.tenant < b.tenant; });
  return all;
}

// --- The public face ---

Gateway::Gateway(EventLoop& loop, const GatewayOptions& options, Authenticate authenticate)
    : core_(std::make_unique<Core>(loop, options, std::move(authenticate))) {}
Gateway::~Gateway() = default;
void Gateway::onRequest(const std::shared_ptr<http::RequestContext>& request) { core_->onRequest(request); }
void Gateway::setTenant(const TenantName& tenant, const TenantSettings& settings) { core_->setTenant(tenant, settings); }
void Gateway::removeTenant(const TenantName& tenant) { core_->removeTenant(tenant); }
std::shared_ptr<const ServiceLoad> Gateway::publishService(const ServiceName& service, const ServiceSettings& settings, ModelBackend* backend,
                                                           std::function<void()> drained) {
  return core_->publishService(service, settings, backend, std::move(drained));
}
void Gateway::withdrawService(const ServiceName& service, std::function<void()> drained) { core_->withdrawService(service, std::move(drained)); }
void Gateway::endedFromOutside(InstanceId instance) { core_->endedFromOutside(instance); }
void Gateway::setLanes(const ServiceName& service, InstanceId instance, LaneAllowance allowance) { core_->setLanes(service, instance, allowance); }
void Gateway::drain() { core_->drain(); }
GatewaySnapshot Gateway::snapshot() const { return core_->snapshot(); }

}  // namespace coterie::gateway
