// What the cgroup adapters of both versions share: names of trees and who made them, errors, values in the kernel's files. Thread-safe.
//
// A tree is a directory coterie-<pid>-<start time>/ below the maker's own cgroup, so that a tree of a run that has gone is known by its name: its pid
// is nobody's now, a zombie's, or that of a process that started at another time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "model/ids.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

[[nodiscard]] std::string treeNameOfThisRun();
[[nodiscard]] bool treeOfDeadRun(std::string_view name);
// Removes the trees of dead runs below the parents; with `kill` their processes are killed first, without it trees with processes stay.
void clearTreesOfDeadRuns(const std::vector<std::string>& parents, bool kill);
// The directories below a tree (one level) and the tree itself, as far as they are empty.
void removeTree(const std::string& tree);

[[nodiscard]] Error cgroupError(const std::string& what, const std::string& path, int error);
[[nodiscard]] Error unknownContainer(InstanceId id);
// Opens each file; the first that cannot be is the error.
struct HeldFile {
  UniqueFd& file;
  std::string path;
  int flags;
};
[[nodiscard]] Status openAll(const std::vector<HeldFile>& files);
[[nodiscard]] PreparedWrite fileWrite(const UniqueFd& file, std::string text);
// All threads of a process, back on the CPUs that it came with.
void giveBackMask(int pid, const CpuSet& mask);
// The numbers in a list of processes or threads, and a set; empty if there is none.
[[nodiscard]] std::vector<int> idsIn(const std::optional<std::string>& text);
[[nodiscard]] CpuSet setIn(const UniqueFd& file);

}  // namespace coterie::linux
