#include <algorithm>
#include <utility>

#include "gateway/core.h"

namespace coterie::gateway {

namespace {
constexpr std::uint64_t kUncountedAnswer = 16 * 1024;  // up to this the socket's own buffer takes an answer; not counted, so that it costs nothing
constexpr std::size_t kInlineJsonOutput = 16 * 1024;   // tensor bytes that are written as JSON on the loop: a fraction of a millisecond

Refused deadlinePassed() {
  return {{Code::DeadlineExceeded, "DeadlinePassed", "the deadline passed while the model ran; allow more time"}, {}, {}, 0};
}

Refused crashedModel(const CrashMemory::Refusal& refusal) {
  const auto seconds = std::chrono::ceil<Seconds>(refusal.left).count();
  // Retry-After is spread by a fifth: not before the refusal is over.
  return {{Code::Internal, "RequestCrashedModel",
           "this input was running at " + std::to_string(refusal.crashes) + " crashes of the model; it is refused for another " +
               std::to_string(seconds) +
               " s and tried once more then. Change the input; if the crashes had another cause, come back then, or apply the service with a mended "
               "model"},
          {},
          refusal.left * 5 / 4,
          0};
}

Refused noInstance(const ServiceSettings& settings, std::string_view otherwise, Instant now) {
  const bool told = !settings.notReadyReason.empty() && !settings.notReadyMessage.empty();
  Refused refused = told ? notReady(settings.notReadyReason, settings.notReadyMessage) : notReady("ServiceNotReady", std::string(otherwise));
  if (settings.noInstanceBefore > now) refused.retryAfter = (settings.noInstanceBefore - now) * 5 / 4;
  return refused;
}
}  // namespace

// --- Admission and the waiting room ---

void Gateway::Core::admit(Inference& inference) {
  Deployment& deployment = *inference.deployment;
  inference.queuedAt = now();
  inference.service->retries.request(inference.queuedAt);
  CrashMemory& crashes = inference.service->crashes;
  if (!crashes.empty(inference.queuedAt)) {
    const auto poisoned = crashes.refusal(CrashMemory::digestOf(inference.inputs, inference.cell->bytes()), inference.queuedAt);
    if (poisoned) return refuse(inference, crashedModel(*poisoned));
  }
  inference.service->callers[inference.tenant->id].bytesIn += static_cast<std::int64_t>(inference.request.cellBytes);
  if (!deployment.hasOpenLane()) return wait(inference);
  enqueue(inference);
  pump(deployment);
}

void Gateway::Core::wait(Inference& inference) {
  Deployment& deployment = *inference.deployment;
  const ServiceSettings& settings = inference.service->settings;
  const auto tell = [&](Inference& whom) { refuse(whom, noInstance(settings, "no instance of the service is running", now())); };
  if (settings.waitForInstance <= Nanos{}) return tell(inference);
  if (static_cast<std::int64_t>(deployment.waitingRoom.size()) >= settings.maxQueuedRequests) {
    Inference* const other = mostOf(deployment, inference);
    if (other == nullptr) return tell(inference);
    leaveWaitingRoom(*other);
    tell(*other);
    if (inference.answered) return;  // that answer may have brought much else
  }
  inference.waitUntil = std::min(inference.queuedAt + settings.waitForInstance, inference.deadline);
  if (settings.noInstanceBefore > inference.waitUntil)
    return refuse(inference, noInstance(settings, "no instance of the service starts before the request's time is over", now()));
  inference.stage = Stage::Waiting;
  deployment.waitingRoom.push_back(inference.index);
  deployment.waitingBytes += static_cast<std::int64_t>(inference.request.cellBytes);
  arm(deployment, inference.waitUntil);
  publishLoad(deployment);
}

// In a full waiting room: the newest of the tenant that has most in it by its weight, the newcomer counted. Null: that is the newcomer's own.
Inference* Gateway::Core::mostOf(const Deployment& deployment, const Inference& newcomer) {
  std::map<TenantId, std::int64_t> waiting{{newcomer.tenant->id, 1}};
  for (const std::uint32_t index : deployment.waitingRoom) ++waiting[inferences_[index]->tenant->id];
  const Tenant* most = newcomer.tenant;
  for (const auto& [id, count] : waiting) {
    const Tenant& tenant = *tenants_[static_cast<std::size_t>(id.value)];
    if (count * most->settings.weight > waiting[most->id] * tenant.settings.weight) most = &tenant;
  }
  if (most == newcomer.tenant) return nullptr;
  const auto& room = deployment.waitingRoom;
  const auto last = std::find_if(room.rbegin(), room.rend(), [&](std::uint32_t index) { return inferences_[index]->tenant == most; });
  return inferences_[*last].get();
}

void Gateway::Core::leaveWaitingRoom(Inference& inference) {
  auto& room = inference.deployment->waitingRoom;
  const auto place = std::find(room.begin(), room.end(), inference.index);
  if (place == room.end()) return;
  room.erase(place);
  inference.deployment->waitingBytes -= static_cast<std::int64_t>(inference.request.cellBytes);
}

// It has become known that no instance starts before some instant: who cannot wait until then is told now.
void Gateway::Core::dismissWaiting(Deployment& deployment) {
  const ServiceSettings& settings = deployment.service->settings;
  if (settings.noInstanceBefore <= now()) return;
  const std::vector<std::uint32_t> waiting = deployment.waitingRoom;
  for (const std::uint32_t index : waiting) {
    Inference& inference = *inferences_[index];
    // An answer may bring the next request of its connection, and with it other changes here.
    if (inference.stage != Stage::Waiting || inference.deployment != &deployment || inference.waitUntil >= settings.noInstanceBefore) continue;
    leaveWaitingRoom(inference);
    refuse(inference, noInstance(settings, "no instance of the service starts before the request's time is over", now()));
  }
  publishLoad(deployment);
}

void Gateway::Core::enqueue(Inference& inference) {
  dispatch::RecordedStation& station = inference.deployment->station;
  const TenantId tenant = inference.tenant->id;
  if (!station.view().hasTenant(tenant)) tellStation(*inference.deployment, *inference.tenant);
  dispatch::Request request;
  request.tenant = tenant;
  request.service = inference.deployment->stationService;
  request.deadline = inference.deadline;
  request.inputElements = inference.elements;
  request.bytes = Bytes(static_cast<std::int64_t>(inference.request.cellBytes));
  request.cookie = inference.index;
  const dispatch::Admission admission = station.enqueue(request, now());
  if (!admission.accepted()) return refuse(inference, refusedBy(admission.refusal));
  inference.stage = Stage::Queued;
  inference.handle = admission.handle;
}

// --- Lanes ---

// Does all that is due at a station. Answers may bring the next request of the same connection, and with it another call: that one is done in a
// further round.
void Gateway::Core::pump(Deployment& deployment) {
  if (std::exchange(deployment.pumping, true)) {
    deployment.pumpAgain = true;
    return;
  }
  do {
    deployment.pumpAgain = false;
    deployment.decisions.clear();
    deployment.station.next(now(), deployment.decisions);
    for (std::size_t i = 0; i < deployment.decisions.dispatches.size(); ++i) run(deployment, deployment.decisions.dispatches[i]);
    for (std::size_t i = 0; i < deployment.decisions.drops.size(); ++i) {
      const dispatch::Drop drop = deployment.decisions.drops[i];
      refuse(*inferences_[drop.cookie], refusedBy(drop.refusal));
    }
  } while (deployment.pumpAgain);
  deployment.pumping = false;
  if (const auto next = deployment.station.view().nextEvent()) arm(deployment, *next);
  publishLoad(deployment);
}

void Gateway::Core::run(Deployment& deployment, const dispatch::Dispatch& dispatch) {
  Inference& inference = *inferences_[dispatch.cookie];
  Lane& lane = deployment.lanes[dispatch.slotCookie];
  inference.stage = Stage::Running;
  inference.lane = static_cast<std::uint32_t>(dispatch.slotCookie);
  inference.dispatchedAt = now();
  uncharge(inference);
  inference.service->callers[inference.tenant->id].queue.record((inference.dispatchedAt - inference.queuedAt).count());
  inference.instance = lane.info.ref.instance;
  lane.inference = inference.index;
  ++(lane.info.laneClass == LaneClass::Own ? deployment.busyOwn : deployment.busyLoan);
  arm(deployment, inference.deadline);

  RunRequest request{inference.cell, inference.inputs, {}, inference.service->settings.maxRun};
  request.outputs.reserve(inference.request.outputs.size());
  for (const oip::RequestOutput& output : inference.request.outputs) request.outputs.push_back(output.output);
  deployment.backend.run(lane.info.ref, std::move(request), [self = self_, ticket = ticketOf(inference)](RunOutcome outcome) {
    if (*self == nullptr) return;
    Inference* const finished = (*self)->at(ticket);
    if (finished != nullptr) (*self)->completed(*finished, std::move(outcome));
  });
}

void Gateway::Core::completed(Inference& inference, RunOutcome outcome) {
  Deployment& deployment = *inference.deployment;
  Lane& lane = deployment.lanes[inference.lane];
  const bool own = lane.info.laneClass == LaneClass::Own;
  lane.inference = kNoInference;
  --(own ? deployment.busyOwn : deployment.busyLoan);
  ServiceLoad& load = *inference.service->load;
  (own ? load.ownCpuNanos : load.loanCpuNanos).fetch_add(std::max<std::int64_t>(outcome.cpu.count(), 0), std::memory_order_relaxed);

  auto how = dispatch::Outcome::Succeeded;
  if (outcome.neverStarted)
    how = dispatch::Outcome::NeverStarted;
  else if (outcome.instanceCrashed)
    how = dispatch::Outcome::Crashed;
  else if (!outcome.answer.ok())
    how = inference.terminating ? dispatch::Outcome::Cancelled : dispatch::Outcome::Failed;
  if (!outcome.neverStarted) inference.service->callers[inference.tenant->id].run.record((now() - inference.dispatchedAt).count());
  if (outcome.neverStarted || outcome.instanceCrashed) deployment.instanceLost(lane.info.ref.instance);
  deployment.station.completed(inference.handle, {outcome.held, outcome.queuedForCpu, outcome.cpu}, how, now());
  inference.handle = {};
  inference.stage = Stage::Reading;  // neither queued nor running
  pump(deployment);                  // the lane's next request first, then this one's answer

  if (outcome.answer.ok() && !inference.answered)
    respond(inference, std::move(*outcome.answer));
  else if (outcome.neverStarted || outcome.instanceCrashed)
    crashedOrLost(inference, outcome);
  else if (!inference.answered)
    refuse(inference, {outcome.answer.error(), {}, {}, 0});
  else
    release(inference);
}

void Gateway::Core::crashedOrLost(Inference& inference, const RunOutcome& outcome) {
  const auto unavailable = [](std::string reason, std::string message) { return notReady(std::move(reason), std::move(message)); };
  if (outcome.instanceCrashed) {
    CrashMemory& crashes = inference.service->crashes;
    const std::uint64_t digest = CrashMemory::digestOf(inference.inputs, inference.cell->bytes());
    crashes.crashed(digest, inference.instance, now());
    if (inference.answered) return release(inference);
    if (const auto poisoned = crashes.refusal(digest, now())) return refuse(inference, crashedModel(*poisoned));
    return refuse(inference, unavailable("InstanceCrashed", "the instance that ran this request crashed"));
  }
  if (inference.answered) return release(inference);
  if (std::exchange(inference.retried, true) || inference.deadline <= now())
    return refuse(inference, unavailable("InstanceLost", "the instance went away before it took this request"));
  if (!inference.service->retries.take(now()))
    return refuse(inference, unavailable("RetriesSpent", "the instance went away before it took this request, as did too many others lately"));
  Deployment& deployment = *inference.deployment;
  inference.queuedAt = now();
  if (!deployment.hasOpenLane()) return wait(inference);
  enqueue(inference);
  pump(deployment);
}

void Gateway::Core::respond(Inference& inference, std::unique_ptr<Answer> result) {
  const ModelSignature& signature = inference.deployment->backend.signature();
  const auto answer = std::shared_ptr<const Answer>(std::move(result));
  const std::span<const OutputTensor> outputs = answer->outputs();
  const auto& wanted = inference.request.outputs;
  if (outputs.size() != wanted.size())
    return refuse(inference, {{Code::Internal, "InvalidOutput", "the instance answered another number of outputs than it was asked for"}, {}, {}, 0});
  std::vector<oip::OutputView> views;
  views.reserve(outputs.size());
  std::size_t asJson = 0;
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    views.push_back({&signature.outputs[static_cast<std::size_t>(wanted[i].output)], &outputs[i].shape, outputs[i].data, wanted[i].binary});
    if (!wanted[i].binary) asJson += outputs[i].data.size();
    all += outputs[i].data.size();
  }
  if (!countAnswer(inference, all)) return;
  // Of the inference only what nobody changes before it is released.
  const auto write = [answer, views = std::move(views), &model = inference.model, &id = inference.request.id] {
    Written written{{}, {}, answer};
    written.status = oip::writeInferResponse(model, oip::kModelVersion, id, views, written.text);
    return written;
  };
  if (asJson <= kInlineJsonOutput) return send(inference, write());
  aside<Written>(inference, write, [](Core& core, Inference& done, Written written) { core.send(done, std::move(written)); });
}

