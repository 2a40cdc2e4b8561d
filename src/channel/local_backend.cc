#include "channel/local_backend.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/cpu_clock.h"
#include "channel/answer_check.h"
#include "channel/local_backend_state.h"
#include "channel/seqpacket.h"

namespace coterie::channel {

// Outputs in the response arena, or copied from it; holds its cell until destroyed.
class LocalBackend::LocalAnswer final : public Answer {
 public:
  LocalAnswer(std::shared_ptr<Instance> instance, int lane, int cell) : instance_(std::move(instance)), lane_(lane), cell_(cell) {
    instance_->lanes[static_cast<std::size_t>(lane_)].held[static_cast<std::size_t>(cell_)] = true;
  }
  LocalAnswer(const LocalAnswer&) = delete;
  LocalAnswer& operator=(const LocalAnswer&) = delete;
  ~LocalAnswer() override { releaseCell(); }
  [[nodiscard]] std::span<const OutputTensor> outputs() const override { return outputs_; }
  [[nodiscard]] bool copied() const override { return cell_ < 0; }

  void add(int output, std::span<const std::int64_t> dims, std::uint64_t offset, std::uint64_t length) {
    outputs_.push_back({output, Shape(dims.begin(), dims.end()), instance_->answers->bytes().subspan(offset, length)});
    const std::uint64_t base = instance_->answers->cellOffset(lane_, cell_);
    used_ = std::max(used_, offset + length - base);
  }
  // Replaces the last output's place by a private copy, so that the worker cannot change it any more.
  std::span<const std::byte> copyLast() {
    OutputTensor& last = outputs_.back();
    copies_.emplace_back(last.data.begin(), last.data.end());
    last.data = copies_.back();
    return last.data;
  }
  void copyAllAndReleaseCell() {
    for (OutputTensor& output : outputs_) {
      copies_.emplace_back(output.data.begin(), output.data.end());
      output.data = copies_.back();
    }
    releaseCell();
  }

 private:
  void releaseCell() {
    if (cell_ < 0) return;
    instance_->lanes[static_cast<std::size_t>(lane_)].held[static_cast<std::size_t>(cell_)] = false;
    instance_->answers->giveBack(lane_, cell_, used_);
    cell_ = -1;
  }

