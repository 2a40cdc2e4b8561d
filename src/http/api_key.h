// The API key that a request shows: "Authorization: Bearer K" or "X-API-Key: K". What it is worth, identity knows.
//
// Nobody must take a request that shows something for one that shows nothing: showsKey() is also true for a header that cannot be read as a key.
// O(headers). Pure. Thread-compatible.
#pragma once

#include <string_view>

#include "http/message.h"

namespace coterie::http {

// True: more than one Authorization or X-API-Key, so a proxy and we might take different ones for the caller's.
[[nodiscard]] bool hasSeveralKeys(const RequestHead& head);
// Is there an Authorization or X-API-Key, whatever it holds?
[[nodiscard]] bool showsKey(const RequestHead& head);
// Empty if there is none.
[[nodiscard]] std::string_view keyOf(const RequestHead& head);

}  // namespace coterie::http
