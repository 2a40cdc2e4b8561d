// Which outputs of a stateful model are inputs of the next request of the same sequence.
//
// A model whose state is a tensor takes it in and gives it out again; spec.stateful.states says which output becomes which input, and the worker
// keeps it between two requests (worker/sequence_states.h). At a sequence's start it is zeros, in the input's shape with open dimensions as 1. Pure.
// Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "model/tensor.h"

namespace coterie {

using StatePairs = std::vector<std::pair<std::string, std::string>>;  // output -> input

// Marks them in the signature. What is wrong, for people, names the tensor and what the model has; the signature is then as it was. O(pairs *
// tensors).
[[nodiscard]] std::optional<std::string> markStates(const StatePairs& states, ModelSignature& signature);

// Of one sequence at its start, all tensors together.
[[nodiscard]] Bytes stateBytes(const ModelSignature& signature);
[[nodiscard]] Shape stateAtStart(const TensorSpec& input);

}  // namespace coterie