  std::shared_ptr<Instance> instance_;  // keeps the mapping
  int lane_;
  int cell_;
  std::uint64_t used_{0};
  std::vector<OutputTensor> outputs_;
  std::vector<std::vector<std::byte>> copies_;
};

LocalBackend::LocalBackend(EventLoop& loop, std::shared_ptr<RequestArena> arena, ModelSignature signature, Supervision& supervision,
                           BackendOptions options)
    : loop_(loop),
      arena_(std::move(arena)),
      signature_(std::move(signature)),
      supervision_(supervision),
      options_(options),
      outgoing_(std::make_unique<RunMessage>()),
      incoming_(std::make_unique<AnswerMessage>()),
      buffer_(kMaxLaneMessage),
      alive_(std::make_shared<bool>(true)) {}

LocalBackend::~LocalBackend() {
  *alive_ = false;
  for (const auto& gone : retired_) unwatch(*gone);
  for (auto& [id, instance] : instances_) unwatch(*instance);
  for (auto& [id, instance] : instances_) {
    for (Lane& lane : instance->lanes) {
      if (!lane.busy) continue;
      lane.busy = false;
      RunOutcome outcome{Error{Code::Unavailable, "ShuttingDown", "the service is being shut down"}, {}, {}, {}, false, false};
      if (const Completion completion = std::exchange(lane.completion, nullptr)) completion(std::move(outcome));
    }
  }
}

Status LocalBackend::addInstance(InstanceEndpoint endpoint) {
  if (!sameSignature(endpoint.signature, signature_)) {
    return Error{Code::Conflict, "SignatureDiffers", "the instance's model has other inputs or outputs than the service's"};
  }
  auto instance = std::make_shared<Instance>();
  instance->id = endpoint.id;
  instance->signals = std::move(endpoint.signals);
  instance->process = std::move(endpoint.process);
  instance->answers = std::move(endpoint.answers);
  instance->pid = endpoint.pid;
  instance->width = endpoint.width;
  instance->cost = CostMeter(cpuTimeOf(endpoint.pid).value_or(Nanos{}), endpoint.width);
  instance->lanes.resize(endpoint.ownLanes.size() + endpoint.loanLanes.size());
  for (std::size_t i = 0; i < instance->lanes.size(); ++i) {
    Lane& lane = instance->lanes[i];
    const bool own = i < endpoint.ownLanes.size();
    lane.instance = instance.get();
    lane.index = static_cast<int>(i);
    lane.laneClass = own ? LaneClass::Own : LaneClass::Loan;
    lane.socket = std::move(own ? endpoint.ownLanes[i] : endpoint.loanLanes[i - endpoint.ownLanes.size()]);
    lane.watch = loop_.whenReadable(lane.socket.get(), [this, &lane] { onReadable(lane); });
  }
  instance->processWatch = loop_.whenReadable(instance->process.get(), [this, raw = instance.get()] { onProcessEnd(*raw); });
  Instance& added = *instance;
  instances_[endpoint.id] = std::move(instance);
  for (Lane& lane : added.lanes) offer(lane);
  return {};
}

void LocalBackend::offer(Lane& lane) {
  if (listener_ == nullptr || !lane.open || lane.instance->draining || lane.instance->suspended || std::exchange(lane.offered, true)) return;
  listener_->laneReady({lane.ref(), lane.laneClass});
}

void LocalBackend::withdraw(Lane& lane) {
  lane.withdrawn = false;
  if (std::exchange(lane.offered, false) && listener_ != nullptr) listener_->laneGone(lane.ref());
}

void LocalBackend::setListener(Listener* listener) {
  listener_ = listener;
  for (auto& [id, instance] : instances_) {
    for (Lane& lane : instance->lanes) {
      lane.offered = false;
      offer(lane);
    }
  }
}

LocalBackend::Lane* LocalBackend::find(const LaneRef& ref) {
  const auto found = instances_.find(ref.instance);
  if (found == instances_.end() || !ref.lane.valid()) return nullptr;
  const auto index = static_cast<std::size_t>(ref.lane.value);
  return index < found->second->lanes.size() ? &found->second->lanes[index] : nullptr;
}

void LocalBackend::reject(Completion completion, Error error, bool neverStarted) {
  auto outcome = std::make_shared<RunOutcome>(RunOutcome{std::move(error), {}, {}, {}, neverStarted, false});
  loop_.post([outcome, completion = std::move(completion)] { completion(std::move(*outcome)); });
}

namespace {
Error badRequest(const char* what) { return {Code::InvalidArgument, "BadRequest", what}; }

// Writes where one member's tensors lie.
Status place(const RunMember& member, std::span<TensorPlace> places) {
  const auto* cell = static_cast<const RequestArena::Cell*>(member.cell.get());
  const std::uint64_t room = cell == nullptr ? 0 : member.cell->bytes().size();
  for (std::size_t i = 0; i < member.inputs.size(); ++i) {
    const InputTensor& input = member.inputs[i];
    TensorPlace& to = places[i];
    if (input.shape.size() > kMaxRank) return badRequest("a tensor has too many dimensions");
    if (input.offset % kTensorAlignment != 0 || input.offset > room || input.length > room - input.offset)
      return badRequest("a tensor lies outside its cell");
    to.index = static_cast<std::uint16_t>(input.input);
    to.rank = static_cast<std::uint16_t>(input.shape.size());
    to.offset = (cell == nullptr ? 0 : cell->offset()) + input.offset;
    to.length = input.length;
    std::copy(input.shape.begin(), input.shape.end(), to.dims.begin());
  }
  return {};
}
}  // namespace

// The states are the last of the outputs.
Status LocalBackend::addSequence(const std::optional<SequencePart>& part, RunMessage& message) const {
  message.sequence = part ? part->handle : 0;
  message.fresh = part && part->fresh;
  message.end = part && part->end;
  message.takesBack = part && part->takesBack;
  message.stateBytes = part ? static_cast<std::uint64_t>(std::max<std::int64_t>(part->most.value, 0)) : 0;
  message.stateCount = 0;
  if (!part) return {};
  if (message.memberCount != 1) return badRequest("requests of sequences do not run as one");
  for (std::size_t i = 0; i < signature_.outputs.size(); ++i) {
    if (!signature_.outputs[i].isState()) continue;
    if (message.outputCount == kMaxTensors) return badRequest("too many tensors in one run");
    message.outputs[message.outputCount++] = static_cast<std::uint16_t>(i);
    message.stateInputs[message.stateCount++] = static_cast<std::uint16_t>(signature_.outputs[i].carries);
  }
  return {};
}

// Fills outgoing_ from the request, as far as the request is sound. That members agree is the worker's to check: it is the one that joins them.
Status LocalBackend::prepare(Lane& lane, const RunRequest& request) {
  const std::size_t members = request.members.size();
  const std::size_t inputs = members == 0 ? 0 : request.members.front().inputs.size();
  if (members == 0 || members > kMaxMembers) return badRequest("a run has 1 to 64 requests");
  if (inputs > kMaxTensors || inputs * members > kMaxPlaces || request.outputs.size() > kMaxTensors) return badRequest("too many tensors in one run");
  RunMessage& message = *outgoing_;
  message.memberCount = static_cast<std::uint16_t>(members);
  message.inputCount = static_cast<std::uint16_t>(inputs);
  message.outputCount = static_cast<std::uint16_t>(request.outputs.size());
  for (std::size_t i = 0; i < members; ++i) {
    if (request.members[i].inputs.size() != inputs) return badRequest("requests of one run have other numbers of inputs");
    if (Status s = place(request.members[i], std::span(message.inputs).subspan(i * inputs, inputs)); !s.ok()) return s;
  }
  for (std::size_t i = 0; i < request.outputs.size(); ++i) message.outputs[i] = static_cast<std::uint16_t>(request.outputs[i]);
  if (Status s = addSequence(request.sequence, message); !s.ok()) return s;
  lane.cell = lane.held[0] ? 1 : 0;  // one is always free: see finish()
  message.generation = lane.generation + 1;
  message.cellOffset = lane.instance->answers->cellOffset(lane.index, lane.cell);
  message.cellBytes = lane.instance->answers->cellBytes();
  return {};
}

void LocalBackend::run(const LaneRef& ref, RunRequest request, Completion completion) {
  Lane* lane = find(ref);
  if (lane == nullptr || !lane->open || lane->instance->draining || lane->instance->suspended) {
    reject(std::move(completion), {Code::Unavailable, "LaneGone", "the lane is gone"}, true);
    return;
  }
  if (lane->busy) {
    reject(std::move(completion), {Code::Internal, "LaneBusy", "the lane runs another request"}, true);
    return;
  }
  if (Status s = prepare(*lane, request); !s.ok()) {
    reject(std::move(completion), s.error(), true);
    return;
  }
  const std::size_t size = encode(*outgoing_, buffer_);
  ++lane->generation;
  lane->busy = true;
  lane->completion = std::move(completion);
  lane->inputs.clear();
  for (RunMember& member : request.members) lane->inputs.push_back(std::move(member.cell));
  lane->wanted = std::move(request.outputs);
  lane->started = loop_.clock().now();
  lane->maxRun = request.maxRun;
  lane->stopWanted = false;
  lane->askedToStop = false;
  ++running_;
  armSweep();
  if (send(lane->socket.get(), std::span<const std::byte>(buffer_).first(size), Wait::No)) return;
  // The worker is gone, or does not read: it never had this request. Its end is noticed through its socket or process.
  loop_.post([this, alive = alive_, ref, generation = lane->generation] {
    if (!*alive) return;
    Lane* again = find(ref);
    if (again != nullptr && again->busy && again->generation == generation) close(*again, Ending::NeverStarted);
  });
}

void LocalBackend::onReadable(Lane& lane) {
  if (!lane.open && !lane.busy) return;
  const Received received = receive(lane.socket.get(), buffer_, Wait::No);
  switch (received.outcome) {
    case ReceiveOutcome::Nothing: return;
    case ReceiveOutcome::Closed: return close(lane, Ending::Crashed);
    case ReceiveOutcome::Reset: return close(lane, Ending::NeverStarted);
    case ReceiveOutcome::Failed: return close(lane, Ending::Crashed);
    case ReceiveOutcome::Message: break;
  }
  Instance& instance = *lane.instance;
  if (received.truncated || !decode(std::span<const std::byte>(buffer_).first(received.size), *incoming_)) {
    return violated(instance, EndReason::ProtocolViolation, "it sent a malformed answer");
  }
  if (!lane.busy) return violated(instance, EndReason::ProtocolViolation, "it sent an answer that nobody asked for");
  if (incoming_->generation != lane.generation)
    return violated(instance, EndReason::ProtocolViolation, "it answered another request than it was given");
  finish(lane);
}

Result<std::unique_ptr<Answer>> LocalBackend::makeAnswer(Lane& lane) {
  const std::uint64_t base = lane.instance->answers->cellOffset(lane.index, lane.cell);
  if (Status s = checkPlaces(*incoming_, signature_, lane.wanted, base, lane.instance->answers->cellBytes()); !s.ok()) return s.error();
  auto answer = std::make_unique<LocalAnswer>(instances_.at(lane.instance->id), lane.index, lane.cell);
  for (std::size_t i = 0; i < incoming_->outputCount; ++i) {
    const TensorPlace& place = incoming_->outputs[i];
    answer->add(place.index, place.shape(), place.offset, place.length);
    if (signature_.outputs[place.index].type != ElementType::ByteString) continue;
    if (!wellFormedByteStrings(answer->copyLast(), place.shape()))
      return Error{Code::Internal, "ProtocolViolation", "it sent malformed BYTES elements"};
  }
  if (lane.held[0] && lane.held[1]) answer->copyAllAndReleaseCell();
  return std::unique_ptr<Answer>(std::move(answer));
}

// Times are the worker's word: bounded by what the gateway and the kernel have seen themselves.
Nanos LocalBackend::believedWait(const Lane& lane, const CostMeter::Claim& claim) {
  Instance& instance = *lane.instance;
  if (instance.pid == 0 || !CostMeter::wantsProof(claim)) return instance.cost.settle(claim);
  const std::optional<Nanos> cpu = cpuTimeOf(instance.pid);
  if (!cpu) return instance.cost.settle({claim.held, Nanos{}});
  Nanos underWay{};
  for (const Lane& other : instance.lanes) {
    if (other.busy && &other != &lane) underWay += loop_.clock().now() - other.started;
  }
  return instance.cost.settle(claim, *cpu, underWay);
}

// The worker has answered the run in progress: incoming_ holds what it said.
void LocalBackend::finish(Lane& lane) {
  Instance& instance = *lane.instance;
  if (instance.silence.heard() == SilenceWatch::Sign::IsBack) supervision_.answers(instance.id);
  RunOutcome outcome{Error{}, {}, {}, {}, false, false};
  outcome.held = loop_.clock().now() - lane.started;
  outcome.queuedForCpu = believedWait(lane, {outcome.held, Nanos(incoming_->queuedNanos)});
  outcome.cpu = std::clamp(Nanos(incoming_->cpuNanos), Nanos{}, outcome.held * instance.width);
  if (lane.completion == nullptr) return complete(lane, std::move(outcome));  // it was told to try elsewhere; what this says is of no use
  if (incoming_->failed) {
    outcome.answer = presentable(incoming_->error);
    return complete(lane, std::move(outcome));
  }
  auto answer = makeAnswer(lane);
  if (!answer.ok()) return violated(instance, EndReason::ProtocolViolation, answer.error().message);
  outcome.answer = std::move(answer);
  complete(lane, std::move(outcome));
}

void LocalBackend::complete(Lane& lane, RunOutcome outcome) {
  Instance& instance = *lane.instance;
  const std::shared_ptr<Instance> keep = instances_.at(instance.id);  // the completion may remove it
  const Completion completion = std::exchange(lane.completion, nullptr);
  lane.inputs.clear();
  lane.busy = false;
  --running_;
  const std::shared_ptr<bool> alive = alive_;
  if (completion != nullptr) completion(std::move(outcome));
  if (!*alive) return;
  if (lane.withdrawn) withdraw(lane);
  if (!instance.draining) return offer(lane);
  lane.open = false;
  withdraw(lane);
  settleDrain(instance);
}

void LocalBackend::failRunning(Lane& lane, Ending ending) {
  if (!lane.busy) return;
  RunOutcome outcome{Error{}, loop_.clock().now() - lane.started, {}, {}, false, false};
  switch (ending) {
    case Ending::Crashed:
      outcome.instanceCrashed = true;
      outcome.answer = Error{Code::Unavailable, "InstanceCrashed", "the model server ended while it ran this request"};
      break;
    case Ending::NeverStarted:
      outcome.neverStarted = true;
      outcome.answer = Error{Code::Unavailable, "InstanceGone", "the model server ended before it took this request"};
      break;
    case Ending::Violated:
      outcome.instanceCrashed = true;
      outcome.answer = Error{Code::Internal, "ProtocolViolation", "the model server broke its protocol and was ended"};
      break;
  }
  complete(lane, std::move(outcome));
}

// The lane will never answer again. Its descriptor is closed later: this may be its own callback.
void LocalBackend::close(Lane& lane, Ending ending) {
  if (!lane.open) return;
  lane.open = false;
  Instance& instance = *lane.instance;
  const std::shared_ptr<Instance> keep = instances_.at(instance.id);
  const std::shared_ptr<bool> alive = alive_;
  loop_.post([alive, weak = std::weak_ptr(keep), &lane] {
    if (const auto kept = weak.lock(); *alive && kept) lane.watch.reset();
  });
  failRunning(lane, ending);
  if (!*alive) return;
  withdraw(lane);
  if (!instances_.contains(instance.id) || instance.deathTimer) return;
  // A worker that dies closes everything within moments. One that lives on without a lane is broken.
  instance.deathTimer =
      loop_.after(options_.killAfter, [this, raw = &instance] { violated(*raw, EndReason::ProtocolViolation, "it closed a lane and lived on"); });
}

void LocalBackend::onProcessEnd(Instance& instance) {
  const std::shared_ptr<Instance> keep = instances_.find(instance.id) == instances_.end() ? nullptr : instances_.at(instance.id);
  pollfd process{instance.process.get(), POLLIN, 0};
  if (keep == nullptr || ::poll(&process, 1, 0) <= 0) return;  // a loop may call back without cause
  const std::shared_ptr<bool> alive = alive_;
  for (Lane& lane : instance.lanes) {
    if (!*alive) return;
    if (lane.open) onReadable(lane);  // a last answer, or how it ended
    if (!*alive) return;
    if (lane.open) close(lane, Ending::Crashed);
  }
  if (*alive) retire(instance);
}

void LocalBackend::removeInstance(InstanceId id) {
  const auto found = instances_.find(id);
  if (found == instances_.end()) return;
  const std::shared_ptr<Instance> keep = found->second;
  const std::shared_ptr<bool> alive = alive_;
  for (Lane& lane : keep->lanes) {
    if (!*alive) return;
    close(lane, Ending::Crashed);
  }
  if (*alive) retire(*keep);
}

void LocalBackend::violated(Instance& instance, EndReason reason, const std::string& message) {
  if (!instances_.contains(instance.id)) return;
  const std::shared_ptr<Instance> keep = instances_.at(instance.id);
  const std::shared_ptr<bool> alive = alive_;
  if (!std::exchange(instance.reported, true)) supervision_.misbehaved(instance.id, reason, message);
  for (Lane& lane : keep->lanes) {
    if (!*alive) return;
    close(lane, reason == EndReason::ProtocolViolation ? Ending::Violated : Ending::Crashed);
  }
  if (*alive) retire(*keep);
}

// An instance may live on in answers that are being read; its callbacks must not.
void LocalBackend::unwatch(Instance& instance) {
  instance.deathTimer.reset();
  instance.processWatch.reset();
  for (Lane& lane : instance.lanes) lane.watch.reset();
}

// Forgets an instance that has no open lane. Its watches end later: this may be one of their callbacks.
void LocalBackend::retire(Instance& instance) {
  const auto found = instances_.find(instance.id);
  if (found == instances_.end()) return;
  const std::shared_ptr<Instance> keep = found->second;
  instances_.erase(found);
  retired_.push_back(keep);
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    for (const auto& gone : retired_) unwatch(*gone);
    retired_.clear();
  });
  if (keep->drained) loop_.post(std::exchange(keep->drained, nullptr));
}

void LocalBackend::drainInstance(InstanceId id, std::function<void()> drained) {
  const auto found = instances_.find(id);
  if (found == instances_.end()) {
    loop_.post(std::move(drained));
    return;
  }
  const std::shared_ptr<Instance> keep = found->second;
  keep->drained = std::move(drained);
  if (std::exchange(keep->draining, true)) return;
  for (Lane& lane : keep->lanes) {
    if (lane.busy || !std::exchange(lane.open, false)) continue;
    withdraw(lane);
  }
  settleDrain(*keep);
}

// After a run on a draining instance: that lane is gone; after the last one the instance is.
void LocalBackend::settleDrain(Instance& instance) {
  bool busy = false;
  for (Lane& lane : instance.lanes) busy = busy || lane.busy;
  if (!busy) retire(instance);
}

}  // namespace coterie::channel
