// The configuration of `coterie agent`: one YAML document, spelt as the manifests and the groups of `coterie plan node` are wherever they have a
// word.
//
//   mode: observe                    # or enforce; default observe: nothing is changed
//   reserved: 0-1                    # CPUs of the machine that nobody may own; default none below 8 CPUs
//   kubeletState: /var/lib/kubelet/cpu_manager_state    # the default; while it says "static", nothing is enforced
//   cacheClasses: auto               # for tenants with an isolated group, where the kernel has them (default); all; off
//   memoryNodes: follow              # a container's go with its CPUs unless somebody chose them (default); keep: as they are found
//   tenants:                         # left out: the tenants that the groups name, each of weight 100
//     - {name: audio, weight: 200, quota: {cpus: 8}}
//   groups:                          # at least one; the order decides who owns a process that two of them name
//     - name: audio/speech           # NAME or NAMESPACE/NAME, once
//       tenant: audio
//       weight: 100                  # within the tenant; default 100
//       minCpus: 500m                # floor; default 0
//       maxCpus: 4                   # ceiling; left out: the machine
//       isolation: core              # what no other tenant shares: none (default), core, cache, node
//       lend: never                  # its idle CPUs to others; when-idle (default)
//       members:                     # at least one rule; a process belongs to the group if all of a rule holds. Never: pid 1, kernel threads, the
//                                    # agent and the processes above it
//         - pids: [812, 813]         # or one: [812]
//         - command: "tritonserver *"  # shell pattern of the whole command line, with or without the program's folder
//         - cgroup: "/kubepods.slice/*"  # of its path in one hierarchy, without the mount point; with version 1: that of cpuset, else of cpu
//         - runtime: docker          # kubernetes, containerd, cri-o, docker, podman; none: no container
//           container: "3f2a9c*"     # of the container's id
//         - pod: "8d4c0a8e-*"        # of the pod's uid
//         - {command: "fetch *", role: init, minCpus: 2}   # app (default), init or sidecar; minCpus: what that one needs. Pauses are known without
//       hints:                       # how a container hears how many threads to use; left out: it does not
//         file: /run/coterie/{container}.json   # replaced as a whole; {container}: start of its id, else its pid; {pid}
//         signal: SIGUSR1            # afterwards, to its first process, if that has a handler: SIGHUP, SIGUSR1, SIGUSR2
//         http: http://127.0.0.1:9000/threads   # POST of {"container", "pid", "threads", "cpus"}; an IP address
//
// The agent reads it again when it has changed (seen within about a second; once it has been the same for two looks) and on SIGHUP. A file with a
// fault is refused as a whole; of a good one what is different is put in force (node_agent_reload.cc), at once or, where something outside the file
// is in the way, once that has gone. Every field may change; --mode stays above mode.
//
// Every fault is listed with path, line and fix. O(bytes). Pure but for the parser of YAML. Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "foreign/discover.h"
#include "model/cache_class.h"
#include "model/fault.h"
#include "model/isolation.h"
#include "plan_node/groups_file.h"

namespace coterie::node_agent {

enum class Mode : std::uint8_t { Observe, Enforce };
[[nodiscard]] std::string_view modeName(Mode mode);

struct HintSpec {
  std::string file;        // with its placeholders; empty: none
  std::string signalName;  // "SIGUSR1"; empty: none
  std::string http{};      // with its placeholders; empty: none
  [[nodiscard]] bool any() const { return !file.empty() || !http.empty(); }
  friend bool operator==(const HintSpec&, const HintSpec&) = default;
};

struct AgentGroup {
  std::string name;
  std::size_t tenant{0};  // index into the tenants
  std::int64_t weight{100};
  MilliCpu floor;
  MilliCpu ceiling;  // 0: the machine
  Isolation isolation{Isolation::None};
  bool lends{true};
  std::vector<foreign::MemberRule> members;
  HintSpec hints;
};

struct AgentFile {
  Mode mode{Mode::Observe};
  std::optional<CpuSet> reserved;
  std::string kubeletState{"/var/lib/kubelet/cpu_manager_state"};
  CacheClassMode cacheClasses{CacheClassMode::Auto};
  bool keepsMemoryNodes{false};
  std::vector<plan_node::TenantEntry> tenants;
  std::vector<AgentGroup> groups;
};

struct ReadAgentFile {
  AgentFile file;
  Faults faults;  // not empty: do not use the file
};

[[nodiscard]] ReadAgentFile readAgentFile(std::string_view yaml);
[[nodiscard]] std::vector<foreign::GroupRules> rulesOf(const AgentFile& file);

}  // namespace coterie::node_agent
