// A ContainerMeter over cgroups of both versions, through descriptors that are kept.
//
// A file is opened when it is first asked for, kept, and opened again by its path where the cgroup has gone (kept_file.h); one that was never there
// is not looked for again until open(). CPU time: cpuacct.usage and cpu.stat of v1, else cpu.stat of v2, which is there also without controllers;
// pressure only with v2 (a hybrid machine has it where the container has a v2 cgroup of its own); sets: cpuset; memory: memory.stat,
// memory.numa_stat. Up to seven descriptors a container. Kernel formats: cgroup_figures.h. Thread rule: control loop.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "linux/cgroup_quota.h"
#include "linux/kept_file.h"
#include "ports/container_meter.h"

namespace coterie::linux {

class CgroupMeter final : public ContainerMeter {
 public:
  void open(InstanceId id, int pid, const std::string& cgroup) override;
  void close(InstanceId id) override { containers_.erase(id); }
  [[nodiscard]] std::optional<ContainerCpu> cpu(InstanceId id) override;
  [[nodiscard]] std::optional<ContainerQuota> quota(InstanceId id) override;
  [[nodiscard]] std::optional<ContainerPressure> pressure(InstanceId id) override;
  [[nodiscard]] std::optional<ContainerSets> sets(InstanceId id) override;
  [[nodiscard]] std::optional<ContainerResident> memory(InstanceId id) override;
  [[nodiscard]] std::vector<NodeResident> memoryNodes(InstanceId id) override;

 private:
  struct Container {
    KeptFile usage;  // v1 only
    KeptFile cpuStat, pressure, cpus, mems, memoryStat, numaStat;
    QuotaDirectory quota;
    std::string lastUsage, lastCpuStat;
  };
  [[nodiscard]] Container* find(InstanceId id);

  std::map<InstanceId, Container> containers_;
};

}  // namespace coterie::linux
