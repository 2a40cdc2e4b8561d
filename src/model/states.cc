#include "model/states.h"

#include <algorithm>
#include <cstdint>

namespace coterie {

namespace {
int indexOf(const std::vector<TensorSpec>& specs, const std::string& name) {
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec& spec) { return spec.name == name; });
  return found == specs.end() ? -1 : static_cast<int>(found - specs.begin());
}

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

std::string described(const TensorSpec& spec) {
  return quoted(spec.name) + " (" + std::string(elementTypeName(spec.type)) + " " + shapeText(spec.shape) + ")";
}

std::string listed(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const TensorSpec& spec : specs) text += (text.empty() ? "" : ", ") + described(spec);
  return text.empty() ? "none" : text;
}

bool fits(const Shape& given, const Shape& taken) {
  return given.size() == taken.size() &&
         std::equal(given.begin(), given.end(), taken.begin(), [](auto a, auto b) { return a == b || a == kDynamic || b == kDynamic; });
}
}  // namespace

std::optional<std::string> markStates(const StatePairs& states, ModelSignature& signature) {
  ModelSignature marked = signature;
  for (const auto& [from, to] : states) {
    const int output = indexOf(marked.outputs, from), input = indexOf(marked.inputs, to);
    if (output < 0) return "stateful.states: the model has no output " + quoted(from) + "; it gives " + listed(signature.outputs);
    if (input < 0) return "stateful.states: the model has no input " + quoted(to) + "; it takes " + listed(signature.inputs);
    TensorSpec& given = marked.outputs[static_cast<std::size_t>(output)];
    TensorSpec& taken = marked.inputs[static_cast<std::size_t>(input)];
    if (given.isState()) return "stateful.states: output " + quoted(from) + " is named twice";
    if (taken.isState()) return "stateful.states: input " + quoted(to) + " is named twice";
    if (given.type == ElementType::ByteString) return "stateful.states: output " + described(given) + " is text, which is no state";
    if (given.type != taken.type || !fits(given.shape, taken.shape))
      return "stateful.states: output " + described(given) + " cannot be input " + described(taken) + " of the next request";
    given.carries = input;
    taken.carries = output;
  }
  signature = std::move(marked);
  return std::nullopt;
}

Shape stateAtStart(const TensorSpec& input) {
  Shape shape = input.shape;
  std::replace(shape.begin(), shape.end(), kDynamic, std::int64_t{1});
  return shape;
}

Bytes stateBytes(const ModelSignature& signature) {
  std::int64_t bytes = 0;
  for (const TensorSpec& input : signature.inputs) {
    if (!input.isState()) continue;
    const auto each = tensorBytes(input.type, stateAtStart(input));
    if (!each || __builtin_add_overflow(bytes, static_cast<std::int64_t>(*each), &bytes)) return Bytes(INT64_MAX);
  }
  return Bytes(bytes);
}

}  // namespace coterie
