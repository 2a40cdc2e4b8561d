// A first look through an ONNX file, before ONNX Runtime parses it: is it whole, is it ONNX, which other files does it want?
//
// Walks the protobuf wire format of ModelProto and below (graph, nodes, attributes, subgraphs, functions, sparse tensors) without building anything:
// it follows the field numbers of the public onnx.proto that can hold a TensorProto and collects the `location` of external data. Untrusted input:
// every length is checked against what is left, nesting is bounded, and names are kept only while they are fewer than 4,096. Errors
// (InvalidArgument): reasons Empty, Truncated, NotOnnx, TooManyFiles; the message says what was found, without the file's name. O(file) time at worst
// (tensors' bytes are skipped, not read). Thread-compatible.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace coterie::onnx {

struct ModelScan {
  std::vector<std::string> externalFiles;  // relative locations as the file gives them, each once
};
[[nodiscard]] Result<ModelScan> scanModel(std::span<const std::byte> file);

}  // namespace coterie::onnx
