// What a worker keeps of sequences between their requests: the tensors that the model gave and takes again (model/states.h), by handle.
//
// A run takes what is kept, and puts its own in its place when it has succeeded: one that fails, or is stopped, leaves the state of the run before.
// What it began with is kept beside it until the next run succeeds: nobody may have been told of it in time, and then the next one begins there, too.
// The gateway sees to it that of a sequence one run is under way at a time; what two lanes did with one handle at once would be the later one's.
// Memory: what is kept, 64-byte aligned, and nothing for who has ended. find, put and forget O(log sequences). Thread-safe: lanes and the service
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "channel/lane_messages.h"
#include "model/tensor.h"
#include "onnx/session.h"

namespace coterie::worker {

struct StateTensor {
  std::vector<std::int64_t> dims;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory;
  std::size_t bytes{0};
  [[nodiscard]] std::span<const std::byte> data() const { return {memory.get(), bytes}; }
};
using SequenceState = std::vector<StateTensor>;  // in the order of the message's stateInputs

class SequenceStates {
 public:
  using State = std::shared_ptr<const SequenceState>;
  enum class Which : std::uint8_t { Last, Before };
  [[nodiscard]] State find(std::uint64_t handle, Which which) const;  // null: none
  // Nothing is kept of one that was forgotten while it ran.
  void put(std::uint64_t handle, State state, State before);
  void forget(std::uint64_t handle);

 private:
  struct Kept {
    State last, before;
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Kept> states_;
  std::set<std::uint64_t> forgotten_;  // of which nothing was kept then
};

// The state that the run of `message` begins with: zeros, or what is kept. Appends it to `inputs`, which stay valid while it lives. Internal/
// SequenceStateMissing, InvalidArgument/BadRequest, ResourceExhausted/OutOfMemory.
[[nodiscard]] Result<std::shared_ptr<const SequenceState>> takeState(const channel::RunMessage& message, const ModelSignature& signature,
                                                                     const SequenceStates& states, std::vector<onnx::Input>& inputs);
// A copy of what the run gave (the last of its outputs) is kept, or nothing after the sequence's end. InvalidArgument/SequenceStateTooLarge,
// ResourceExhausted/OutOfMemory: what was kept stays.
[[nodiscard]] Status keepState(const channel::RunMessage& message, std::span<const onnx::Output> outputs, std::span<const std::byte> memory,
                               const std::shared_ptr<const SequenceState>& before, SequenceStates& states);

}  // namespace coterie::worker
