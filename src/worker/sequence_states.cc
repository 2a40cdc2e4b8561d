#include "worker/sequence_states.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "model/states.h"

namespace coterie::worker {

namespace {
constexpr std::size_t kAlignment = 64;

bool reserve(StateTensor& tensor, std::size_t bytes) {
  const std::size_t whole = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  tensor.memory.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
  tensor.bytes = bytes;
  return tensor.memory != nullptr;
}

Error noMemory() { return {Code::ResourceExhausted, "OutOfMemory", "there is no memory to keep the state of a sequence"}; }

Result<std::shared_ptr<const SequenceState>> zeros(const channel::RunMessage& message, const ModelSignature& signature) {
  auto state = std::make_shared<SequenceState>();
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < message.stateCount; ++i) {
    const TensorSpec& spec = signature.inputs[message.stateInputs[i]];
    StateTensor tensor;
    tensor.dims = stateAtStart(spec);
    const auto bytes = tensorBytes(spec.type, tensor.dims);
    if (!bytes || __builtin_add_overflow(all, *bytes, &all) || all > message.stateBytes)
      return Error{Code::InvalidArgument, "SequenceStateTooLarge", "a state of zeros is larger than a sequence may have"};
    if (!reserve(tensor, *bytes)) return noMemory();
    std::memset(tensor.memory.get(), 0, tensor.bytes);
    state->push_back(std::move(tensor));
  }
  return std::shared_ptr<const SequenceState>(std::move(state));
}
}  // namespace

SequenceStates::State SequenceStates::find(std::uint64_t handle, Which which) const {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(handle);
  if (found == states_.end()) return nullptr;
  return which == Which::Last ? found->second.last : found->second.before;
}

void SequenceStates::put(std::uint64_t handle, State state, State before) {
  Kept kept{std::move(state), std::move(before)};  // what was there is freed without the lock
  const std::lock_guard lock(mutex_);
  if (forgotten_.erase(handle) == 0) std::swap(states_[handle], kept);
}

void SequenceStates::forget(std::uint64_t handle) {
  Kept gone;
  const std::lock_guard lock(mutex_);
  if (const auto found = states_.find(handle); found != states_.end()) {
    gone = std::move(found->second);
    states_.erase(found);
  } else {
    forgotten_.insert(handle);
  }
}

Result<std::shared_ptr<const SequenceState>> takeState(const channel::RunMessage& message, const ModelSignature& signature,
                                                       const SequenceStates& states, std::vector<onnx::Input>& inputs) {
  const auto named = std::span(message.stateInputs).first(message.stateCount);
  if (std::any_of(named.begin(), named.end(),
                  [&](std::uint16_t input) { return input >= signature.inputs.size() || signature.inputs[input].type == ElementType::ByteString; }))
    return Error{Code::InvalidArgument, "BadRequest", "no such state"};
  const auto which = message.takesBack ? SequenceStates::Which::Before : SequenceStates::Which::Last;
  Result<std::shared_ptr<const SequenceState>> state = message.fresh ? zeros(message, signature) : states.find(message.sequence, which);
  if (!state) return state;
  if (*state == nullptr || (*state)->size() != message.stateCount)
    return Error{Code::Internal, "SequenceStateMissing", "the state of this sequence is not here"};
  for (std::size_t i = 0; i < message.stateCount; ++i) inputs.push_back({message.stateInputs[i], (**state)[i].dims, (**state)[i].data()});
  return state;
}

Status keepState(const channel::RunMessage& message, std::span<const onnx::Output> outputs, std::span<const std::byte> memory,
                 const std::shared_ptr<const SequenceState>& before, SequenceStates& states) {
  if (message.end) {
    states.forget(message.sequence);
    return {};
  }
  auto state = std::make_shared<SequenceState>();
  std::uint64_t all = 0;
  for (const onnx::Output& output : outputs.last(message.stateCount)) {
    all += output.length;
    if (all > message.stateBytes)
      return Error{Code::InvalidArgument, "SequenceStateTooLarge",
                   "the state of this sequence would have more than the " + std::to_string(message.stateBytes) +
                       " bytes allowed; begin a new one, or raise stateful.stateMemory"};
    StateTensor tensor;
    tensor.dims = output.dims;
    if (!reserve(tensor, output.length)) return noMemory();
    if (output.length > 0) std::memcpy(tensor.memory.get(), memory.data() + output.offset, output.length);
    state->push_back(std::move(tensor));
  }
  states.put(message.sequence, std::move(state), before);
  return {};
}

}  // namespace coterie::worker
