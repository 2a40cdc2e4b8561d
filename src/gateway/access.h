// What an access log is told of one inference request when it is answered: who, what, how long, how it ended; nothing of what was in it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/units.h"
#include "http/peer.h"

namespace coterie::gateway {

struct Access {  // valid during the call
  std::string_view requestId;
  std::string_view tenant;  // empty: nobody that is known
  std::string_view keyId;
  std::string_view nameSpace;  // of the service, where the caller may see one; else both are empty
  std::string_view service;
  int status{0};
  std::string_view reason;    // of all but 200
  std::uint64_t bytesIn{0};   // of the body, as announced, or as it came where nothing was announced
  std::uint64_t bytesOut{0};  // of the answer's body
  Nanos queued{};             // before its (last) run
  Nanos run{};                // from there to its answer
  const http::Peer& peer;
};
using TellAccess = std::function<void(const Access&)>;

}  // namespace coterie::gateway
