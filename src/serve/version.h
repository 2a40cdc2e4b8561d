// The version that `coterie version`, GET /v2 and metrics tell.
#pragma once

namespace coterie::serve {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace coterie::serve
