#include <algorithm>
#include <utility>

#include "base/log.h"
#include "gateway/batching.h"
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

// A batch that was too much for its worker, or that the model did not take for one of independent rows, is not tried like that again.
void whatBatchesTeach(Deployment& deployment, std::size_t members, InstanceId instance, const RunOutcome& outcome, const Error& error) {
  if (error.reason == "RowsDiffer") {
    log::warning("gateway", deployment.service->name.path() + ": " + error.message + "; leave batching out of its spec");
    deployment.limitBatches(1);
  } else if (outcome.instanceCrashed) {
    deployment.limitBatchesAfterCrash(static_cast<int>(members / 2), instance);
  } else if (error.reason == "AnswerTooLarge" || error.reason == "OutOfMemory") {
    deployment.limitBatches(static_cast<int>(members / 2));
  }
}

Result<std::shared_ptr<const Answer>> one(const Result<std::vector<std::shared_ptr<const Answer>>>& answers, std::size_t member) {
  if (!answers.ok()) return answers.error();
  return (*answers)[member];
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
  if (const auto refusal = enterQueue(inference)) return refuse(inference, *refusal);
  inference.service->callers[inference.tenant->id].bytesIn += static_cast<std::int64_t>(inference.request.cellBytes);
  if (deployment.stateful()) return joinSequence(inference);
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

// What is known from a head. The station hears of the tenant with its first request.
dispatch::Request Gateway::Core::requestTo(Deployment& deployment, const Tenant& tenant, Instant deadline) {
  if (!deployment.station.view().hasTenant(tenant.id)) tellStation(deployment, tenant);
  dispatch::Request request;
  request.tenant = tenant.id;
  request.service = deployment.stationService;
  request.deadline = deadline;
  return request;
}

void Gateway::Core::enqueue(Inference& inference) {
  dispatch::Request request = requestTo(*inference.deployment, *inference.tenant, inference.deadline);
  request.inputElements = inference.elements;
  request.bytes = Bytes(static_cast<std::int64_t>(inference.request.cellBytes));
  request.cookie = inference.index;
  request.batchKey = batchKeyOf(inference);
  const dispatch::Admission admission = inference.deployment->station.enqueue(request, now());
  if (!admission.accepted()) return refuse(inference, refusedBy(admission.refusal));
  inference.stage = Stage::Queued;
  inference.handle = admission.handle;
}

// What was running when an instance crashed, alone or with others, runs alone from then on.
std::uint64_t Gateway::Core::batchKeyOf(Inference& inference) {
  if (!inference.deployment->batches() || inference.sequence) return 0;
  CrashMemory& crashes = inference.service->crashes;
  if (!crashes.empty(now()) && crashes.suspects(CrashMemory::digestOf(inference.inputs, inference.cell->bytes()))) return 0;
  return batchKey(inference.inputs, inference.request.outputs);
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
    const std::span<const dispatch::Dispatch> all = deployment.decisions.dispatches;
    for (std::size_t i = 0, next = 0; i < all.size(); i = next) {
      for (next = i + 1; next < all.size() && all[next].together;) ++next;
      run(deployment, all.subspan(i, next - i));
    }
    for (std::size_t i = 0; i < deployment.decisions.drops.size(); ++i) {
      const dispatch::Drop drop = deployment.decisions.drops[i];
      refuse(*inferences_[drop.cookie], refusedBy(drop.refusal));
    }
  } while (deployment.pumpAgain);
  deployment.pumping = false;
  if (const auto next = deployment.station.view().nextEvent()) arm(deployment, *next);
  publishLoad(deployment);
}

// Those that the station put together run as one.
void Gateway::Core::run(Deployment& deployment, std::span<const dispatch::Dispatch> together) {
  Lane& lane = deployment.lanes[together.front().slotCookie];
  Inference& first = *inferences_[together.front().cookie];
  RunRequest request;
  if (first.sequence && !takeTurn(first, lane.info.ref.instance, request)) return;
  lane.terminating = false;
  ++(lane.info.laneClass == LaneClass::Own ? deployment.busyOwn : deployment.busyLoan);
  request.maxRun = deployment.service->settings.maxRun;
  request.members.reserve(together.size());
  request.outputs.reserve(first.request.outputs.size());
  for (const oip::RequestOutput& output : first.request.outputs) request.outputs.push_back(output.output);
  for (const dispatch::Dispatch& each : together) {
    Inference& inference = *inferences_[each.cookie];
    start(inference, each);
    request.members.push_back({inference.cell, inference.inputs});
  }
  deployment.backend.run(lane.info.ref, std::move(request), [self = self_, ticket = ticketOf(first)](RunOutcome outcome) {
    if (*self == nullptr) return;
    Inference* const finished = (*self)->at(ticket);
    if (finished != nullptr) (*self)->completed(*finished, std::move(outcome));
  });
}

