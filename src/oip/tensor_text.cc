#include "oip/tensor_text.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "oip/json_text.h"
#include "oip/raw_request.h"

namespace coterie::oip {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian on the wire and in memory");

namespace {

enum class Fault : std::uint8_t { None, NotNumber, NotWhole, OutOfRange };

// std::from_chars says out of range for both ends. A number that is too small is zero: its decimal point lies left of its first digit that is not
// zero.
bool isTiny(std::string_view number) {
  std::int64_t magnitude = 0;
  bool point = false;
  bool significant = false;
  std::size_t i = number.front() == '-' ? 1 : 0;
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '.')
      point = true;
    else if (number[i] != '0' || significant) {
      significant = true;
      magnitude += point ? 0 : 1;
    } else if (point)
      --magnitude;
  }
  std::int64_t exponent = 0;
  if (i + 1 < number.size()) {
    const std::size_t digits = number[i + 1] == '+' ? i + 2 : i + 1;
    const bool negative = number[digits] == '-';
    if (std::from_chars(number.data() + digits, number.data() + number.size(), exponent).ec != std::errc{}) return negative;
  }
  return magnitude + exponent < 0;
}

template <typename T>
Fault parseFloat(std::string_view token, T& out) {
  const auto [end, fault] = std::from_chars(token.data(), token.data() + token.size(), out);
  if (end != token.data() + token.size() || fault == std::errc::invalid_argument) return Fault::NotNumber;
  if (fault == std::errc{}) return Fault::None;
  if (!isTiny(token)) return Fault::OutOfRange;
  out = token.front() == '-' ? T{-0.0} : T{0};
  return Fault::None;
}

template <typename T>
Fault parseInteger(std::string_view token, T& out) {
  const char* last = token.data() + token.size();
  const auto [end, fault] = std::from_chars(token.data(), last, out);
  if (end == last && fault == std::errc{}) return Fault::None;
  double real = 0;
  if (const Fault bad = parseFloat(token, real); bad != Fault::None) return bad;
  if (!std::isfinite(real)) return Fault::NotWhole;
  if (real != std::trunc(real)) return Fault::NotWhole;
  // 2^digits is exact in a double, max() need not be.
  const double above = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double least = std::is_signed_v<T> ? -above : 0.0;
  if (real < least || real >= above || (end == last && fault == std::errc::result_out_of_range)) return Fault::OutOfRange;
  out = static_cast<T>(real);
  return Fault::None;
}

Fault parseBool(std::string_view token, std::uint8_t& out) {
  if (token == "true" || token == "1") return out = 1, Fault::None;
  if (token == "false" || token == "0") return out = 0, Fault::None;
  return Fault::NotNumber;
}

template <typename T>
Fault parseElement(std::string_view token, T& out) {
  if constexpr (std::is_same_v<T, bool>)
    return Fault::NotNumber;
  else if constexpr (std::is_floating_point_v<T>)
    return parseFloat(token, out);
  else
    return parseInteger(token, out);
}

std::string_view rangeText(ElementType type) {
  switch (type) {
    case ElementType::Uint8: return " (0 to 255)";
    case ElementType::Int8: return " (-128 to 127)";
    case ElementType::Uint16: return " (0 to 65535)";
    case ElementType::Int16: return " (-32768 to 32767)";
    case ElementType::Uint32: return " (0 to 4294967295)";
    case ElementType::Int32: return " (-2147483648 to 2147483647)";
    default: return "";
  }
}

Error elementError(std::string_view name, std::size_t index, std::string_view token, ElementType type, Fault fault) {
  std::string message = "element " + std::to_string(index) + " of input " + inQuotes(name) + " is " + std::string(token.substr(0, 40)) + ", ";
  const std::string typeName(elementTypeName(type));
  switch (fault) {
    case Fault::NotWhole: message += "but " + typeName + " takes whole numbers"; break;
    case Fault::OutOfRange: message += "which " + typeName + " cannot hold" + std::string(rangeText(type)); break;
    default: message += type == ElementType::Bool ? "but BOOL takes true and false" : "but " + typeName + " takes numbers"; break;
  }
  return badRequest("InvalidData", std::move(message));
}

