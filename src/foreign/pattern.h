// Patterns as shells have them: '*' for any characters (also '/'), '?' for one; everything else stands for itself. The whole text must match.
// O(text * pattern) at worst. Pure.
#pragma once

#include <string_view>

namespace coterie::foreign {

[[nodiscard]] inline bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // of the last '*', and where the text was then: the only place to come back to
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace coterie::foreign