void Gateway::Core::start(Inference& inference, const dispatch::Dispatch& dispatch) {
  Deployment& deployment = *inference.deployment;
  Lane& lane = deployment.lanes[dispatch.slotCookie];
  inference.stage = Stage::Running;
  inference.lane = static_cast<std::uint32_t>(dispatch.slotCookie);
  inference.dispatchedAt = now();
  uncharge(inference);
  inference.service->callers[inference.tenant->id].queue.record((inference.dispatchedAt - inference.queuedAt).count());
  inference.instance = lane.info.ref.instance;
  lane.inferences.push_back(inference.index);
  arm(deployment, inference.deadline);
}

// What ran on the lane of `first`, alone or with others, has ended: one settlement for all, then the lane's next request, then their answers.
void Gateway::Core::completed(Inference& first, RunOutcome outcome) {
  Deployment& deployment = *first.deployment;
  Lane& lane = deployment.lanes[first.lane];
  std::vector<Ticket> members;
  for (const std::uint32_t index : std::exchange(lane.inferences, {})) members.push_back(ticketOf(*inferences_[index]));
  const bool own = lane.info.laneClass == LaneClass::Own;
  --(own ? deployment.busyOwn : deployment.busyLoan);
  ServiceLoad& load = *deployment.service->load;
  (own ? load.ownCpuNanos : load.loanCpuNanos).fetch_add(std::max<std::int64_t>(outcome.cpu.count(), 0), std::memory_order_relaxed);

  Answers answers = answersTo(members, outcome);
  auto how = dispatch::Outcome::Succeeded;
  if (outcome.neverStarted)
    how = dispatch::Outcome::NeverStarted;
  else if (outcome.instanceCrashed)
    how = dispatch::Outcome::Crashed;
  else if (!answers.ok())
    how = lane.terminating ? dispatch::Outcome::Cancelled : dispatch::Outcome::Failed;
  if (!outcome.neverStarted) countRun(*deployment.service, members, now() - first.dispatchedAt);
  if (outcome.neverStarted || outcome.instanceCrashed) {
    deployment.instanceLost(lane.info.ref.instance);
    if (!keepsState(*deployment.service, first.instance)) loseSequences(*deployment.service, first.instance);
  }
  if (members.size() > 1 && !answers.ok()) whatBatchesTeach(deployment, members.size(), first.instance, outcome, answers.error());
  if (deployment.station.completed(first.handle, {outcome.held, outcome.queuedForCpu, outcome.cpu}, how, now())) return runAgain(deployment, members);

  for (const Ticket& member : members) {
    Inference& inference = *at(member);
    inference.handle = {};
    inference.stage = Stage::Reading;  // neither queued nor running
    if (inference.sequence) finishSequence(inference, answers.ok(), outcome.neverStarted);
  }
  pump(deployment);
  for (std::size_t i = 0; i < members.size(); ++i) {
    // The answer to one may bring the end of another: a client may leave, and its place be taken.
    if (Inference* const inference = at(members[i])) finish(*inference, outcome, one(answers, i));
  }
}

// Of all callers together, and to each of them what it had in it.
void Gateway::Core::countRun(Service& service, const std::vector<Ticket>& members, Nanos took) {
  service.runs.record(members.size(), took);
  std::map<TenantId, std::size_t> own;
  for (const Ticket& member : members) ++own[at(member)->tenant->id];
  for (const auto& [caller, requests] : own) service.callers[caller].ran(requests, took);
}

// Each one's part of what the run answered.
Gateway::Core::Answers Gateway::Core::answersTo(const std::vector<Ticket>& members, RunOutcome& outcome) {
  if (!outcome.answer.ok()) return outcome.answer.error();
  auto answer = std::shared_ptr<const Answer>(std::move(*outcome.answer));
  if (members.size() == 1) {
    const Inference& alone = *at(members.front());
    if (alone.deployment->batches() && rowsOf(alone.inputs) > 0) alone.deployment->sawRows(keepsRows(*answer, rowsOf(alone.inputs)));
    return std::vector{std::move(answer)};
  }
  std::vector<std::int64_t> rows;
  for (const Ticket& member : members) rows.push_back(rowsOf(at(member)->inputs));
  return takeApart(answer, rows);
}

// As one they failed, and it may be the fault of one of them, or of their number: each that is waited for goes back to its queue, to be run alone.
void Gateway::Core::runAgain(Deployment& deployment, const std::vector<Ticket>& members) {
  for (const Ticket& member : members) {
    Inference& inference = *at(member);
    if (inference.answered) {
      inference.handle = {};
      inference.stage = Stage::Reading;
      release(inference);
      continue;
    }
    inference.stage = Stage::Queued;
    inference.queuedAt = now();
    enterQueueAgain(inference);
  }
  pump(deployment);
}