// From the run's end until the client has read it, an answer counts among the buffered bytes: clients that do not read cost their own tenant.
bool Gateway::Core::countAnswer(Inference& inference, std::uint64_t bytes) {
  unbuffer(inference);
  return bytes <= kUncountedAnswer || buffer(inference, bytes);
}

void Gateway::Core::send(Inference& inference, Written written) {
  if (!written.status) return refuse(inference, {written.status.error(), {}, {}, 0});
  oip::InferResponse& text = written.text;
  if (!countAnswer(inference, text.bytes - text.json.size() + text.json.capacity())) return;
  http::Response response;
  response.contentType = text.binary ? "application/octet-stream" : "application/json";
  if (text.binary) response.headers.add("Inference-Header-Content-Length", std::to_string(text.json.size()));
  response.headers.add("X-Request-Id", inference.requestId);
  response.body = std::move(text.json);
  response.parts = std::move(text.parts);
  if (!response.parts.empty()) response.owner = std::move(written.answer);
  inference.service->callers[inference.tenant->id].bytesOut += static_cast<std::int64_t>(text.bytes);
  const auto context = std::move(inference.context);
  http::RequestContext::Done read;
  if (inference.buffered > 0) {
    read = [self = self_, tenant = inference.tenant, bytes = std::exchange(inference.buffered, 0)](const Status&) {
      if (*self != nullptr) (*self)->giveBack(*tenant, bytes);
    };
  }
  end(inference, 200, {});
  context->respond(std::move(response), std::move(read));
}

