// Inference requests: from the JSON header to checked tensors with a place in the cell each.
//
// Two steps, so that tensor bytes are never held twice:
//   1. parseInferRequest(json, ...) reads the JSON part alone, checks every name, type, shape and size against the model, and lays the inputs out in
//   a cell: 64-byte
//      aligned offsets, `cellBytes` in all. The caller allocates a cell and reads binary parts from the connection straight to their offsets (they
//      follow the JSON in the order of `inputs`);
//   2. fillJson() writes tensors that came as JSON into the cell; checkBinary() checks what only the bytes can tell (BYTES lengths, BOOL values).
// Without the header Inference-Header-Content-Length the whole body is JSON, whatever its content type. With `0` the body is one raw tensor:
// rawInferRequest(). Untrusted input: depth, counts and ranks are bounded; products of shapes may not overflow; numbers beyond their type's range are
// refused; bare NaN, Infinity and -Infinity are read as such. Unknown JSON members are ignored. FP16 and BF16 travel as binary only. Errors:
// InvalidArgument with a message that names the tensor and the fix; Unimplemented for extensions that are not served (client shared memory,
// classification). What a stateful model carries from request to request (TensorSpec::isState) is no input or output of a request. O(bytes). JSON
// data is read twice: for structure and count, then for values. Pure. Thread-compatible. Source: KServe Open Inference Protocol v2, binary tensor
// data extension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/tensor.h"

namespace coterie::oip {

inline constexpr std::size_t kCellAlignment = 64;
inline constexpr std::size_t kMaxTensors = 1024;    // inputs, and outputs asked for
inline constexpr std::size_t kMaxParameters = 256;  // on the request
inline constexpr std::size_t kMaxRank = 32;
inline constexpr std::size_t kMaxSequenceId = 128;  // bytes

enum class Source : std::uint8_t {
  Binary,      // bytes after the JSON header
  Json,        // `json` holds the data
  RawElement,  // the whole body is the one element of a BYTES tensor: its 4-byte length is not on the wire
};

struct RequestInput {
  int input{0};  // index into the signature
  Shape shape;
  Source source{Source::Binary};
  std::uint64_t offset{0};  // in the cell, aligned
  std::uint64_t length{0};  // bytes in the cell
  std::string_view json;    // for Source::Json: the text of `data`, inside the parsed text
};

struct RequestOutput {
  int output{0};       // index into the signature
  bool binary{false};  // else JSON
};

struct InferRequest {
  std::string id;                      // empty: none
  std::vector<RequestInput> inputs;    // in the order sent
  std::vector<RequestOutput> outputs;  // in the order wanted; never empty for a model with outputs
  std::uint64_t cellBytes{0};
  std::optional<Micros> timeout;  // parameter `timeout`
  std::string sequence;           // parameter `sequence_id`; empty: none
  bool sequenceStart{false};
  bool sequenceEnd{false};
};

// `binaryLength`: bytes that follow the JSON (Inference-Header-Content-Length given); nullopt: the body is JSON alone. `json` must outlive the
// request.
[[nodiscard]] Result<InferRequest> parseInferRequest(std::string_view json, const ModelSignature& signature,
                                                     std::optional<std::uint64_t> binaryLength);

// Inference-Header-Content-Length: 0. The model must have one input, at most one of whose dimensions is open; outputs come back binary.
[[nodiscard]] Result<InferRequest> rawInferRequest(const ModelSignature& signature, std::uint64_t bodyLength);

// Writes all inputs with Source::Json into the cell, and the length of a RawElement.
[[nodiscard]] Status fillJson(const InferRequest& request, const ModelSignature& signature, std::span<std::byte> cell);
// Checks the contents of inputs that were read as bytes.
[[nodiscard]] Status checkBinary(const InferRequest& request, const ModelSignature& signature, std::span<const std::byte> cell);

// Inference-Header-Content-Length against the body: nullopt if absent, InvalidArgument if it is no number or larger than the body.
[[nodiscard]] Result<std::optional<std::uint64_t>> parseHeaderLength(std::string_view header, std::uint64_t bodyLength);

}  // namespace coterie::oip