bool isBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool isBetween(char c) { return c == ',' || c == '[' || c == ']' || isBlank(c); }

template <typename T, typename Parse>
Status readAll(std::string_view name, std::string_view data, ElementType type, std::span<std::byte> out, Parse parse) {
  const std::size_t count = out.size() / sizeof(T);
  std::size_t index = 0;
  std::size_t at = 0;
  while (true) {
    while (at < data.size() && isBetween(data[at])) ++at;
    if (at == data.size()) break;
    std::size_t end = at;
    while (end < data.size() && !isBetween(data[end])) ++end;
    const std::string_view token = data.substr(at, end - at);
    T value{};
    const Fault fault = index < count ? parse(token, value) : Fault::NotNumber;
    if (fault != Fault::None) return elementError(name, index, token, type, fault);
    std::memcpy(out.data() + index * sizeof(T), &value, sizeof(T));
    ++index;
    at = end;
  }
  if (index != count)
    return badRequest("InvalidData",
                      "input " + inQuotes(name) + " has " + std::to_string(index) + " elements, its shape says " + std::to_string(count));
  return {};
}

template <typename T>
Status readAs(std::string_view name, std::string_view data, ElementType type, std::span<std::byte> out) {
  return readAll<T>(name, data, type, out, [](std::string_view token, T& value) { return parseElement<T>(token, value); });
}

template <typename T>
void appendAs(std::string& json, std::span<const std::byte> data) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, data.data() + at, sizeof(T));
    if (at > 0) json += ',';
    appendJsonNumber(json, value);
  }
}

void appendBools(std::string& json, std::span<const std::byte> data) {
  for (std::size_t at = 0; at < data.size(); ++at) {
    if (at > 0) json += ',';
    json += data[at] != std::byte{0} ? "true" : "false";
  }
}

Status appendByteStrings(std::string& json, const TensorSpec& spec, std::int64_t count, std::span<const std::byte> shared) {
  const std::vector<std::byte> data(shared.begin(), shared.end());  // lengths are checked on what is used
  const char* const text = reinterpret_cast<const char*>(data.data());
  std::size_t at = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t length = 0;
    if (data.size() - at < sizeof length)
      return Error{Code::Internal, "InvalidOutput", "the model's output " + inQuotes(spec.name) + " is shorter than its shape says"};
    std::memcpy(&length, data.data() + at, sizeof length);
    at += sizeof length;
    if (length > data.size() - at)
      return Error{Code::Internal, "InvalidOutput", "the model's output " + inQuotes(spec.name) + " has an element longer than the tensor"};
    const std::string_view element(text + at, length);
    if (!isUtf8(element)) {
      return badRequest("NotUtf8", "element " + std::to_string(i) + " of output " + inQuotes(spec.name) +
                                       " is not UTF-8, so JSON cannot carry it; ask for it with parameter \"binary_data\": true");
    }
    if (i > 0) json += ',';
    appendJsonString(json, element);
    at += length;
  }
  if (at != data.size())
    return Error{Code::Internal, "InvalidOutput", "the model's output " + inQuotes(spec.name) + " is longer than its shape says"};
  return {};
}

}  // namespace

Status readNumbers(std::string_view name, std::string_view data, ElementType type, const Shape& shape, std::span<std::byte> out) {
  if (!nestedAs(data, shape))
    return badRequest("InvalidData", "data of input " + inQuotes(name) + " is nested in another way than shape " + shapeText(shape) +
                                         "; send it flat or nested as the shape says");
  switch (type) {
    case ElementType::Bool: return readAll<std::uint8_t>(name, data, type, out, parseBool);
    case ElementType::Uint8: return readAs<std::uint8_t>(name, data, type, out);
    case ElementType::Uint16: return readAs<std::uint16_t>(name, data, type, out);
    case ElementType::Uint32: return readAs<std::uint32_t>(name, data, type, out);
    case ElementType::Uint64: return readAs<std::uint64_t>(name, data, type, out);
    case ElementType::Int8: return readAs<std::int8_t>(name, data, type, out);
    case ElementType::Int16: return readAs<std::int16_t>(name, data, type, out);
    case ElementType::Int32: return readAs<std::int32_t>(name, data, type, out);
    case ElementType::Int64: return readAs<std::int64_t>(name, data, type, out);
    case ElementType::Fp32: return readAs<float>(name, data, type, out);
    case ElementType::Fp64: return readAs<double>(name, data, type, out);
    case ElementType::Fp16:
    case ElementType::Bf16:
    case ElementType::ByteString: break;
  }
  return badRequest("InvalidData", "input " + inQuotes(name) + " cannot be sent as JSON numbers");
}

