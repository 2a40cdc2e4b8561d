#include <algorithm>

#include "text/text.h"

namespace coterie::text {

namespace {
// Length of the well-formed sequence at the start of s (Unicode standard, table 3-7), 0 if there is none.
std::size_t sequenceLength(std::string_view s) {
  const auto at = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto tail = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) { return at(i) >= low && at(i) <= high; };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return tail(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    return tail(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    return tail(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}
}  // namespace

int firstBadUtf8Line(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequenceLength(text.substr(i, 4));
    if (length == 0) return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(i), '\n'));
    i += length;
  }
  return 0;
}

}  // namespace coterie::text
