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
