#include "linux/cgroup_meter.h"

#include <unistd.h>

#include <utility>

#include "linux/cgroup_figures.h"
#include "linux/files.h"
#include "linux/own_cgroup.h"

namespace coterie::linux {

void CgroupMeter::open(InstanceId id, int pid, const std::string& cgroup) {
  const CgroupDirectories own = places_(pid, cgroup);
  Container container;
  const auto v1 = [&](const char* controller, const char* file) {
    const auto found = own.v1.find(controller);
    return found == own.v1.end() ? std::string() : found->second + file;
  };
  const auto either = [&](const char* controller, const char* file, const char* v2File) {
    std::string path = v1(controller, file);
    return KeptFile(!path.empty() || !own.v2 ? std::move(path) : *own.v2 + v2File);
  };
  container.usage = KeptFile(v1("cpuacct", "/cpuacct.usage"));
  container.throttles = container.usage.named() ? either("cpu", "/cpu.stat", "/cpu.stat") : KeptFile(v1("cpu", "/cpu.stat"));
  container.cpuStat = KeptFile(!container.usage.named() && own.v2 ? *own.v2 + "/cpu.stat" : "");
  container.pressure = KeptFile(own.v2 ? *own.v2 + "/cpu.pressure" : "");
  container.cpus = either("cpuset", "/cpuset.effective_cpus", "/cpuset.cpus.effective");
  container.mems = either("cpuset", "/cpuset.effective_mems", "/cpuset.mems.effective");
  container.memoryStat = either("memory", "/memory.stat", "/memory.stat");
  container.numaStat = either("memory", "/memory.numa_stat", "/memory.numa_stat");
  container.quota = quotaDirectory(own);
  containers_.insert_or_assign(id, std::move(container));
}

CgroupMeter::Container* CgroupMeter::find(InstanceId id) {
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : &found->second;
}

std::optional<ContainerCpu> CgroupMeter::cpu(InstanceId id) {
  Container* container = find(id);
  if (container == nullptr) return std::nullopt;
  if (container->usage.named()) {
    auto usage = container->usage.read();
    if (!usage) return std::nullopt;
    if (*usage != container->lastUsage || container->lastThrottles.empty()) {  // who did not run was not throttled
      container->lastThrottles = container->throttles.read().value_or("");
      container->lastUsage = std::move(*usage);
    }
    return cpuFigures(container->lastUsage, container->lastThrottles);
  }
  const auto throttling = container->throttles.named() ? throttleFigures(container->throttles.read().value_or("")) : std::nullopt;
  auto cpu = container->cpuStat.named() ? cpuFigures(container->cpuStat.read().value_or("")) : std::nullopt;
  if (!cpu) return throttling;
  if (throttling) cpu->throttledPeriods = throttling->throttledPeriods, cpu->throttled = throttling->throttled;
  return cpu;
}

std::optional<ContainerQuota> CgroupMeter::quota(InstanceId id) {
  const Container* container = find(id);
  const auto limit = container == nullptr ? std::nullopt : readCpuLimit(container->quota);
  return limit ? std::optional(ContainerQuota{limit->cpus()}) : std::nullopt;
}

std::optional<ContainerPressure> CgroupMeter::pressure(InstanceId id) {
  Container* container = find(id);
  return container == nullptr ? std::nullopt : pressureFigures(container->pressure.read().value_or(""));
}

std::optional<ContainerSets> CgroupMeter::sets(InstanceId id) {
  Container* container = find(id);
  const auto cpus = container == nullptr ? std::nullopt : container->cpus.read();
  if (!cpus) return std::nullopt;
  return ContainerSets{setOf(cpus), setOf(container->mems.read())};
}

std::optional<ContainerResident> CgroupMeter::memory(InstanceId id) {
  Container* container = find(id);
  const auto text = container == nullptr ? std::nullopt : container->memoryStat.read();
  return text ? std::optional(memoryFigures(*text)) : std::nullopt;
}

std::vector<NodeResident> CgroupMeter::memoryNodes(InstanceId id) {
  Container* container = find(id);
  const auto text = container == nullptr ? std::nullopt : container->numaStat.read();
  return text ? nodeFigures(*text, Bytes(::sysconf(_SC_PAGESIZE))) : std::vector<NodeResident>{};
}

}  // namespace coterie::linux