bool nestedAs(std::string_view data, const Shape& shape) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  std::size_t valueDepth = 0;  // all values must stand at one depth
  bool quotedText = false;
  std::vector<std::int64_t> sizes;  // members seen of each open list
  const auto closes = [&] {
    const bool flat = deepest <= 1;
    return flat || (depth <= shape.size() && sizes[depth - 1] == shape[depth - 1]);
  };
  bool fresh = true;  // nothing since the last bracket or comma
  const auto member = [&] {
    if (fresh && depth > 0) ++sizes[depth - 1];
    fresh = false;
  };
  for (std::size_t i = 0; i < data.size(); ++i) {
    const char c = data[i];
    if (quotedText) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quotedText = false;
    } else if (c == '[') {
      member();
      ++depth;
      deepest = std::max(deepest, depth);
      if (depth > std::max<std::size_t>(shape.size(), 1)) return false;
      sizes.resize(depth);
      sizes[depth - 1] = 0;
      fresh = true;
    } else if (c == ']') {
      if (depth == 0 || !closes()) return false;
      --depth;
      fresh = false;
    } else if (c == ',') {
      fresh = true;
    } else if (!isBlank(c)) {
      if (fresh && valueDepth != 0 && valueDepth != depth) return false;
      valueDepth = depth;
      member();
      quotedText = c == '"';
    }
  }
  // An empty dimension ends the nesting early: [] for [0,3], [[],[]] for [2,0,4].
  return depth == 0 && (deepest <= 1 || deepest == shape.size() || (elementCount(shape) == 0 && shape[deepest - 1] == 0));
}

Status appendTensor(std::string& json, const TensorSpec& spec, const Shape& shape, std::span<const std::byte> data) {
  const auto count = elementCount(shape);
  const auto bytes = tensorBytes(spec.type, shape);
  if (!count || (spec.type != ElementType::ByteString && bytes != data.size())) {
    return Error{Code::Internal, "InvalidOutput", "the model's output " + inQuotes(spec.name) + " does not have the size that its shape says"};
  }
  Status status;
  json += '[';
  switch (spec.type) {
    case ElementType::Bool: appendBools(json, data); break;
    case ElementType::Uint8: appendAs<std::uint8_t>(json, data); break;
    case ElementType::Uint16: appendAs<std::uint16_t>(json, data); break;
    case ElementType::Uint32: appendAs<std::uint32_t>(json, data); break;
    case ElementType::Uint64: appendAs<std::uint64_t>(json, data); break;
    case ElementType::Int8: appendAs<std::int8_t>(json, data); break;
    case ElementType::Int16: appendAs<std::int16_t>(json, data); break;
    case ElementType::Int32: appendAs<std::int32_t>(json, data); break;
    case ElementType::Int64: appendAs<std::int64_t>(json, data); break;
    case ElementType::Fp32: appendAs<float>(json, data); break;
    case ElementType::Fp64: appendAs<double>(json, data); break;
    case ElementType::ByteString: status = appendByteStrings(json, spec, *count, data); break;
    case ElementType::Fp16:
    case ElementType::Bf16:
      status = badRequest("NotInJson", "output " + inQuotes(spec.name) + " is " + std::string(elementTypeName(spec.type)) +
                                           ", which JSON cannot carry; ask for it with parameter \"binary_data\": true");
      break;
  }
  json += ']';
  return status;
}

}  // namespace coterie::oip
