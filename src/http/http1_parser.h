// Parses the head of an HTTP/1 request (request line and headers) with Beast's parser, and refuses what could be read in two ways.
//
// Feed the bytes of one request, always from the same address, until HeadDone: views in the head point there. Beyond Beast's own rules it refuses:
// several Content-Length or Host headers, no Host in HTTP/1.1, any Transfer-Encoding but "chunked", obs-fold, a target that is no path, an unknown
// Expect. O(bytes). Thread-compatible.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "http/message.h"

namespace coterie::http {

class Http1Parser {
 public:
  Http1Parser(std::size_t headerBytes, int headers);
  ~Http1Parser();

  struct Outcome {
    enum class Kind { NeedMore, HeadDone, Refused } kind{Kind::NeedMore};
    std::size_t headBytes{0};  // HeadDone: how many bytes the head took
    int status{400};           // Refused: with which status, reason and message
    std::string_view reason;   // static text
    std::string_view message;  // static text
  };
  // bytes: everything received of this request so far. head is filled at HeadDone.
  [[nodiscard]] Outcome parse(std::string_view bytes, RequestHead& head);
  // Starts the next request.
  void reset();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coterie::http
