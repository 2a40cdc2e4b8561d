// The protocol's other JSON bodies: server and model metadata, repository index, configuration, statistics, errors.
//
// All return a whole JSON document. `signature` may be null where a service's model has not been loaded yet: inputs and outputs are then empty lists.
// O(size of the document). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/tensor.h"

namespace coterie::oip {

inline constexpr std::string_view kModelVersion = "1";  // a service has one model; its version on the wire

[[nodiscard]] std::string serverMetadata(std::string_view version);
[[nodiscard]] std::string liveBody();
[[nodiscard]] std::string readyBody(bool ready);
// {"name": M, "ready": true}
[[nodiscard]] std::string modelReadyBody(std::string_view model, bool ready);
[[nodiscard]] std::string modelMetadata(std::string_view model, const ModelSignature* signature);
// In the form of Triton's model configuration, as its clients read it.
[[nodiscard]] std::string modelConfig(std::string_view model, const ModelSignature* signature);

struct IndexEntry {
  std::string name;  // as the caller would write it
  bool ready{false};
  std::string reason;  // why not
};
[[nodiscard]] std::string repositoryIndex(std::span<const IndexEntry> entries);

struct Total {
  std::int64_t count{0};
  std::int64_t nanos{0};
};
struct ModelStatistics {
  std::string name;
  std::int64_t lastInferenceMillis{0};  // since 1970; 0: none yet
  Total success;                        // whole requests
  Total fail;
  Total queue;                 // waiting for a lane
  Total run;                   // on a lane
  std::int64_t executions{0};  // runs; less than requests where several ran as one
  struct Batch {
    int requests{0};
    Total run;
  };
  std::vector<Batch> batches;  // by how many ran as one
};
[[nodiscard]] std::string statistics(std::span<const ModelStatistics> models);

// {"error": ..., "reason": ..., "limit": ..., "retryAfterMs": ..., "requestId": ...}; empty ones are left out.
[[nodiscard]] std::string errorBody(const Error& error, std::string_view limit, std::optional<Millis> retryAfter, std::string_view requestId);

}  // namespace coterie::oip
