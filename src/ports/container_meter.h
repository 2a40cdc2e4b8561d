// What the kernel counts of other people's containers, read often and cheaply: CPU time and throttling, waiting, sets in force, memory.
//
// A container is opened with the place of its cgroup and counted from then on. What is not counted for it (no cgroup of its own, a kernel without
// that counter, a cgroup that has gone) is nullopt or empty: a value, no error. CPU time and throttling never fall while the container lives; where
// its cgroup was made anew they begin anew, which the reader takes for a restart. Cost: one system call per reading and file, none for what is known
// to be missing. Adapters: src/linux (CgroupMeter), src/testing (FakeContainerMeter); one contract suite, container_meter_contract.h. Thread rule:
// control loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cpu_set.h"
#include "base/units.h"
#include "model/ids.h"

namespace coterie {

struct ContainerCpu {
  Nanos used{};                      // CPU time of all its threads
  std::int64_t throttledPeriods{0};  // in which its quota was used up
  Nanos throttled{};                 // it was not let run for so long, added over CPUs
  bool timed{true};                  // false: its CPU time is not counted (v1 with cpu and without cpuacct), throttling is
  friend bool operator==(const ContainerCpu&, const ContainerCpu&) = default;
};

// What its own cgroup may use of CPUs, whoever wrote that.
struct ContainerQuota {
  MilliCpu cpus;  // 0: no limit
  friend bool operator==(const ContainerQuota&, const ContainerQuota&) = default;
};

// Pressure stall information of the CPU: threads that could run and did not.
struct ContainerPressure {
  std::int64_t somePermille{0};  // of the last 10 s, during which at least one waited
  Nanos some{};                  // in all
  friend bool operator==(const ContainerPressure&, const ContainerPressure&) = default;
};

struct ContainerSets {
  CpuSet cpus, memoryNodes;  // in force
  friend bool operator==(const ContainerSets&, const ContainerSets&) = default;
};

struct ContainerResident {
  Bytes anonymous, file;  // resident
  friend bool operator==(const ContainerResident&, const ContainerResident&) = default;
};

struct NodeResident {
  int node{0};
  Bytes resident;  // anonymous and of files
  friend bool operator==(const NodeResident&, const NodeResident&) = default;
};

class ContainerMeter {
 public:
  virtual ~ContainerMeter() = default;
  // cgroup: the container's own, as its path in a hierarchy; empty: it has none. Opened again: its place is looked up anew.
  virtual void open(InstanceId id, int pid, const std::string& cgroup) = 0;
  virtual void close(InstanceId id) = 0;  // unknown: nothing

  [[nodiscard]] virtual std::optional<ContainerCpu> cpu(InstanceId id) = 0;
  [[nodiscard]] virtual std::optional<ContainerQuota> quota(InstanceId id) = 0;
  [[nodiscard]] virtual std::optional<ContainerPressure> pressure(InstanceId id) = 0;
  [[nodiscard]] virtual std::optional<ContainerSets> sets(InstanceId id) = 0;
  [[nodiscard]] virtual std::optional<ContainerResident> memory(InstanceId id) = 0;
  [[nodiscard]] virtual std::vector<NodeResident> memoryNodes(InstanceId id) = 0;  // ascending node
};

}  // namespace coterie
