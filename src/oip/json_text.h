// Writing JSON text: strings with escapes, shortest numbers that read back exactly, and a small writer that puts the commas.
//
// Strings that are not UTF-8 are written with U+FFFD for each offending byte, so the text is always valid JSON. Non-finite floats are written bare
// (NaN, Infinity, -Infinity), as Python and the protocol's stock clients read and write them. All functions append; nothing here fails. O(length).
// Thread-compatible.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/tensor.h"

namespace coterie::oip {

// Length of the UTF-8 sequence at the start of `text`; 0 if there is none (truncated, overlong, surrogate, beyond U+10FFFF, stray byte).
[[nodiscard]] std::size_t utf8Sequence(std::string_view text);
[[nodiscard]] bool isUtf8(std::string_view text);

void appendJsonString(std::string& json, std::string_view text);  // with quotes

template <std::integral T>
void appendJsonNumber(std::string& json, T value) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, +value).ptr;
  json.append(text, end);
}
template <std::floating_point T>
void appendJsonNumber(std::string& json, T value) {
  if (std::isnan(value)) return json.append("NaN"), void();
  if (std::isinf(value)) return json.append(value > 0 ? "Infinity" : "-Infinity"), void();
  if (value == 0 && std::signbit(value)) return json.append("-0.0"), void();  // readers take -0 for an integer, which has no sign
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  json.append(text, end);
}

// Objects and lists with their commas: w.open('{').field("name").text("x").close('}').
class JsonWriter {
 public:
  explicit JsonWriter(std::string& json) : json_(json) {}

  JsonWriter& open(char bracket) {
    comma();
    json_ += bracket;
    fresh_ = true;
    return *this;
  }
  JsonWriter& close(char bracket) {
    json_ += bracket;
    fresh_ = false;
    return *this;
  }
  JsonWriter& field(std::string_view name) {
    comma();
    appendJsonString(json_, name);
    json_ += ':';
    fresh_ = true;
    return *this;
  }
  JsonWriter& text(std::string_view value) {
    comma();
    appendJsonString(json_, value);
    return *this;
  }
  JsonWriter& number(std::int64_t value) {
    comma();
    appendJsonNumber(json_, value);
    return *this;
  }
  JsonWriter& boolean(bool value) {
    comma();
    json_ += value ? "true" : "false";
    return *this;
  }
  JsonWriter& shape(const Shape& dims) {
    open('[');
    for (const std::int64_t dim : dims) number(dim);
    return close(']');
  }

 private:
  void comma() {
    if (!fresh_) json_ += ',';
    fresh_ = false;
  }

  std::string& json_;
  bool fresh_{true};
};

}  // namespace coterie::oip
