// The JSON of an inference request before it is compared with a model: what was written, and where. Internal to src/oip.
//
// readRequest() checks the JSON's syntax and UTF-8, its depth, and the kind of each member that the protocol knows; it converts no tensor data, only
// counts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace coterie::oip {

struct RawInput {
  std::optional<std::string> name;
  std::optional<std::string> datatype;
  std::optional<Shape> shape;
  std::optional<std::string_view> data;  // from '[' to ']'
  std::uint64_t elements{0};             // scalars in data
  std::uint64_t textBytes{0};            // bytes of the strings in data, decoded
  std::optional<std::uint64_t> binarySize;
  bool sharedMemory{false};
};

struct RawOutput {
  std::optional<std::string> name;
  std::optional<bool> binary;
  bool classification{false};
  bool sharedMemory{false};
};

struct RawRequest {
  std::string id;
  std::vector<RawInput> inputs;
  std::vector<RawOutput> outputs;
  bool hasInputs{false};
  std::optional<bool> binaryOutput;
  std::optional<std::uint64_t> timeoutMicros;
  std::string sequence;  // sequence_id as written; empty: none
  std::optional<bool> sequenceStart, sequenceEnd;
};

[[nodiscard]] Result<RawRequest> readRequest(std::string_view json);

// Decodes the strings of a JSON list into `out`, each behind its 4-byte little-endian length. False if `out` is not filled exactly, or an element is
// no string.
[[nodiscard]] bool readStrings(std::string_view data, std::byte* out, std::size_t size);

// Text for messages: in quotes, at most 80 bytes. Not called quoted: with a std::string, std::quoted would be found as well, and taken.
[[nodiscard]] std::string inQuotes(std::string_view text);

[[nodiscard]] Error badRequest(std::string reason, std::string message);

}  // namespace coterie::oip
