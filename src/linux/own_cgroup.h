// Where the directories of somebody else's container are, in each hierarchy: those that are its own, not one that it shares with others.
//
// The path of a process below a mount may go on inside the container; its own part ends with the name that the runtime gave it. Errors: none, what is
// not there is not named. Two small reads. Thread-safe. Kernel formats: cgroup_paths.h.
#pragma once

#include <optional>
#include <string>

#include "linux/cgroup_paths.h"

namespace coterie::linux {

// cgroup: the container's own path, which ends with its name; empty: it has none, and neither has the answer.
[[nodiscard]] CgroupDirectories ownCgroups(int pid, const std::string& cgroup);
// Of the directory where a process is, the part that is the container's own.
[[nodiscard]] std::optional<std::string> ownPart(const std::string& directory, const std::string& cgroup);

}  // namespace coterie::linux
