#include "channel/answer_check.h"

#include <algorithm>
#include <cstring>

#include "channel/arena.h"
#include "channel/control_messages.h"

namespace coterie::channel {

namespace {

Error breach(const char* what) { return {Code::Internal, "ProtocolViolation", what}; }

// tensorBytes() without making a Shape.
std::optional<std::uint64_t> denseBytes(ElementType type, std::span<const std::int64_t> shape) {
  std::uint64_t bytes = elementSize(type);
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dim), &bytes)) return std::nullopt;
  }
  return bytes;
}

bool fits(const Shape& specified, std::span<const std::int64_t> shape) {
  if (specified.empty()) return true;  // scalar, or a rank that the model leaves open
  if (specified.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (specified[i] != kDynamic && specified[i] != shape[i]) return false;
  }
  return true;
}

}  // namespace

Status checkPlaces(const AnswerMessage& answer, const ModelSignature& signature, std::span<const int> wanted, std::uint64_t cellOffset,
                   std::uint64_t cellBytes) {
  if (answer.outputCount != wanted.size()) return breach("it answered another number of outputs than it was asked for");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const TensorPlace& place = answer.outputs[i];
    if (place.index != wanted[i] || place.index >= signature.outputs.size()) return breach("it answered an output that it was not asked for");
    if (place.offset < cellOffset || place.offset - cellOffset > cellBytes || place.length > cellBytes - (place.offset - cellOffset)) {
      return breach("it answered with a place outside its cell");
    }
    if (place.offset % kTensorAlignment != 0) return breach("it answered with a place that is not aligned");
    const TensorSpec& spec = signature.outputs[place.index];
    if (!fits(spec.shape, place.shape())) return breach("it answered with a shape that does not fit the model's");
    if (std::any_of(place.shape().begin(), place.shape().end(), [](std::int64_t dim) { return dim < 0; }))
      return breach("it answered with a negative dimension");
    if (spec.type == ElementType::ByteString) continue;
    if (denseBytes(spec.type, place.shape()) != place.length) return breach("it answered with a length that does not match the shape");
  }
  return {};
}

bool wellFormedByteStrings(std::span<const std::byte> bytes, std::span<const std::int64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(dim), &elements)) return false;
  }
  for (; elements > 0; --elements) {
    std::uint32_t length = 0;
    if (bytes.size() < sizeof length) return false;
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes = bytes.subspan(sizeof length);
    if (bytes.size() < length) return false;
    bytes = bytes.subspan(length);
  }
  return bytes.empty();
}

Error presentable(const Error& error) {
  const bool allowed = error.code == Code::InvalidArgument || error.code == Code::Cancelled || error.code == Code::Unimplemented;
  return {allowed ? error.code : Code::Internal, printable(error.reason, 64), printable(error.message, 512)};
}

bool sameSignature(const ModelSignature& a, const ModelSignature& b) {
  const auto same = [](const TensorSpec& x, const TensorSpec& y) {
    return x.name == y.name && x.type == y.type && x.shape == y.shape && x.optional == y.optional && x.carries == y.carries;
  };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), same) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), same);
}

}  // namespace coterie::channel
