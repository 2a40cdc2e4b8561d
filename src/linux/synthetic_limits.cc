#include "linux/synthetic_limits.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace coterie::linux {
namespace {

bool isBlank(char one) { return std::isspace(static_cast<unsigned char>(one)) != 0; }

// hwloc takes any beginning of "numanode" and "node", of two letters and more.
bool namesNodes(std::string_view type) {
  if (type.size() < 2) return false;
  const auto letter = [&](std::size_t at) { return std::tolower(static_cast<unsigned char>(type[at])); };
  return letter(0) == 'n' && (letter(1) == 'u' || letter(1) == 'o');
}

struct Field {
  std::string_view text;  // "core:4"
  std::string_view type;  // empty: not said
  std::int64_t count{0};
};

std::optional<Field> fieldOf(std::string_view text) {
  Field field{text, {}, 0};
  std::string_view digits = text;
  if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    field.type = text.substr(0, colon);
    digits = text.substr(colon + 1);
  }
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), [](char one) { return one >= '0' && one <= '9'; })) return std::nullopt;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), field.count);
  if (read.ec == std::errc::result_out_of_range) field.count = INT64_MAX;
  return field;
}

Error tooLarge(std::string_view field, std::int64_t count, const char* what, int most) {
  return {Code::InvalidArgument, "MachineTooLarge",
          "\"" + std::string(field) + "\" makes it " + (count == INT64_MAX ? "too many" : std::to_string(count)) + " " + what + ": " +
              std::to_string(most) + " are the most that a described machine may have"};
}

// Of digits, however many: one that is too large is the largest there is. False: it begins with none.
bool readNumber(std::string_view text, std::uint64_t& number, std::size_t& length) {
  const bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const bool octal = !hexadecimal && text.size() > 1 && text[0] == '0';
  const char* const begin = text.data() + (hexadecimal ? 2 : 0);
  const auto read = std::from_chars(begin, text.data() + text.size(), number, hexadecimal ? 16 : octal ? 8 : 10);
  if (read.ec == std::errc::result_out_of_range) number = UINT64_MAX;
  length = static_cast<std::size_t>(read.ptr - text.data());
  return read.ec != std::errc::invalid_argument;
}

// By the letter that hwloc takes a unit by, whatever follows it.
int shiftOf(std::string_view unit) {
  constexpr std::string_view kLetters = "KMGT";
  const auto at = unit.empty() ? std::string_view::npos : kLetters.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
  return at == std::string_view::npos ? 0 : 10 * (static_cast<int>(at) + 1);
}

// Attributes as "(memory=16GB indexes=0)", a node's as "[numa(memory=16GB)]": the first size that is too large, as it stands there.
std::optional<std::string_view> tooLargeSize(std::string_view attributes) {
  constexpr std::uint64_t kMost = std::uint64_t{kMostSyntheticTebibytes} << 40;
  for (auto equals = attributes.find('='); equals != std::string_view::npos; equals = attributes.find('=', equals + 1)) {
    const std::string_view before = attributes.substr(0, equals);
    if (!before.ends_with("memory") && !before.ends_with("size")) continue;
    std::uint64_t number = 0;
    std::size_t length = 0;
    const bool wraps = attributes.substr(equals + 1).starts_with('-');                   // hwloc takes -1 for the largest number
    if (!wraps && !readNumber(attributes.substr(equals + 1), number, length)) continue;  // hwloc's to say
    if (!wraps && number <= (kMost >> shiftOf(attributes.substr(equals + 1 + length)))) continue;
    const auto name = before.find_last_of(" (,");
    const std::size_t begin = name == std::string_view::npos ? 0 : name + 1;
    return attributes.substr(begin, std::min(attributes.find_first_of(" )],", equals), attributes.size()) - begin);
  }
  return std::nullopt;
}

std::int64_t product(std::int64_t a, std::int64_t b) { return b != 0 && a > INT64_MAX / b ? INT64_MAX : a * b; }

}  // namespace

Status checkSyntheticSize(std::string_view description) {
  std::int64_t objects = 1;  // of the level so far
  std::int64_t nodes = 0;
  while (!description.empty()) {
    const char first = description.front();
    if (isBlank(first)) {
      description.remove_prefix(1);
      continue;
    }
    if (first == '(' || first == '[') {
      const auto end = description.find(first == '(' ? ')' : ']');
      const std::string_view bracketed = description.substr(0, end == std::string_view::npos ? end : end + 1);
      if (const auto size = tooLargeSize(bracketed)) {
        return Error{Code::InvalidArgument, "MachineTooLarge",
                     "\"" + std::string(*size) + "\" is too much memory: " + std::to_string(kMostSyntheticTebibytes) +
                         "TB are the most that a node or a cache of a described machine may have"};
      }
      if (first == '[') nodes += objects;
      if (nodes > kMostSyntheticNodes) return tooLarge(bracketed, nodes, "NUMA nodes", kMostSyntheticNodes);
      description.remove_prefix(bracketed.size());
      continue;
    }
    const auto end = std::find_if(description.begin(), description.end(), [](char one) { return isBlank(one) || one == '(' || one == '['; });
    const std::string_view text = description.substr(0, static_cast<std::size_t>(end - description.begin()));
    description.remove_prefix(text.size());
    const auto field = fieldOf(text);
    if (!field) return {};
    if (field->count > kMostSyntheticSiblings) return tooLarge(text, field->count, "side by side", kMostSyntheticSiblings);
    objects = product(objects, field->count);
    if (objects > kMostSyntheticCpus) return tooLarge(text, objects, "CPUs or more", kMostSyntheticCpus);
    if (namesNodes(field->type)) nodes += objects;
    if (nodes > kMostSyntheticNodes) return tooLarge(text, nodes, "NUMA nodes", kMostSyntheticNodes);
  }
  return {};
}

}  // namespace coterie::linux
