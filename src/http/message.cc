#include "http/message.h"

#include <algorithm>
#include <array>
#include <utility>

namespace coterie::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

int hexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// Length of the UTF-8 sequence at the start of text, 0 if it is not valid (overlong forms, surrogates and > U+10FFFF are not).
std::size_t utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    return first == 0xED && byte(1) > 0x9F ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    return first == 0xF4 && byte(1) > 0x8F ? 0 : 4;
  }
  return 0;
}

}  // namespace

bool equalsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

const std::string_view* RequestHead::find(std::string_view name) const {
  for (const Header& header : headers) {
    if (equalsIgnoreCase(header.name, name)) return &header.value;
  }
  return nullptr;
}

Result<std::string> percentDecode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return Error{Code::InvalidArgument, "BadEscape", "a % in the path must be followed by two hexadecimal digits"};
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return Error{Code::InvalidArgument, "BadEscape", "the path must not contain a zero byte"};
    out.push_back(c);
  }
  return out;
}

std::optional<std::string> queryParameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const auto key = percentDecode(pair.substr(0, equals));
    if (!key.ok() || *key != name) continue;
    const auto value = percentDecode(pair.substr(std::min(equals + 1, pair.size())));
    if (value.ok()) return *value;
  }
  return std::nullopt;
}

std::string_view statusPhrase(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 30> kPhrases{{
      {100, "Continue"},
      {200, "OK"},
      {201, "Created"},
      {202, "Accepted"},
      {204, "No Content"},
      {301, "Moved Permanently"},
      {302, "Found"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {406, "Not Acceptable"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {410, "Gone"},
      {411, "Length Required"},
      {413, "Content Too Large"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {422, "Unprocessable Content"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
      {505, "HTTP Version Not Supported"},
  }};
  const auto* const found = std::find_if(kPhrases.begin(), kPhrases.end(), [status](const auto& entry) { return entry.first == status; });
  return found == kPhrases.end() ? std::string_view{} : found->second;
}

HeaderLines& HeaderLines::add(std::string_view name, std::string_view value) {
  const std::size_t start = text_.size();
  text_.append(name).append(": ").append(value);
  std::replace_if(text_.begin() + static_cast<std::ptrdiff_t>(start), text_.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  text_.append("\r\n");
  return *this;
}

std::string jsonQuote(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size() + 2);
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t length = utf8Length(text);
    const char c = text[0];
    if (length == 0)
      out.append("\xEF\xBF\xBD");
    else if (length > 1)
      out.append(text.substr(0, length));
    else if (c == '"' || c == '\\')
      out.append({'\\', c});
    else if (c == '\n')
      out.append("\\n");
    else if (c == '\t')
      out.append("\\t");
    else if (c == '\r')
      out.append("\\r");
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out.append("\\u00").append({kHex[static_cast<unsigned char>(c) >> 4U], kHex[static_cast<unsigned char>(c) & 15U]});
    else
      out.push_back(c);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out.push_back('"');
  return out;
}

Response errorResponse(int status, std::string_view reason, std::string_view message) {
  Response response;
  response.status = status;
  response.contentType = "application/json";
  response.body = "{\"error\":" + jsonQuote(message) + ",\"reason\":" + jsonQuote(reason) + "}";
  return response;
}

Response errorResponse(const Error& error) { return errorResponse(httpStatus(error.code), error.reason, error.message); }

}  // namespace coterie::http
