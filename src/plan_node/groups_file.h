// The groups to plan for, as a person writes them: one YAML document, spelt as the product's own manifests are wherever these have a word.
//
//   tenants:                      # at least one
//     - name: audio
//       weight: 100               # as in Tenant; default 100
//       quota: {cpus: 8}          # what the tenant's groups own together; left out: no limit
//   groups:                       # at least one; the order is the order in which they came
//     - name: audio/speech        # NAME or NAMESPACE/NAME, once
//       tenant: audio
//       weight: 200               # within the tenant; default 100
//       band: high                # high, normal (default), low
//       minCpus: 500m             # floor; default 0
//       maxCpus: 4                # ceiling; left out: the machine
//       serviceClass: batch       # latency-critical (default) or batch
//       lend: never               # when-idle (default) or never
//       isolation: core           # what no other tenant shares: none (default), core, cache, node
//       memory: high-bandwidth    # dram, high-bandwidth or any-tier; left out: the nearest, slow memory last
//       device: gpu0              # a device of the machine (coterie machine show) to be near to; left out: none
//       instances: 2              # containers: how many (default 1); or those that run, with what each has (left out: none):
//       instances: [{home: 0-3, memoryNodes: 0, loans: 8-9, resident: 2Gi, expected: 3Gi, cpuWeight: 100}]
//       instances: [{}, {role: sidecar, minCpus: 500m}, {role: init, minCpus: 2}, {role: pause}]  # app (default): minCpus above is the apps'
//       demand: 1500m             # CPUs that it could use now; default 0
//       queued: true              # requests wait although all own lanes are busy; default false
//       loanLanes: 4              # per container; default: as many as maxCpus, or the machine's CPUs
//       runTimes:                 # measured: how long a run takes by so many threads; then a width is proposed, too
//         - {threads: 1, meanMs: 80, p99Ms: 82}    # the first is of one thread; p99Ms: default meanMs
//         - {threads: 2, meanMs: 45}
//       objective: {latencyMs: 60, percentile: 99}   # of the width; left out: what counts is how many requests are answered
//       arrivals: 12.5            # requests per second; default 0
//       atOnce: 1                 # requests at the same time, at most; left out: not known
//       maxInstances: 4           # that a wider run may have; default: those there are
//   pool: 4-5                     # the CPUs that are the shared pool's now; left out: there is none
//
// Every fault is listed with path, line and fix: unknown fields, wrong types, values out of range, empty lists, what is there twice, a tenant that is
// not listed, and a CPU that two groups call home outside the pool. O(bytes + CPUs named). Pure. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "allocation/decide.h"
#include "allocation/width.h"
#include "base/cpu_set.h"
#include "base/units.h"
#include "model/fault.h"
#include "model/objects.h"

namespace coterie::plan_node {

struct TenantEntry {
  std::string name;
  std::int64_t weight{100};
  MilliCpu cap;  // 0: none
  int line{0};
};

// One container, as far as it runs already.
struct ContainerEntry {
  CpuSet home;  // empty: not placed yet
  CpuSet memoryNodes;
  CpuSet loans;  // a loan lane is awake on each
  Bytes resident;
  Bytes expected;  // what it will need once it is loaded
  std::optional<std::int64_t> cpuWeight;
  ContainerRole role{ContainerRole::App};
  MilliCpu floor{};  // of an init or a sidecar
  int line{0};
};

// What the width of a group's runs is to be proposed from.
struct WidthEntry {
  std::vector<allocation::RunTime> curve;  // ascending, of one thread first
  std::optional<Objective> objective;
  MilliRps arrivals;
  std::optional<int> atOnce;
  std::optional<int> maxInstances;
};

struct GroupEntry {
  std::string name;
  std::size_t tenant{0};  // index into the tenants
  std::int64_t weight{100};
  allocation::Band band{allocation::Band::Normal};
  MilliCpu floor;
  MilliCpu ceiling;  // 0: the machine
  bool latencyCritical{true};
  allocation::Lend lend{allocation::Lend::WhenIdle};
  allocation::Isolation isolation{allocation::Isolation::None};
  allocation::MemoryTier memory{allocation::MemoryTier::Usual};
  std::string device;                      // empty: none
  std::vector<ContainerEntry> containers;  // at least one
  MilliCpu demand;
  bool queued{false};
  std::optional<int> loanLanes;
  std::optional<WidthEntry> width;
  int line{0};
};

struct GroupsFile {
  std::vector<TenantEntry> tenants;
  std::vector<GroupEntry> groups;
  CpuSet pool;
};

struct ReadGroups {
  GroupsFile file;
  Faults faults;  // not empty: do not use the file
};

[[nodiscard]] ReadGroups readGroups(std::string_view yaml);
// Ids in a sound file that this machine cannot have: CPUs beyond its last (one in between may be offline, and come back), memory nodes that it has
// not.
[[nodiscard]] Faults notOfMachine(const GroupsFile& file, const Machine& machine);

}  // namespace coterie::plan_node
