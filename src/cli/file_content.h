// All bytes of a file that somebody named. NotFound/CannotRead, with the path and why. O(bytes). Thread-safe.
#pragma once

#include <string>

#include "base/result.h"

namespace coterie::cli {

[[nodiscard]] Result<std::string> contentOf(const std::string& path);

}  // namespace coterie::cli
