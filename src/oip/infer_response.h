// Inference answers: a JSON header (or all of the answer) and the spans that follow it.
//
// Outputs that were asked for as binary are not copied: `parts` names their bytes in place, in the order of the header's outputs, to be sent in one
// gathered write. Others become JSON lists. Data may lie in memory that the worker can still write: lengths and shapes come from the caller, each
// byte is read once. Errors: InvalidArgument if JSON cannot carry an output (the message says to ask for binary_data), Internal if the bytes do not
// fit the shape. O(header + bytes of JSON outputs). Pure. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace coterie::oip {

struct OutputView {
  const TensorSpec* spec{nullptr};
  const Shape* shape{nullptr};
  std::span<const std::byte> data;
  bool binary{false};
};

struct InferResponse {
  std::string json;
  std::vector<std::span<const std::byte>> parts;  // behind the JSON, in order
  bool binary{false};                             // set Inference-Header-Content-Length (to json.size()) and application/octet-stream
  std::uint64_t bytes{0};                         // of the whole body
};

// Reuses the buffers of `out`.
[[nodiscard]] Status writeInferResponse(std::string_view model, std::string_view version, std::string_view id, std::span<const OutputView> outputs,
                                        InferResponse& out);

}  // namespace coterie::oip
