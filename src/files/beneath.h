// Opens a file below a folder and nowhere else, whatever the name or links in it say.
//
// openat2 with RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS: links within the root are followed, those that lead out are refused. Where the kernel has
// no openat2 (before 5.6, or filtered), the path is walked part by part and any link is refused. Only regular files are opened: no device, no fifo
// that would block. Errors: see ports/model_files.h. Thread-safe. Source: openat2(2).
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace coterie::files {

[[nodiscard]] Result<UniqueFd> openRoot(const std::string& path);
[[nodiscard]] Result<UniqueFd> openBeneath(int root, const std::string& relativePath);
// The walk alone, for kernels without openat2.
[[nodiscard]] Result<UniqueFd> openByWalking(int root, const std::string& relativePath);

}  // namespace coterie::files
