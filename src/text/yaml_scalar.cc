#include "text/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>

namespace coterie::text {

namespace {
bool isOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool allDigits(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), isDigit); }

// digits [. digits] [e[+-]digits] | . digits [e...]
bool looksLikeFloat(std::string_view text) {
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (!power.empty() && (power[0] == '+' || power[0] == '-')) power.remove_prefix(1);
    if (!allDigits(power)) return false;
    text = text.substr(0, exponent);
  }
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) return allDigits(text);
  const std::string_view whole = text.substr(0, dot);
  const std::string_view fraction = text.substr(dot + 1);
  return (whole.empty() || allDigits(whole)) && (fraction.empty() || allDigits(fraction)) && !(whole.empty() && fraction.empty());
}

PlainScalar based(std::string_view digits, int base, std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || digits[0] == '-' || error == std::errc::invalid_argument || end != digits.data() + digits.size()) return {Value(text), ""};
  if (error == std::errc::result_out_of_range) return {Value(), "the number does not fit into 64 bits"};
  return {Value(number), ""};
}

PlainScalar number(std::string_view text) {
  std::string_view body = text;
  const bool negative = body[0] == '-';
  if (negative || body[0] == '+') body.remove_prefix(1);
  if (allDigits(body)) {
    if (body.size() > 1 && body[0] == '0') {
      return {Value(), "a number with a leading zero (octal to some, decimal to others): drop the zero, or quote it if it is text"};
    }
    std::int64_t value = 0;
    const std::string_view digits = negative ? text : body;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{})
      return {Value(), "the number does not fit into 64 bits"};
    return {Value(value), ""};
  }
  if (!looksLikeFloat(body)) return {Value(text), ""};
  double value = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), value);
  if (error == std::errc::result_out_of_range && value != 0) return {Value(), "the number is too large"};
  if (!std::isfinite(value)) return {Value(), "the number is too large"};
  if (error == std::errc::result_out_of_range) return {Value(), "the number is too large or too close to zero"};
  return {Value(negative ? -value : value), ""};
}
}  // namespace

PlainScalar readPlainScalar(std::string_view text) {
  if (isOneOf(text, {"", "~", "null", "Null", "NULL"})) return {};
  if (isOneOf(text, {"true", "True", "TRUE"})) return {Value(true), ""};
  if (isOneOf(text, {"false", "False", "FALSE"})) return {Value(false), ""};
  const std::string_view unsignedText = text[0] == '-' || text[0] == '+' ? text.substr(1) : text;
  if (isOneOf(unsignedText, {".inf", ".Inf", ".INF"}) || isOneOf(text, {".nan", ".NaN", ".NAN"}))
    return {Value(), "infinity and not-a-number are not accepted"};
  if (text.starts_with("0x")) return based(text.substr(2), 16, text);
  if (text.starts_with("0o")) return based(text.substr(2), 8, text);
  if (!unsignedText.empty() && (isDigit(unsignedText[0]) || unsignedText[0] == '.')) return number(text);
  return {Value(text), ""};
}

}  // namespace coterie::text
