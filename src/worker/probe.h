// How fast a loaded model is: one run to warm up, then five that are timed, on inputs of zeros.
//
// Dynamic dimensions are 1 unless the service gives a probe shape. The mean is of the five, p99 the slowest of them (five runs know no better), CPU
// time that of the calling thread times the width at most the process's. Errors: InvalidArgument/ProbeFailed names the shapes and the setting to
// change. Thread-compatible.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "onnx/session.h"
#include "ports/container_runtime.h"

namespace coterie::worker {

inline constexpr int kProbeRuns = 5;  // that are timed

// `memory`: where answers may be written; its contents are lost.
[[nodiscard]] Result<WidthSpeed> probe(const onnx::Session& session, const std::vector<ProbeShape>& shapes, std::span<std::byte> memory, int width);

}  // namespace coterie::worker
