// A snapshot and a plan in words, for tests that fail.
#pragma once

#include <string>

#include "allocation/decide.h"

namespace coterie::allocation {

[[nodiscard]] std::string text(const Snapshot& snapshot);
[[nodiscard]] std::string text(const Plan& plan);

}  // namespace coterie::allocation
