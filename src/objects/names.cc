#include "objects/names.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace coterie::objects {

namespace {
bool isLower(char c) { return c >= 'a' && c <= 'z'; }
bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isAlnum(char c) { return isLower(c) || isUpper(c) || isDigit(c); }
char lower(char c) { return isUpper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<std::string> qualifiedFault(std::string_view text) {
  if (text.size() > 63) return "is " + std::to_string(text.size()) + " bytes long, at most 63";
  const auto allowed = [](char c) { return isAlnum(c) || c == '-' || c == '_' || c == '.'; };
  if (!std::all_of(text.begin(), text.end(), allowed)) return "may hold letters, digits, '-', '_' and '.' only";
  if (!isAlnum(text.front()) || !isAlnum(text.back())) return "must begin and end with a letter or digit";
  return std::nullopt;
}

// Optimal string alignment distance, by rows.
std::size_t distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest = 64;
  a = a.substr(0, kLongest);
  b = b.substr(0, kLongest);
  std::array<std::array<std::size_t, kLongest + 1>, kLongest + 1> d{};
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + replace});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}
}  // namespace

std::optional<std::string> labelNameFault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > 63) return "is " + std::to_string(name.size()) + " bytes long, at most 63";
  const auto allowed = [](char c) { return isLower(c) || isDigit(c) || c == '-'; };
  if (!std::all_of(name.begin(), name.end(), allowed)) return "may hold lower-case letters, digits and '-' only";
  if (name.front() == '-' || name.back() == '-') return "must begin and end with a letter or digit";
  return std::nullopt;
}

std::optional<std::string> labelKeyFault(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view prefix = key.substr(0, slash);
    const auto allowed = [](char c) { return isLower(c) || isDigit(c) || c == '-' || c == '.'; };
    if (prefix.empty() || prefix.size() > 253 || !std::all_of(prefix.begin(), prefix.end(), allowed)) return "has a prefix that is no DNS name";
    key.remove_prefix(slash + 1);
  }
  if (key.empty()) return "has no name";
  return qualifiedFault(key);
}

std::optional<std::string> labelValueFault(std::string_view value) { return value.empty() ? std::nullopt : qualifiedFault(value); }

std::optional<std::string> nearest(std::string_view text, const std::vector<std::string_view>& known) {
  std::string_view best;
  std::size_t least = SIZE_MAX;
  for (const std::string_view word : known) {
    const std::size_t far = distance(text, word);
    if (far < least) least = far, best = word;
  }
  if (best.empty() || least >= std::max(text.size(), best.size()) || least > std::max<std::size_t>(1, std::max(text.size(), best.size()) / 3))
    return std::nullopt;
  return std::string(best);
}

}  // namespace coterie::objects
