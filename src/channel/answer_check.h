// Is what a worker answered possible? Checks on decoded messages, against the signature and the lane's own response cell.
//
// A worker is untrusted: it may send any numbers. What passes here can be read safely: every tensor lies in the cell, is as long as its shape says,
// and its shape fits the signature. The contents are whatever the worker wrote. O(outputs * rank), BYTES O(length). Pure; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "channel/lane_messages.h"
#include "model/tensor.h"

namespace coterie::channel {

// `wanted`: the outputs asked for, in order. The message of an error says what the worker did wrong.
[[nodiscard]] Status checkPlaces(const AnswerMessage& answer, const ModelSignature& signature, std::span<const int> wanted, std::uint64_t cellOffset,
                                 std::uint64_t cellBytes);

// Exactly as many elements (4-byte little-endian length, bytes) as the shape has, filling `bytes` to the last one.
[[nodiscard]] bool wellFormedByteStrings(std::span<const std::byte> bytes, std::span<const std::int64_t> shape);

// A failure's text as it may be shown, with a code that a worker may choose.
[[nodiscard]] Error presentable(const Error& error);

[[nodiscard]] bool sameSignature(const ModelSignature& a, const ModelSignature& b);

}  // namespace coterie::channel
