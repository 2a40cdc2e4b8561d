// A run's message with any numbers in it: joining its inputs reads nothing outside the arena, and gives what the runner may believe.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "worker/gather.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace coterie;
  static const ModelSignature kSignature{{{"x", ElementType::Fp32, {kDynamic, 2}, false}, {"ids", ElementType::Int64, {kDynamic, kDynamic}, false}},
                                         {}};
  static const std::vector<std::byte> kArena(4096, std::byte{7});
  static worker::Gather gather;
  static std::vector<onnx::Input> inputs;
  const auto message = std::make_unique<channel::RunMessage>();
  if (!decode(std::as_bytes(std::span(data, size)), *message)) return 0;
  if (!gather.join(*message, kArena, kSignature, inputs).ok()) return 0;
  if (inputs.size() != message->inputCount) std::abort();
  for (const onnx::Input& input : inputs) {
    for (const std::byte byte : input.bytes) {
      if (byte != std::byte{7}) std::abort();
    }
    if (message->memberCount == 1) continue;
    const TensorSpec& spec = kSignature.inputs.at(static_cast<std::size_t>(input.input));
    if (!onnx::checkTensor(spec, input.dims, input.bytes).ok()) std::abort();
  }
  gather.release();
  return 0;
}