// --- Ends ---

void Gateway::Core::refuse(Inference& inference, const Refused& refused) {
  const auto context = std::move(inference.context);
  http::Response response = refusalResponse(refused, inference.requestId, rng_);
  end(inference, refused.httpStatus(), refused.error.reason);
  context->respond(std::move(response));
}

// Counts the request once; what still runs keeps its place until the worker confirms the end.
void Gateway::Core::end(Inference& inference, int status, std::string_view reason) {
  const Instant finished = now();
  const Nanos total = finished - inference.arrived;
  ServiceStatistics& statistics = inference.service->callers[inference.tenant->id];
  inference.answered = true;
  statistics.requests.answer(status, reason);
  inference.tenant->counts.answer(status, reason);
  statistics.lastInference = loop_.clock().wall();
  if (status == 200) {
    statistics.total.record(total.count());
    statistics.recentTotal.record(total.count(), finished);
    const Nanos objective = inference.service->settings.objective;
    if (objective > Nanos{} && total <= objective) ++statistics.withinObjective;
  } else {
    statistics.failedNanos += total.count();
  }
  if (inference.stage != Stage::Running && !inference.helping) release(inference);
}

void Gateway::Core::uncharge(Inference& inference) {
  if (inference.charged > 0) limits_.unqueue(inference.tenant->id, Bytes(std::exchange(inference.charged, 0)));
}

