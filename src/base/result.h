// Errors as values.
//
// Result<T> holds a T or an Error. Error codes are the twelve of the request path; each has exactly one HTTP and one gRPC status
// (http_status, grpc_status below), so both protocols answer alike. `reason` is a CamelCase word that programs may test and metrics may
// carry; `message` is for the person who has to act: it names the field and the fix. No exception crosses a module boundary.
// Thread-compatible.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace coterie {

enum class Code : std::uint8_t {
  InvalidArgument,    // 400
  Unauthenticated,    // 401
  PermissionDenied,   // 403
  NotFound,           // 404
  Conflict,           // 409 ABORTED
  TooLarge,           // 413 RESOURCE_EXHAUSTED
  ResourceExhausted,  // 429
  Cancelled,          // 499
  Internal,           // 500
  Unimplemented,      // 501
  Unavailable,        // 503
  DeadlineExceeded,   // 504
};

[[nodiscard]] int httpStatus(Code code);
[[nodiscard]] int grpcStatus(Code code);
[[nodiscard]] std::string_view codeName(Code code);

struct Error {
  Code code{Code::Internal};
  std::string reason;   // CamelCase, stable
  std::string message;  // for people

  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  [[nodiscard]] T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  [[nodiscard]] const Error& error() const { return assert(!ok()), *std::get_if<1>(&state_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return assert(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace coterie
