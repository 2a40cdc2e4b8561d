#include "cli/line_diff.h"

#include <algorithm>
#include <cstddef>

namespace coterie::cli {
namespace {

constexpr std::size_t kAround = 3;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Every line of both with its sign.
std::vector<std::string> merge(const std::vector<std::string_view>& a, const std::vector<std::string_view>& b) {
  // common[i][j]: length of the longest common subsequence of a[i..] and b[j..].
  std::vector<std::vector<std::size_t>> common(a.size() + 1, std::vector<std::size_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  }
  std::vector<std::string> out;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out.push_back(" " + std::string(a[i]));
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      out.push_back("-" + std::string(a[i++]));
    } else {
      out.push_back("+" + std::string(b[j++]));
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> diffLines(std::string_view before, std::string_view after) {
  if (before == after) return {};
  const std::vector<std::string> all = merge(split(before), split(after));
  std::vector<bool> shown(all.size(), false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i][0] == ' ') continue;
    for (std::size_t k = i - std::min(i, kAround); k < std::min(all.size(), i + kAround + 1); ++k) shown[k] = true;
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!shown[i]) continue;
    if (i > 0 && !shown[i - 1] && !out.empty()) out.push_back("...");
    out.push_back(all[i]);
  }
  return out;
}

}  // namespace coterie::cli
