#include <algorithm>
#include <utility>

#include "gateway/core.h"

namespace coterie::gateway {

namespace {
constexpr dispatch::ServiceId kOnly{0};  // a table is one service's
}  // namespace

Refused Gateway::Core::sequenceRefused(const Inference& inference, dispatch::SequenceRefusal refusal) const {
  const dispatch::SequenceLimits limits = inference.deployment->sequenceLimits();
  const std::string sequence = "sequence \"" + inference.request.sequence + "\"";
  Refused refused{{dispatch::sequenceRefusalCode(refusal), std::string(dispatch::sequenceRefusalName(refusal)), {}}, {}, {}, 0};
  switch (refusal) {
    case dispatch::SequenceRefusal::Unknown:
      refused.error.message = sequence + " is not known: it was not begun, has ended, or had no request for " +
                              std::to_string(std::chrono::ceil<Seconds>(limits.maxIdle).count()) +
                              " s; begin it with the parameter \"sequence_start\": true";
      break;
    case dispatch::SequenceRefusal::Lost:
      refused.error.message = "the instance that kept the state of " + sequence +
                              " is gone, and the state with it; begin it again with the parameter " + "\"sequence_start\": true";
      break;
    case dispatch::SequenceRefusal::Limit:
      refused.error.message = "there is no room for another sequence: end some with the parameter \"sequence_end\": true, or ask for larger limits";
      refused.limit = "stateful.maxSequences=" + std::to_string(limits.maxSequences) + ", stateful.memory=" + std::to_string(limits.maxBytes.value);
      refused.retryAfter = Seconds(1);
      break;
    case dispatch::SequenceRefusal::Backlog:
      refused.error.message = "too many requests of " + sequence + " wait for those before them; send the next when one was answered";
      refused.limit = "stateful.maxWaiting=" + std::to_string(limits.maxWaiting);
      refused.retryAfter = Seconds(1);
      break;
  }
  return refused;
}

// It takes its place in its sequence, and is queued when it is its turn.
void Gateway::Core::joinSequence(Inference& inference) {
  Deployment& deployment = *inference.deployment;
  Service& service = *inference.service;
  const oip::InferRequest& request = inference.request;
  if (request.sequence.empty())
    return refuse(inference,
                  {{Code::InvalidArgument, "SequenceIdMissing",
                    "this model carries a state from request to request: give the parameter \"sequence_id\", and \"sequence_start\": true with "
                    "the first request of a sequence"},
                   {},
                   {},
                   0});
  const dispatch::SequenceKey key{inference.tenant->id, kOnly, 1, request.sequence};
  const auto where = service.sequences.instanceOf(key);
  // It is where the service's former model runs out.
  if (!request.sequenceStart && where && !deployment.backend.keeps(*where))
    return refuse(inference, sequenceRefused(inference, dispatch::SequenceRefusal::Lost));
  const auto refusal =
      service.sequences.arrive(key, {request.sequenceStart, request.sequenceEnd, inference.index}, deployment.sequenceLimits(), inference.queuedAt);
  if (refusal) return refuse(inference, sequenceRefused(inference, *refusal));
  inference.sequence = key;
  inference.stage = Stage::Ordered;
  deployment.ordered.push_back(inference.index);
  arm(deployment, inference.deadline);
  if (!service.sequencesExpire) expireSequences(inference.service);
  advance(service, key);
}

// Whoever's turn it is now goes to the queue. What is there already stays.
void Gateway::Core::advance(Service& service, const dispatch::SequenceKey& key) {
  const auto turn = service.sequences.turn(key);
  if (!turn) return;
  Inference& next = *inferences_[turn->cookie];
  if (next.stage != Stage::Ordered) return;
  Deployment& deployment = *next.deployment;
  std::erase(deployment.ordered, next.index);
  next.stage = Stage::Reading;
  if (!deployment.hasOpenLane()) return wait(next);
  enqueue(next);
  pump(deployment);
}

// False: its state is elsewhere, and it was told so; the lane is free again.
bool Gateway::Core::takeTurn(Inference& inference, InstanceId instance, RunRequest& request) {
  Deployment& deployment = *inference.deployment;
  const auto run = inference.service->sequences.run(*inference.sequence, instance);
  freeStates(*inference.service);
  if (!run) {
    (void)deployment.station.completed(inference.handle, {}, dispatch::Outcome::NeverStarted, now());
    inference.handle = {};
    inference.stage = Stage::Reading;
    refuse(inference, sequenceRefused(inference, dispatch::SequenceRefusal::Lost));
    deployment.pumpAgain = true;
    return false;
  }
  inference.part = run;
  request.sequence = SequencePart{run->handle, run->fresh, run->takesBack, run->end, deployment.sequenceLimits().stateBytes};
  return true;
}

// Its run has ended. The next one's turn comes with it. A worker that never took it may take it yet, when it comes to: what its state is then, nobody
// knows.
void Gateway::Core::finishSequence(Inference& inference, bool succeeded, bool neverStarted) {
  const std::shared_ptr<Service> service = inference.service;
  const dispatch::SequenceKey key = std::move(*std::exchange(inference.sequence, std::nullopt));
  std::vector<std::uint64_t> gone;
  if (neverStarted) {
    service->sequences.lose(key, now(), gone);
  } else {
    const auto well = inference.answered ? dispatch::SequenceOutcome::Untold : dispatch::SequenceOutcome::Succeeded;
    if (!service->sequences.finish(key, succeeded ? well : dispatch::SequenceOutcome::Failed, now(), gone)) return;  // lost with its instance
  }
  freeStates(*service);
  dismiss(gone, neverStarted ? dispatch::SequenceRefusal::Lost : dispatch::SequenceRefusal::Unknown);
  advance(*service, key);
}

// It was answered before it ran.
void Gateway::Core::leaveSequence(Inference& inference) {
  const std::shared_ptr<Service> service = inference.service;
  const dispatch::SequenceKey key = std::move(*std::exchange(inference.sequence, std::nullopt));
  std::erase(inference.deployment->ordered, inference.index);
  std::vector<std::uint64_t> unknown;
  if (!service->sequences.cancel(key, inference.index, unknown, now())) return;
  dismiss(unknown, dispatch::SequenceRefusal::Unknown);
  advance(*service, key);
}

// Those that the table has let go of. An answer may bring much else, but none of these back.
void Gateway::Core::dismiss(const std::vector<std::uint64_t>& cookies, dispatch::SequenceRefusal refusal) {
  std::vector<Ticket> tickets;
  for (const std::uint64_t cookie : cookies) tickets.push_back(ticketOf(*inferences_[cookie]));
  for (const Ticket ticket : tickets) {
    Inference* const inference = at(ticket);
    if (inference == nullptr || inference->answered) continue;
    if (inference->stage == Stage::Waiting) leaveWaitingRoom(*inference);
    if (inference->stage == Stage::Queued) abandon(*inference);
    refuse(*inference, sequenceRefused(*inference, refusal));
  }
}

bool Gateway::Core::keepsState(const Service& service, InstanceId instance) const {
  return std::any_of(deployments_.begin(), deployments_.end(),
                     [&](const auto& each) { return each->service.get() == &service && each->backend.keeps(instance); });
}

// Whoever waited for a state there is told; what begins anew behind it goes on elsewhere.
void Gateway::Core::loseSequences(Service& service, InstanceId instance) {
  std::vector<std::uint64_t> lost;
  service.sequences.lose(instance, now(), lost);
  dismiss(lost, dispatch::SequenceRefusal::Lost);
  std::vector<dispatch::SequenceKey> left;
  for (const auto& deployment : deployments_) {
    if (deployment->service.get() != &service) continue;
    for (const std::uint32_t index : deployment->ordered) left.push_back(*inferences_[index]->sequence);
  }
  for (const dispatch::SequenceKey& key : left) advance(service, key);
}

// A suspended one has no lanes either, and keeps what it has. It is looked at later: its backend is just letting go of it.
void Gateway::Core::instanceWithoutLanes(Deployment& deployment, InstanceId instance) {
  if (!deployment.stateful()) return;
  loop_.post([self = self_, service = deployment.service, instance] {
    if (*self != nullptr && !(*self)->keepsState(*service, instance)) (*self)->loseSequences(*service, instance);
  });
}

void Gateway::Core::freeStates(Service& service) {
  for (const dispatch::FreedState& freed : service.sequences.takeFreed()) {
    for (const auto& deployment : deployments_) {
      if (deployment->service.get() == &service) deployment->backend.forget(freed.instance, freed.handle);
    }
  }
}

// Now, and again when the next one may be due.
void Gateway::Core::expireSequences(const std::shared_ptr<Service>& service) {
  const auto next = service->sequences.expire(now());
  freeStates(*service);
  service->sequencesExpire.reset();
  if (!next) return;
  service->sequencesExpire = loop_.after(*next - now(), [self = self_, weak = std::weak_ptr(service)] {
    const auto still = weak.lock();
    if (*self != nullptr && still != nullptr) (*self)->expireSequences(still);
  });
}

void Gateway::Core::dropOverdueOrdered(Deployment& deployment) {
  const std::vector<std::uint32_t> ordered = deployment.ordered;
  for (const std::uint32_t index : ordered) {
    Inference& inference = *inferences_[index];
    if (inference.stage != Stage::Ordered || inference.deployment != &deployment) continue;
    if (inference.deadline > now()) {
      arm(deployment, inference.deadline);
      continue;
    }
    refuse(inference, {{Code::DeadlineExceeded, "DeadlinePassed",
                        "the deadline passed while requests of sequence \"" + inference.request.sequence +
                            "\" before it ran; allow more time, or send the next when one was answered"},
                       {},
                       {},
                       0});
  }
}

}  // namespace coterie::gateway
