// Timing several widths of one model within a bounded time.
//
// Widths are tried in the order given. One whose turn would end after the time that is left, taken to be as long as the longest so far, is left out,
// and so are all after it; so are the wider ones after two in a row by which a run got less than a twentieth shorter: what does not gain from four
// threads does not from eight. The first width is always tried. A width that was disturbed ends it, too: somebody else's threads ran where this one's
// were to run, and a time that is kept for good must not tell of them. Errors: the first of `one`. O(widths) calls. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "ports/container_runtime.h"

namespace coterie::worker {

// Nothing: it was disturbed.
using TimeOneWidth = std::function<Result<std::optional<WidthSpeed>>(int width)>;
// now: for tests; the monotonic clock otherwise.
[[nodiscard]] Result<std::vector<WidthSpeed>> measureWithin(const std::vector<std::int32_t>& widths, Nanos time, const TimeOneWidth& one,
                                                            const std::function<Nanos()>& now = {});

// What all threads of this process have waited for a CPU until now, by the kernel's account; 0 where it keeps none.
[[nodiscard]] Nanos waitedForCpus();
// Did `width` threads wait for more than a sixteenth of the time that they were to run?
[[nodiscard]] bool disturbed(Nanos waited, Nanos ran, int width);

}  // namespace coterie::worker
