// A choice of width and a speed-up curve as sentences: the one text for `coterie explain`, events and `coterie plan node`. A sentence speaks of the
// group as "it" and has no full stop. O(length). Pure. Thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/width.h"

namespace coterie::allocation {

// "MeetsObjective"
[[nodiscard]] std::string_view widthReasonName(WidthReason reason);
[[nodiscard]] std::string widthReasonText(const WidthChoice& choice, std::optional<Nanos> objective, double quantile);
[[nodiscard]] std::string threadsText(int width);  // "2 threads", "1 thread"
// "a run takes 80.1 ms by 1 thread, 45 ms by 2, 30 ms by 4"
[[nodiscard]] std::string curveText(const std::vector<RunTime>& curve);
[[nodiscard]] std::string millisText(Nanos time);  // "45 ms", "0.14 ms"; "without end" for kEndless

}  // namespace coterie::allocation
