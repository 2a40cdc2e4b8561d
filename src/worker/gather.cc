#include "worker/gather.h"

#include <algorithm>
#include <cstring>

namespace coterie::worker {

namespace {

constexpr std::size_t kAlignment = 64;

Error bad(const char* what) { return {Code::InvalidArgument, "BadRequest", what}; }

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool inside(const channel::TensorPlace& place, std::span<const std::byte> arena) {
  return place.offset <= arena.size() && place.length <= arena.size() - place.offset;
}

bool agree(const channel::TensorPlace& a, const channel::TensorPlace& b) {
  return a.index == b.index && a.rank == b.rank && std::equal(a.shape().begin() + 1, a.shape().end(), b.shape().begin() + 1);
}

}  // namespace

Status Gather::join(const channel::RunMessage& message, std::span<const std::byte> arena, const ModelSignature& signature,
                    std::vector<onnx::Input>& inputs) {
  inputs.clear();
  if (message.memberCount == 1) {
    for (const channel::TensorPlace& place : message.inputsOf(0)) {
      if (!inside(place, arena)) return bad("an input is outside its arena");
      inputs.push_back({place.index, place.shape(), arena.subspan(place.offset, place.length)});
    }
    return {};
  }
  if (Status s = plan(message, arena, signature, inputs); !s.ok()) return s;
  std::size_t needed = 0;
  for (const std::size_t bytes : bytes_) needed += aligned(bytes);
  if (!reserve(needed)) return Error{Code::ResourceExhausted, "OutOfMemory", "there is no memory to join the inputs of a batch"};
  std::byte* to = memory_.get();
  for (std::size_t i = 0; i < message.inputCount; ++i) {
    inputs[i].bytes = {to, bytes_[i]};
    std::byte* at = to;
    for (std::size_t member = 0; member < message.memberCount; ++member) {
      const channel::TensorPlace& place = message.inputsOf(member)[i];
      if (place.length > 0) std::memcpy(at, arena.data() + place.offset, place.length);
      at += place.length;
    }
    to += aligned(bytes_[i]);
  }
  return {};
}

// Checks all of it, and adds up rows and bytes.
Status Gather::plan(const channel::RunMessage& message, std::span<const std::byte> arena, const ModelSignature& signature,
                    std::vector<onnx::Input>& inputs) {
  dims_.resize(message.inputCount);
  bytes_.assign(message.inputCount, 0);
  for (std::size_t i = 0; i < message.inputCount; ++i) {
    const channel::TensorPlace& first = message.inputsOf(0)[i];
    if (first.index >= signature.inputs.size()) return bad("no such input");
    const TensorSpec& spec = signature.inputs[first.index];
    if (first.rank == 0 || spec.type == ElementType::ByteString) return bad("inputs without rows cannot be joined");
    dims_[i] = first.dims;
    dims_[i][0] = 0;
    for (std::size_t member = 0; member < message.memberCount; ++member) {
      const channel::TensorPlace& place = message.inputsOf(member)[i];
      if (!inside(place, arena)) return bad("an input is outside its arena");
      if (!agree(first, place)) return bad("requests of one run do not agree");
      if (Status s = onnx::checkTensor(spec, place.shape(), arena.subspan(place.offset, place.length)); !s.ok()) return s;
      // Neither sum overflows: each length lies in the arena, and rows of no bytes are bounded by this.
      if (__builtin_add_overflow(dims_[i][0], place.dims[0], &dims_[i][0])) return bad("too many rows");
      bytes_[i] += place.length;
    }
    inputs.push_back({first.index, {dims_[i].data(), first.rank}, {}});
  }
  return {};
}

bool Gather::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return true;
  memory_.reset();
  capacity_ = 0;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (memory_ == nullptr) return false;
  capacity_ = bytes;
  return true;
}

void Gather::release() {
  if (capacity_ <= kKept) return;
  memory_.reset();
  capacity_ = 0;
}

}  // namespace coterie::worker
