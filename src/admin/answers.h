// Answers of the admin API. Internal to this folder.
#pragma once

#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "http/server.h"
#include "model/fault.h"
#include "text/text.h"

namespace coterie::admin {

inline void answer(http::RequestContext& request, const Value& value, int status = 200) {
  http::Response response;
  response.status = status;
  response.contentType = "application/json";
  response.body = text::printJson(value) + "\n";
  request.respond(std::move(response));
}

inline void answer(http::RequestContext& request, const Error& error) { request.respond(http::errorResponse(error)); }

inline void answerFaults(http::RequestContext& request, const Faults& faults) {
  std::string all;
  Value list = Value::emptyList();
  for (const Fault& fault : faults) {
    all += (all.empty() ? "" : "; ") + faultText({fault.path, 0, fault.message});
    Value item = Value::emptyMap();
    item.set("path", fault.path);
    item.set("line", fault.line);
    item.set("message", fault.message);
    list.push(std::move(item));
  }
  Value value = Value::emptyMap();
  value.set("error", all);
  value.set("reason", "InvalidObject");
  value.set("faults", std::move(list));
  answer(request, value, httpStatus(Code::InvalidArgument));
}

inline bool isSet(const http::RequestContext& request, std::string_view parameter) {
  const auto value = http::queryParameter(request.head().query, parameter);
  return value && *value != "0" && *value != "false";
}

// A number in the query; nullopt if it is absent or no number.
inline std::optional<std::uint64_t> numberParameter(const http::RequestContext& request, std::string_view parameter) {
  const auto text = http::queryParameter(request.head().query, parameter);
  std::uint64_t number = 0;
  if (!text || text->empty() || std::from_chars(text->data(), text->data() + text->size(), number).ptr != text->data() + text->size())
    return std::nullopt;
  return number;
}

inline Result<Value> parseMap(const std::string& body) {
  auto value = text::parseJson(body.empty() ? std::string_view("{}") : std::string_view(body));
  if (value.ok() && value->asMap() == nullptr) return Error{Code::InvalidArgument, "BadJson", "the body must be a JSON object"};
  return value;
}

inline bool isGet(const http::RequestContext& request) {
  return request.head().method == http::Method::Get || request.head().method == http::Method::Head;
}

inline Error noSuchPath(const http::RequestContext& request) {
  return {Code::NotFound, "NoSuchPath", std::string(request.head().methodName) + " " + std::string(request.head().path) + " is not served here"};
}

}  // namespace coterie::admin
