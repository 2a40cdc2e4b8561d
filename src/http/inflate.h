// Decodes compressed request bodies (zlib), bounded against bodies that unpack to far more than they are.
// O(output). Errors: InvalidArgument/BadCompression, TooLarge/BodyTooLarge, Unimplemented/UnknownEncoding. Thread-safe (no state).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace coterie::http {

// encoding: the value of Content-Encoding: "gzip", "x-gzip", "deflate" (zlib form as the standard says, or raw as some clients send), "identity" or
// "".
[[nodiscard]] Result<std::string> inflateBody(std::string_view body, std::string_view encoding, std::size_t maxOutput);

}  // namespace coterie::http
