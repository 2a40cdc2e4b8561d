// Request targets of the protocol: what a path asks for.
//
// parseTarget() takes the path of an HTTP request target (a query, if any, is ignored), decodes percent escapes in names and says which endpoint it
// is; it does not know which models exist. A model is named `service` (in the caller's namespace) or `namespace.service`; the split is at the first
// dot. O(length). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/ids.h"

namespace coterie::oip {

enum class Endpoint : std::uint8_t {
  Unknown,
  ServerMetadata,      // GET  /v2
  Live,                // GET  /v2/health/live
  Ready,               // GET  /v2/health/ready
  ModelMetadata,       // GET  /v2/models/M[/versions/V]
  ModelReady,          // GET  .../ready
  ModelConfig,         // GET  .../config
  ModelStatistics,     // GET  .../stats
  AllStatistics,       // GET  /v2/models/stats
  Infer,               // POST .../infer
  RepositoryIndex,     // POST /v2/repository/index
  RepositoryLoad,      // POST /v2/repository/models/M/load
  RepositoryUnload,    // POST /v2/repository/models/M/unload
  TraceSetting,        // /v2[/models/M]/trace/setting
  Logging,             // /v2/logging
  SharedMemoryStatus,  // GET  /v2/{system,cuda}sharedmemory[/region/R]/status
  SharedMemoryChange,  // POST .../register, .../unregister
};

struct Target {
  Endpoint endpoint{Endpoint::Unknown};
  std::string model;    // as written, decoded; empty where the endpoint has none
  std::string version;  // empty: none was given
};

[[nodiscard]] Target parseTarget(std::string_view target);

// Does the endpoint answer to POST (all others to GET)?
[[nodiscard]] bool wantsPost(Endpoint endpoint);

// "service" -> {home, service}; "namespace.service" -> {namespace, service}.
[[nodiscard]] ServiceName resolveModel(std::string_view model, std::string_view homeNamespace);

}  // namespace coterie::oip
