#include "oip/json_text.h"

namespace coterie::oip {

std::size_t utf8Sequence(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (!continues(1) || !continues(2)) return 0;
  if (lead < 0xF0) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
    if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogate
    return 3;
  }
  if (!continues(3)) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
  return 4;
}

bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8Sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace {
void appendEscape(std::string& json, char c) {
  switch (c) {
    case '"': json += "\\\""; return;
    case '\\': json += "\\\\"; return;
    case '\n': json += "\\n"; return;
    case '\r': json += "\\r"; return;
    case '\t': json += "\\t"; return;
    default: break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  json += "\\u00";
  json += kHex[static_cast<unsigned char>(c) >> 4U];
  json += kHex[static_cast<unsigned char>(c) & 15U];
}
}  // namespace

void appendJsonString(std::string& json, std::string_view text) {
  json += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && static_cast<unsigned char>(text[plain]) >= 0x20 && static_cast<unsigned char>(text[plain]) < 0x80 &&
           text[plain] != '"' && text[plain] != '\\')
      ++plain;
    json.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t sequence = utf8Sequence(text);
    if (sequence > 1)
      json.append(text.substr(0, sequence));
    else if (sequence == 0)
      json += "\xEF\xBF\xBD";
    else
      appendEscape(json, text.front());
    text.remove_prefix(sequence == 0 ? 1 : sequence);
  }
  json += '"';
}

}  // namespace coterie::oip
