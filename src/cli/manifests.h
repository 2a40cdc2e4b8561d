// Reads what `-f` names: a file, a folder (its *.yaml, *.yml and *.json, by name), or "-" for standard input; several documents each.
//
// All faults of all files are listed as "file:line: path: message". Tenants come before services, as they are needed first. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"
#include "objects/decode.h"

namespace coterie::cli {

struct Manifests {
  std::vector<objects::AnyObject> objects;
  std::vector<std::string> faults;  // not empty: use nothing
};

// The text of a file, or of standard input for "-"; of one that is too large for the parsers only as much as makes them say so.
// Errors: InvalidArgument/Unreadable (names the path).
[[nodiscard]] Result<std::string> readInput(const Context& context, const std::string& path);
[[nodiscard]] Manifests readManifests(const Context& context, const std::vector<std::string>& paths, const std::string& defaultNamespace);
// As the API takes it.
[[nodiscard]] Value manifestValue(const objects::AnyObject& object);

}  // namespace coterie::cli
