// The API key in a file, for --key-file: a key in a command's words would be seen by everybody on the machine who lists its processes.
//
// The file is one key, with or without a line end, and nobody but its owner may read it. Errors name the file and the fix:
// InvalidArgument/NoSuchFile, PermissionDenied/InsecurePermissions, Unauthenticated/MalformedKey, KeyChecksumMismatch; no message repeats the key.
// Thread-safe (no state).
#pragma once

#include <string>

#include "base/result.h"

namespace coterie::cli {

[[nodiscard]] Result<std::string> readKeyFile(const std::string& path);

}  // namespace coterie::cli
