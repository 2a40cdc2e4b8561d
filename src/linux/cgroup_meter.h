// A ContainerMeter over cgroups of both versions, through descriptors that are kept.
//
// A file is opened when it is first asked for, kept, and opened again by its path where the cgroup has gone (kept_file.h); one that was never there
// is not looked for again until open(). CPU time: cpuacct.usage of v1, else cpu.stat of v2, which is there also without controllers. Throttling:
// cpu.stat of v1, wherever CPU time is counted (a machine may mount cpu without cpuacct: then it is known alone), else of v2. Pressure only with v2
// (a hybrid machine has it where the container has a v2 cgroup of its own); sets: cpuset; memory: memory.stat, memory.numa_stat. Up to eight
// descriptors a container. Kernel formats: cgroup_figures.h. Thread rule: control loop.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "linux/cgroup_quota.h"
#include "linux/kept_file.h"
#include "linux/own_cgroup.h"
#include "ports/container_meter.h"

namespace coterie::linux {

class CgroupMeter final : public ContainerMeter {
 public:
  // Where the directories of a container are; a test has files of its own.
  using Places = std::function<CgroupDirectories(int pid, const std::string& cgroup)>;
  CgroupMeter() : CgroupMeter(ownCgroups) {}
  explicit CgroupMeter(Places places) : places_(std::move(places)) {}

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
    KeptFile usage;      // v1: cpuacct.usage
    KeptFile throttles;  // the cpu.stat of v1's cpu, or, where v1 counts CPU time alone, of v2
    KeptFile cpuStat;    // v2's, for CPU time where v1 does not count it
    KeptFile pressure, cpus, mems, memoryStat, numaStat;
    QuotaDirectory quota;
    std::string lastUsage, lastThrottles;
  };
  [[nodiscard]] Container* find(InstanceId id);

  Places places_;
  std::map<InstanceId, Container> containers_;
};

}  // namespace coterie::linux
