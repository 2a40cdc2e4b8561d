#include "model/batching.h"

#include <algorithm>
#include <string_view>

namespace coterie {

namespace {
std::optional<std::string> whyNot(std::string_view side, const TensorSpec& spec) {
  const std::string which = std::string(side) + " \"" + spec.name + "\" ";
  if (spec.type == ElementType::ByteString) return which + "is of type BYTES";
  if (spec.shape.empty()) return which + "has no first dimension";
  if (spec.shape.front() != kDynamic) return which + "has a fixed first dimension, " + std::to_string(spec.shape.front());
  return std::nullopt;
}
}  // namespace

std::optional<std::string> whyNoBatches(const ModelSignature& signature) {
  if (signature.inputs.empty() || signature.outputs.empty()) return "the model has no inputs or no outputs";
  if (signature.inputs.size() > kMostBatchTensors / 2) return "the model has more than " + std::to_string(kMostBatchTensors / 2) + " inputs";
  for (const TensorSpec& input : signature.inputs) {
    if (auto why = whyNot("input", input)) return why;
  }
  for (const TensorSpec& output : signature.outputs) {
    if (auto why = whyNot("output", output)) return why;
  }
  return std::nullopt;
}

int mostInBatch(const ModelSignature& signature) {
  if (whyNoBatches(signature)) return 1;
  return static_cast<int>(std::min<std::size_t>(kMostBatch, kMostBatchTensors / signature.inputs.size()));
}

}  // namespace coterie
