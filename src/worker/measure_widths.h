// Timing several widths of one model within a bounded time.
//
// Widths are tried in the order given. One whose turn would end after the time that is left, taken to be as long as the longest so far, is left out,
// and so are all after it; so are the wider ones after two in a row by which a run got less than a twentieth shorter: what does not gain from four
// threads does not from eight. The first width is always tried. Errors: the first of `one`. O(widths) calls. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "ports/container_runtime.h"

namespace coterie::worker {

// now: for tests; the monotonic clock otherwise.
[[nodiscard]] Result<std::vector<WidthSpeed>> measureWithin(const std::vector<std::int32_t>& widths, Nanos time,
                                                            const std::function<Result<WidthSpeed>(int width)>& one,
                                                            const std::function<Nanos()>& now = {});

}  // namespace coterie::worker
