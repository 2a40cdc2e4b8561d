// The one file that includes Beast: it takes many seconds to compile.
#include "http/http1_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <optional>

namespace coterie::http {
namespace {

namespace beast = boost::beast;
using beast::http::field;
using beast::http::verb;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

Method methodOf(verb method) {
  switch (method) {
    case verb::get: return Method::Get;
    case verb::head: return Method::Head;
    case verb::post: return Method::Post;
    case verb::put: return Method::Put;
    case verb::patch: return Method::Patch;
    case verb::delete_: return Method::Delete;
    case verb::options: return Method::Options;
    default: return Method::Other;
  }
}

struct Fault {
  int status;
  std::string_view reason;
  std::string_view message;
};

class HeadParser final : public beast::http::basic_parser<true> {
 public:
  // Receives callbacks between begin() and the head's end.
  RequestHead* head{nullptr};
  std::string_view bytes;
  int maxHeaders{0};
  std::optional<Fault> fault;

 private:
  void refuse(beast::error_code& ec, Fault why) {
    fault = why;
    ec = beast::http::error::bad_value;
  }

  void on_request_impl(verb method, beast::string_view name, beast::string_view target, int version, beast::error_code& ec) override {
    head->method = methodOf(method);
    head->methodName = view(name);
    head->target = view(target);
    head->minorVersion = version - 10;
    const std::size_t question = head->target.find('?');
    head->path = head->target.substr(0, question);
    head->query = question == std::string_view::npos ? std::string_view{} : head->target.substr(question + 1);
    if (head->target.empty() || (head->target[0] != '/' && head->target != "*"))
      refuse(ec, {400, "BadTarget", "the request target must be a path that begins with /"});
  }

  void on_field_impl(field id, beast::string_view name, beast::string_view value, beast::error_code& ec) override {
    const std::string_view text = view(value);
    if (!text.empty() && (text.data() < bytes.data() || text.data() >= bytes.data() + bytes.size())) {
      return refuse(ec, {400, "FoldedHeader", "a header value must not be folded over several lines"});
    }
    if (head->headers.size() >= static_cast<std::size_t>(maxHeaders)) return refuse(ec, {431, "TooManyHeaders", "the request has too many headers"});
    head->headers.push_back({view(name), text});
    if (id == field::content_length && lengths_++ > 0) refuse(ec, {400, "RepeatedContentLength", "Content-Length must be sent once"});
    if (id == field::host && hosts_++ > 0) refuse(ec, {400, "RepeatedHost", "Host must be sent once"});
    if (id == field::transfer_encoding && !equalsIgnoreCase(text, "chunked")) {
      refuse(ec, {501, "UnknownTransferEncoding", "the only Transfer-Encoding served is chunked"});
    }
    if (id == field::expect) {
      if (!equalsIgnoreCase(text, "100-continue")) return refuse(ec, {417, "UnknownExpectation", "the only Expect served is 100-continue"});
      head->expectContinue = true;
    }
  }

  void on_header_impl(beast::error_code& ec) override {
    if (head->minorVersion == 1 && hosts_ == 0) return refuse(ec, {400, "NoHost", "HTTP/1.1 requests must carry a Host header"});
    if (head->minorVersion == 0 && chunked()) return refuse(ec, {400, "ChunkedInHttp10", "HTTP/1.0 has no chunked bodies"});
    head->keepAlive = keep_alive();
    head->chunked = chunked();
    head->contentLength = !chunked() && content_length() ? *content_length() : 0;
    // HTTP/1.0 has no interim responses.
    if (head->minorVersion == 0) head->expectContinue = false;
  }

  void on_response_impl(int, beast::string_view, int, beast::error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, beast::error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, beast::error_code&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, beast::error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, beast::error_code&) override { return body.size(); }
  void on_finish_impl(beast::error_code&) override {}

  int lengths_{0};
  int hosts_{0};
};

Fault faultOf(const beast::error_code& ec) {
  using beast::http::error;
  if (ec == error::header_limit) return {431, "HeadersTooLarge", "request line and headers are larger than this server's limit"};
  if (ec == error::bad_version) return {505, "UnknownVersion", "only HTTP/1.0 and HTTP/1.1 are served here"};
  if (ec == error::multiple_content_length || ec == error::bad_content_length)
    return {400, "BadContentLength", "Content-Length must be one decimal number, and not beside Transfer-Encoding"};
  if (ec == error::bad_transfer_encoding) return {400, "BadTransferEncoding", "Transfer-Encoding must be sent once, and not beside Content-Length"};
  return {400, "BadRequest", "the request is not valid HTTP/1.1"};
}

}  // namespace

struct Http1Parser::Impl {
  std::optional<HeadParser> parser;
  std::size_t parsed{0};  // bytes that the parser has consumed
  std::size_t headerBytes;
  int headers;
};

Http1Parser::Http1Parser(std::size_t headerBytes, int headers) : impl_(new Impl{{}, 0, headerBytes, headers}) { reset(); }
Http1Parser::~Http1Parser() = default;

void Http1Parser::reset() {
  impl_->parser.emplace();
  impl_->parser->eager(false);
  impl_->parser->header_limit(static_cast<std::uint32_t>(impl_->headerBytes));
  impl_->parser->body_limit(boost::none);  // the server has its own
  impl_->parser->maxHeaders = impl_->headers;
  impl_->parsed = 0;
}

Http1Parser::Outcome Http1Parser::parse(std::string_view bytes, RequestHead& head) {
  HeadParser& parser = *impl_->parser;
  parser.head = &head;
  parser.bytes = bytes;
  beast::error_code ec;
  while (!ec && !parser.is_header_done() && impl_->parsed < bytes.size()) {
    const std::string_view rest = bytes.substr(impl_->parsed);
    impl_->parsed += parser.put({rest.data(), rest.size()}, ec);
  }
  if (ec == beast::http::error::need_more) ec = {};
  if (!ec && impl_->parsed > impl_->headerBytes) ec = beast::http::error::header_limit;
  if (ec) {
    const Fault fault = parser.fault ? *parser.fault : faultOf(ec);
    return {Outcome::Kind::Refused, 0, fault.status, fault.reason, fault.message};
  }
  if (parser.is_header_done()) return {Outcome::Kind::HeadDone, impl_->parsed, 0, {}, {}};
  if (bytes.size() >= impl_->headerBytes) {
    const Fault fault = faultOf(beast::http::error::header_limit);
    return {Outcome::Kind::Refused, 0, fault.status, fault.reason, fault.message};
  }
  return {};
}

}  // namespace coterie::http
