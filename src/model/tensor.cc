#include "model/tensor.h"

#include <limits>

namespace coterie {

namespace {
struct TypeRow {
  std::string_view name;
  std::size_t size;
};
constexpr std::array<TypeRow, kElementTypes> kRows{{{"BOOL", 1},
                                                    {"UINT8", 1},
                                                    {"UINT16", 2},
                                                    {"UINT32", 4},
                                                    {"UINT64", 8},
                                                    {"INT8", 1},
                                                    {"INT16", 2},
                                                    {"INT32", 4},
                                                    {"INT64", 8},
                                                    {"FP16", 2},
                                                    {"BF16", 2},
                                                    {"FP32", 4},
                                                    {"FP64", 8},
                                                    {"BYTES", 0}}};
}  // namespace

std::size_t elementSize(ElementType type) { return kRows[static_cast<std::size_t>(type)].size; }
std::string_view elementTypeName(ElementType type) { return kRows[static_cast<std::size_t>(type)].name; }

std::optional<ElementType> parseElementType(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

std::optional<std::int64_t> elementCount(const Shape& shape) {
  std::int64_t product = 1;
  bool zero = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0)
      zero = true;
    else if (product > std::numeric_limits<std::int64_t>::max() / dim)
      return std::nullopt;
    else
      product *= dim;
  }
  return zero ? 0 : product;
}

std::optional<std::uint64_t> tensorBytes(ElementType type, const Shape& shape) {
  const auto count = elementCount(shape);
  const std::size_t size = elementSize(type);
  if (!count || size == 0) return std::nullopt;
  if (static_cast<std::uint64_t>(*count) > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / size) return std::nullopt;
  return static_cast<std::uint64_t>(*count) * size;
}

std::string shapeText(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t dim : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(dim);
  }
  return text + "]";
}

}  // namespace coterie
