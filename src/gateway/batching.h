// Which inferences may run as one, and whose rows of the answer are whose.
//
// A batch joins its requests' inputs along the first dimension. They must agree in everything but the number of rows, which batchKey() puts into one
// number; the worker compares for itself, so that a collision fails and never mixes rows (a failed batch is run again one by one). An answer is taken
// apart only if each output has as many rows as the inputs together: what it says comes from a worker. Rows are views: the answer lives as long as
// the last of them. Of one that was copied into this process's memory rows are copied once more: who reads slowly is charged for his own bytes, and
// must not hold those of all. O(inputs), O(outputs x requests). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "oip/infer_request.h"
#include "ports/model_backend.h"

namespace coterie::gateway {

// Rows of the inputs; 0 if they have not all the same number of at least one: such a request runs alone.
[[nodiscard]] std::int64_t rowsOf(const std::vector<InputTensor>& inputs);

// Of which inputs, in which shapes but for the rows, and which outputs are wanted; 0: it must run alone.
[[nodiscard]] std::uint64_t batchKey(const std::vector<InputTensor>& inputs, const std::vector<oip::RequestOutput>& outputs);

// Whether each output has so many rows.
[[nodiscard]] bool keepsRows(const Answer& answer, std::int64_t rows);

// Each one's part, in the order of `rows`. Internal/RowsDiffer if an output has not as many rows as all of them together: the model's first dimension
// is not one of independent rows.
[[nodiscard]] Result<std::vector<std::shared_ptr<const Answer>>> takeApart(const std::shared_ptr<const Answer>& answer,
                                                                           std::span<const std::int64_t> rows);

}  // namespace coterie::gateway
