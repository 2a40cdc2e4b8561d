#include "base/result.h"

namespace coterie {

namespace {
struct CodeRow {
  int http;
  int grpc;
  std::string_view name;
};
CodeRow row(Code code) {
  switch (code) {
    case Code::InvalidArgument: return {400, 3, "InvalidArgument"};
    case Code::Unauthenticated: return {401, 16, "Unauthenticated"};
    case Code::PermissionDenied: return {403, 7, "PermissionDenied"};
    case Code::NotFound: return {404, 5, "NotFound"};
    case Code::Conflict: return {409, 10, "Conflict"};
    case Code::TooLarge: return {413, 8, "TooLarge"};
    case Code::ResourceExhausted: return {429, 8, "ResourceExhausted"};
    case Code::Cancelled: return {499, 1, "Cancelled"};
    case Code::Internal: return {500, 13, "Internal"};
    case Code::Unimplemented: return {501, 12, "Unimplemented"};
    case Code::Unavailable: return {503, 14, "Unavailable"};
    case Code::DeadlineExceeded: return {504, 4, "DeadlineExceeded"};
  }
  return {500, 13, "Internal"};
}
}  // namespace

int httpStatus(Code code) { return row(code).http; }
int grpcStatus(Code code) { return row(code).grpc; }
std::string_view codeName(Code code) { return row(code).name; }

}  // namespace coterie
