// Durations on the command line: "90s", "5m", "2h", "30d", "500ms"; a bare number is seconds. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/units.h"

namespace coterie::cli {

// Nothing for anything else, negative numbers, and what is beyond ten years.
[[nodiscard]] std::optional<Millis> parseDuration(std::string_view text);

}  // namespace coterie::cli
