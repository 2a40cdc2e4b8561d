// Can requests to this model run as one, and how many?
//
// As one: their inputs one behind the other along the first dimension, one run, and each gets its rows of every output. Whether rows are computed
// independently of each other only the model's author knows; he says so by batching.maxRequests. What a signature can tell is asked here. O(tensors).
// Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "model/tensor.h"

namespace coterie {

inline constexpr int kMostBatch = 64;                  // requests in one run
inline constexpr std::size_t kMostBatchTensors = 256;  // input tensors of all of them: a lane's message holds no more

// Why not, for people: "input \"x\" has a fixed first dimension"; nothing if they can.
[[nodiscard]] std::optional<std::string> whyNoBatches(const ModelSignature& signature);
// How many requests one run may take: 1 if they cannot run as one, at most kMostBatch.
[[nodiscard]] int mostInBatch(const ModelSignature& signature);

}  // namespace coterie
