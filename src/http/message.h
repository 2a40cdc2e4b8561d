// What HTTP requests and responses are, apart from how they travel.
//
// RequestHead holds views into memory of the connection; see RequestContext::head() for how long. Response owns its small body and may refer to big
// ones in place. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace coterie::http {

struct Header {
  std::string_view name;
  std::string_view value;  // without blanks around
};

enum class Method : std::uint8_t { Get, Head, Post, Put, Patch, Delete, Options, Other };

struct RequestHead {
  Method method{Method::Other};
  std::string_view methodName;
  std::string_view target;  // as sent, e.g. "/v2/models/a%20b/infer?x=1"
  std::string_view path;    // target up to '?', still percent-encoded
  std::string_view query;   // after '?', or empty
  int minorVersion{1};      // of HTTP/1
  bool keepAlive{true};
  bool chunked{false};
  bool expectContinue{false};
  std::uint64_t contentLength{0};  // 0 when chunked or without a body
  std::vector<Header> headers;     // in the order sent

  // Value of the first header of that name (any case), or nullptr. O(headers).
  [[nodiscard]] const std::string_view* find(std::string_view name) const;
  [[nodiscard]] bool hasBody() const { return chunked || contentLength > 0; }
};

// ASCII case-insensitive equality, as header names compare.
[[nodiscard]] bool equalsIgnoreCase(std::string_view a, std::string_view b);
// "a%20b" -> "a b". InvalidArgument/BadEscape for a broken escape or a NUL byte.
[[nodiscard]] Result<std::string> percentDecode(std::string_view text);
// The decoded value of a query parameter; absent: nullopt; present without '=': "". '+' stays '+'.
[[nodiscard]] std::optional<std::string> queryParameter(std::string_view query, std::string_view name);
// The standard phrase of a status, "" if none.
[[nodiscard]] std::string_view statusPhrase(int status);

// Lines of a response's header. Line breaks inside names or values are replaced by blanks, so that no value can forge a header.
class HeaderLines {
 public:
  HeaderLines& add(std::string_view name, std::string_view value);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct Response {
  int status{200};
  std::string_view contentType;  // static text; empty: none
  HeaderLines headers;           // more headers; not Content-Length, Connection, Date, Content-Type, Transfer-Encoding
  std::string body;
  std::vector<std::span<const std::byte>> parts;  // sent after body, in place, without a copy
  std::shared_ptr<const void> owner;              // keeps the memory of parts until it was sent or the client is gone
};

// {"error": message, "reason": reason} with the status of the error's code: the form of every refusal, this server's own included.
[[nodiscard]] Response errorResponse(const Error& error);
[[nodiscard]] Response errorResponse(int status, std::string_view reason, std::string_view message);
// `text` as a JSON string literal with its quotes; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string jsonQuote(std::string_view text);

}  // namespace coterie::http
