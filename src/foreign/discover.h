// Groups and containers in a scan of processes: whose server is whose, by rules that a person wrote.
//
// A rule names what all must hold (a pid, patterns of the command, the cgroup, the container's id or its pod's uid, a runtime); a group has a process
// if one of its rules does, and the first group in the file's order wins. A container is all processes of one container's cgroup (cgroup_path.h),
// also those that no rule names; outside of containers it is a process with those that it began, down to the next one of another group. Keyed by the
// container's id; where two cgroups carry the same one (a runtime that was started anew and left one behind) the one begun last counts. A pod's pause
// container belongs to the group that has another container of the pod (the first such group), or to nobody; what else a container is, app, init or
// sidecar, the rule says that named its first process: no cgroup tells. A command pattern is held against the command as it was called and with the
// program's folder left out. Nobody's are, whatever a rule says: the init (pid 1), kernel threads, the caller and all above it. Everything that was
// decided against somebody is a remark. O(processes * rules). Pure; the order of the scan does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/units.h"
#include "foreign/cgroup_path.h"
#include "model/container_role.h"
#include "model/seen_process.h"

namespace coterie::foreign {

// What is empty is not asked.
struct MemberRule {
  std::vector<int> pids;  // any of them
  std::string command, cgroup, container, pod;
  std::optional<Runtime> runtime;
  ContainerRole role{ContainerRole::App};  // of what it names; pauses are known without
  MilliCpu floor{};                        // of an init or a sidecar
  friend bool operator==(const MemberRule&, const MemberRule&) = default;
};

struct GroupRules {
  std::string name;  // for remarks
  std::vector<MemberRule> members;
};

struct FoundContainer {
  std::string key;                     // for ever: the container's id, or "PID@START"
  std::size_t group{0};                // index of the rules
  ContainerName name;                  // without an id: no container
  std::vector<SeenProcess> processes;  // by start, then pid; the first is the one that began it
  ContainerRole role{ContainerRole::App};
  MilliCpu floor{};  // of an init or a sidecar
  [[nodiscard]] int pid() const { return processes.front().pid; }
  [[nodiscard]] std::uint64_t started() const { return processes.front().started; }
};

struct Discovery {
  std::vector<FoundContainer> containers;  // by group, start, key
  std::vector<std::string> remarks;        // sorted, each once
};

// self: the caller's.
[[nodiscard]] Discovery discover(const std::vector<GroupRules>& groups, const std::vector<SeenProcess>& processes, int self);

// May discover() find something else in the second scan than in the first? Not where everybody who differs is in no container, named by no rule, and
// neither one of `owned` nor begun by one of them, and the caller runs below whom it ran before. owned: the processes of all containers found in the
// first. Scans ascending by pid. O(processes), and O(rules) for each that differs.
[[nodiscard]] bool mayFindOthers(const std::vector<GroupRules>& groups, const std::vector<SeenProcess>& first, const std::vector<SeenProcess>& second,
                                 const std::set<int>& owned, int self);

}  // namespace coterie::foreign
