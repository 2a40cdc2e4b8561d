// Tensor data as JSON lists: text to dense bytes and back. Internal to src/oip.
//
// readNumbers() takes the text of a list whose JSON syntax has been checked and writes little-endian elements; lists are flat or nested as the shape
// says. appendTensor() writes a flat list; numbers are the shortest that read back exactly. O(bytes). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/tensor.h"

namespace coterie::oip {

// `name` is for messages. `out` has exactly the tensor's size. Not for FP16, BF16 and BYTES.
[[nodiscard]] Status readNumbers(std::string_view name, std::string_view data, ElementType type, const Shape& shape, std::span<std::byte> out);

// Is the text a flat list, or one nested as the shape says? (Only the brackets and commas are looked at.)
[[nodiscard]] bool nestedAs(std::string_view data, const Shape& shape);

// Appends `[...]`. InvalidArgument for FP16 and BF16 and for BYTES that are not UTF-8 (JSON cannot carry them; the message says to ask for
// binary_data), Internal if the bytes do not fit the shape. The data may lie in memory that another process writes: each byte is read once.
[[nodiscard]] Status appendTensor(std::string& json, const TensorSpec& spec, const Shape& shape, std::span<const std::byte> data);

}  // namespace coterie::oip