void Gateway::Core::finish(Inference& inference, const RunOutcome& outcome, Result<std::shared_ptr<const Answer>> answer) {
  if (answer.ok() && !inference.answered)
    respond(inference, std::move(*answer));
  else if (outcome.neverStarted || outcome.instanceCrashed)
    crashedOrLost(inference, outcome);
  else if (!inference.answered)
    refuse(inference, {answer.error(), {}, {}, 0});
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
    if (inference.part && !inference.part->fresh) return refuse(inference, sequenceRefused(inference, dispatch::SequenceRefusal::Lost));
    return refuse(inference, unavailable("InstanceCrashed", "the instance that ran this request crashed"));
  }
  if (inference.answered) return release(inference);
  if (inference.part && !inference.part->fresh) return refuse(inference, sequenceRefused(inference, dispatch::SequenceRefusal::Lost));
  if (inference.part) return refuse(inference, unavailable("InstanceLost", "the instance went away before it took this request"));
  if (std::exchange(inference.retried, true) || inference.deadline <= now())
    return refuse(inference, unavailable("InstanceLost", "the instance went away before it took this request"));
  if (!inference.service->retries.take(now()))
    return refuse(inference, unavailable("RetriesSpent", "the instance went away before it took this request, as did too many others lately"));
  Deployment& deployment = *inference.deployment;
  inference.queuedAt = now();
  enterQueueAgain(inference);
  if (!deployment.hasOpenLane()) return wait(inference);
  enqueue(inference);
  pump(deployment);
}

void Gateway::Core::respond(Inference& inference, std::shared_ptr<const Answer> answer) {
  const ModelSignature& signature = inference.deployment->backend.signature();
  const std::span<const OutputTensor> outputs = answer->outputs();
  const auto& wanted = inference.request.outputs;
  if (!std::equal(outputs.begin(), outputs.end(), wanted.begin(), wanted.end(),
                  [](const auto& has, const auto& asked) { return has.output == asked.output; }))
    return refuse(inference, {{Code::Internal, "InvalidOutput", "the instance answered other outputs than it was asked for"}, {}, {}, 0});
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
  const auto write = [answer = std::move(answer), views = std::move(views), &model = inference.model, &id = inference.request.id] {
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
  end(inference, 200, {}, text.bytes);
  context->respond(std::move(response), std::move(read));
}

// --- Ends ---

void Gateway::Core::refuse(Inference& inference, const Refused& refused) {
  const auto context = std::move(inference.context);
  http::Response response = refusalResponse(refused, inference.requestId, rng_);
  end(inference, refused.httpStatus(), refused.error.reason, response.body.size());
  context->respond(std::move(response));
}

// Counts the request once; what still runs keeps its place until the worker confirms the end.
void Gateway::Core::end(Inference& inference, int status, std::string_view reason, std::uint64_t bytesOut) {
  const Instant finished = now();
  if (options_.access) tellAccess(inference, status, reason, bytesOut, finished);
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
  if (inference.sequence && inference.stage != Stage::Running) leaveSequence(inference);
  if (inference.stage != Stage::Running && !inference.helping) release(inference);
}

void Gateway::Core::tellAccess(const Inference& inference, int status, std::string_view reason, std::uint64_t bytesOut, Instant finished) const {
  const bool queued = inference.queuedAt != Instant{};
  const bool ran = queued && inference.dispatchedAt >= inference.queuedAt;
  const ServiceName& name = inference.service->name;
  options_.access({inference.requestId, inference.tenant->name.value, inference.keyId, name.nameSpace, name.name, status, reason, inference.bytesIn,
                   bytesOut, queued ? (ran ? inference.dispatchedAt : finished) - inference.queuedAt : Nanos{},
                   ran ? finished - inference.dispatchedAt : Nanos{}, inference.peer});
}

void Gateway::Core::clientGone(Inference& inference) {
  if (inference.answered) return;
  Deployment& deployment = *inference.deployment;
  if (inference.stage == Stage::Waiting) leaveWaitingRoom(inference);
  if (inference.stage == Stage::Queued || inference.stage == Stage::Running) abandon(inference);
  refuse(inference, {{Code::Cancelled, "ClientGone", "the client closed the connection"}, {}, {}, 0});
  publishLoad(deployment);
}

// Nobody waits for it any more. The lane is told to stop only if that holds for all that run there as one.
void Gateway::Core::abandon(Inference& inference) {
  Deployment& deployment = *inference.deployment;
  if (deployment.station.cancel(inference.handle, now()) != dispatch::CancelResult::Running) return;
  Lane& lane = deployment.lanes[inference.lane];
  if (!std::exchange(lane.terminating, true)) deployment.backend.terminate(lane.info.ref);
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
    // By index: an answer may bring the next request of its connection, and that may take another lane.
    for (std::size_t k = 0; k < deployment.lanes[i].inferences.size(); ++k) {
      Inference& inference = *inferences_[deployment.lanes[i].inferences[k]];
      if (inference.answered) continue;
      if (inference.deadline > at) {
        arm(deployment, inference.deadline);
        continue;
      }
      abandon(inference);
      refuse(inference, deadlinePassed());
    }
  }
  dropOverdueOrdered(deployment);
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
