// What passes over a lane's socket: a request to the worker, one answer back. One SOCK_SEQPACKET message each.
//
// Tensors lie in shared memory; messages carry where (offset, length) and what (index into the signature, shape). A message is received once into
// private memory and decoded once, so nothing in it can change after it was checked. decode*() check form only (counts, ranks, sizes, no byte left
// over); what needs knowledge of arenas and signatures is checked by the receiver. The generation ties an answer to its request: it is never used
// twice on a lane. O(message), no allocation save for a failure's text. Thread-compatible.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "model/batching.h"

namespace coterie::channel {

inline constexpr std::size_t kMaxTensors = 64;  // of one request, each way
inline constexpr std::size_t kMaxMembers = kMostBatch;
inline constexpr std::size_t kMaxPlaces = kMostBatchTensors;  // input tensors of all members of a run
inline constexpr std::size_t kMaxRank = 16;
inline constexpr std::size_t kMaxLaneMessage = 40 * 1024;  // a run of kMaxPlaces inputs of kMaxRank dimensions fits
inline constexpr std::size_t kMaxErrorText = 1024;

struct TensorPlace {
  std::uint16_t index{0};  // into the signature's inputs or outputs
  std::uint16_t rank{0};
  std::uint64_t offset{0};  // request: in the request arena; answer: in the response arena
  std::uint64_t length{0};
  std::array<std::int64_t, kMaxRank> dims{};
  [[nodiscard]] std::span<const std::int64_t> shape() const { return {dims.data(), rank}; }
};

struct RunMessage {
  std::uint64_t generation{0};
  std::uint64_t cellOffset{0};  // the response cell to write to
  std::uint64_t cellBytes{0};
  std::uint16_t memberCount{1};
  std::uint16_t inputCount{0};  // of each member
  std::uint16_t outputCount{0};
  std::array<TensorPlace, kMaxPlaces> inputs{};  // the first member's, then the second's, ...
  std::array<std::uint16_t, kMaxTensors> outputs{};
  // Of a sequence (then there is one member): what its last stateCount outputs are becomes the inputs stateInputs of its next run, in the worker.
  // They are not answered.
  std::uint64_t sequence{0};    // 0: of none
  bool fresh{false};            // begins with zeros
  bool end{false};              // keeps nothing
  bool takesBack{false};        // begins with what was there before its last run
  std::uint64_t stateBytes{0};  // the most that is kept of it
  std::uint16_t stateCount{0};
  std::array<std::uint16_t, kMaxTensors> stateInputs{};
  [[nodiscard]] std::size_t answerCount() const { return outputCount - std::size_t{stateCount}; }
  [[nodiscard]] std::span<const TensorPlace> inputsOf(std::size_t member) const { return {inputs.data() + member * inputCount, inputCount}; }
};

struct AnswerMessage {
  std::uint64_t generation{0};
  std::int64_t cpuNanos{0};     // thread CPU time of the run
  std::int64_t queuedNanos{0};  // waiting in the kernel's run queue since the lane's previous answer
  bool failed{false};
  Error error;  // if failed
  std::uint16_t outputCount{0};
  std::array<TensorPlace, kMaxTensors> outputs{};
};

// On an instance's signal socket: stop the run of this generation on this lane.
struct TerminateMessage {
  std::uint16_t lane{0};
  std::uint64_t generation{0};
};

// On the same socket: what is kept of that sequence is not needed any more.
struct ForgetMessage {
  std::uint64_t sequence{0};
};

// Bytes written, 0 if the buffer is too small.
[[nodiscard]] std::size_t encode(const RunMessage& message, std::span<std::byte> buffer);
[[nodiscard]] std::size_t encode(const AnswerMessage& message, std::span<std::byte> buffer);
[[nodiscard]] std::size_t encode(const TerminateMessage& message, std::span<std::byte> buffer);
[[nodiscard]] std::size_t encode(const ForgetMessage& message, std::span<std::byte> buffer);
// False if the bytes are no such message; `message` is then unspecified.
[[nodiscard]] bool decode(std::span<const std::byte> bytes, RunMessage& message);
[[nodiscard]] bool decode(std::span<const std::byte> bytes, AnswerMessage& message);
[[nodiscard]] bool decode(std::span<const std::byte> bytes, TerminateMessage& message);
[[nodiscard]] bool decode(std::span<const std::byte> bytes, ForgetMessage& message);

}  // namespace coterie::channel
