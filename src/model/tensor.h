// Tensors as the Open Inference Protocol names them: element types, shapes, and what a model takes and gives.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coterie {

enum class ElementType : std::uint8_t { Bool, Uint8, Uint16, Uint32, Uint64, Int8, Int16, Int32, Int64, Fp16, Bf16, Fp32, Fp64, ByteString };
inline constexpr int kElementTypes = 14;

// Bytes of one element; 0 for ByteString ("BYTES"), whose elements are a 4-byte little-endian length and that many bytes.
[[nodiscard]] std::size_t elementSize(ElementType type);
[[nodiscard]] std::string_view elementTypeName(ElementType type);  // "FP32"
[[nodiscard]] std::optional<ElementType> parseElementType(std::string_view name);

using Shape = std::vector<std::int64_t>;
inline constexpr std::int64_t kDynamic = -1;  // a dimension that the request chooses

// Product of the dimensions; nullopt if one is negative or the product exceeds int64.
[[nodiscard]] std::optional<std::int64_t> elementCount(const Shape& shape);
// Bytes of a dense tensor; nullopt on overflow, a negative dimension, or type ByteString.
[[nodiscard]] std::optional<std::uint64_t> tensorBytes(ElementType type, const Shape& shape);
[[nodiscard]] std::string shapeText(const Shape& shape);  // "[1,3,-1]"

struct TensorSpec {
  std::string name;
  ElementType type{ElementType::Fp32};
  Shape shape;  // kDynamic where the model leaves it open
  bool optional{false};
  // State of a sequence: an output that becomes an input of the sequence's next request. Of either the other one's index in the signature, else -1.
  // Who calls the model neither sends nor gets it (states.h).
  int carries{-1};
  [[nodiscard]] bool isState() const { return carries >= 0; }
};

struct ModelSignature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

}  // namespace coterie