void Gateway::Core::clientGone(Inference& inference) {
  if (inference.answered) return;
  Deployment& deployment = *inference.deployment;
  if (inference.stage == Stage::Waiting) leaveWaitingRoom(inference);
  if (inference.stage == Stage::Queued) deployment.station.cancel(inference.handle, now());
  if (inference.stage == Stage::Running) terminate(inference);
  refuse(inference, {{Code::Cancelled, "ClientGone", "the client closed the connection"}, {}, {}, 0});
  publishLoad(deployment);
}

void Gateway::Core::terminate(Inference& inference) {
  if (std::exchange(inference.terminating, true)) return;
  inference.deployment->backend.terminate(inference.deployment->lanes[inference.lane].info.ref);
}

// --- Time ---

// One timer per deployment, for the earliest thing that may be due; too early is harmless, so it is not moved back.
void Gateway::Core::arm(Deployment& deployment, Instant when) {
  if (deployment.armed && *deployment.armed <= when) return;
  deployment.armed = when;
  deployment.timer = loop_.after(std::max(when - now(), Nanos{1}), [this, &deployment] { onTimer(deployment); });
}

void Gateway::Core::onTimer(Deployment& deployment) {
  deployment.armed.reset();
  const Instant at = now();
  for (std::size_t i = 0; i < deployment.lanes.size(); ++i) {
    const std::uint32_t index = deployment.lanes[i].inference;
    if (index == kNoInference || inferences_[index]->answered) continue;
    Inference& inference = *inferences_[index];
    if (inference.deadline > at) {
      arm(deployment, inference.deadline);
      continue;
    }
    terminate(inference);
    refuse(inference, deadlinePassed());
  }
  const std::vector<std::uint32_t> waiting = deployment.waitingRoom;
  for (const std::uint32_t index : waiting) {
    Inference& inference = *inferences_[index];
    if (inference.stage != Stage::Waiting || inference.deployment != &deployment) continue;
    if (inference.waitUntil > at) {
      arm(deployment, inference.waitUntil);
      continue;
    }
    leaveWaitingRoom(inference);
    // Not 504, whichever time was over first: with an instance it might have been answered.
    refuse(inference, noInstance(deployment.service->settings, "no instance of the service came up in time", at));
  }
  pump(deployment);
}

}  // namespace coterie::gateway
