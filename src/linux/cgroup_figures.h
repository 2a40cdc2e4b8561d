// The texts in which the kernel counts a cgroup, as values: cpu.stat, cpu.max, cpu.pressure, memory.stat, memory.numa_stat, of both versions.
//
// What a text does not say is 0 or nullopt; other lines are passed over. Pure. O(length). Source: kernel documentation cgroup-v2.rst,
// cgroup-v1/cpusets and memory, scheduler/sched-bwc.rst, accounting/psi.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ports/container_meter.h"

namespace coterie::linux {

// The number behind "key " at the beginning of a line.
[[nodiscard]] std::optional<std::int64_t> numberOf(std::string_view text, std::string_view key);

// cpu.stat of version 2, which has the CPU time; of version 1, where that is in cpuacct.usage.
[[nodiscard]] std::optional<ContainerCpu> cpuFigures(std::string_view cpuStat);
[[nodiscard]] std::optional<ContainerCpu> cpuFigures(std::string_view cpuacctUsage, std::string_view cpuStat);
// Of a cpu.stat of either version throttling alone, the CPU time not known; nullopt: it counts none.
[[nodiscard]] std::optional<ContainerCpu> throttleFigures(std::string_view cpuStat);
[[nodiscard]] std::optional<ContainerPressure> pressureFigures(std::string_view pressure);
// v2: anon and file; v1: the totals, with what is below.
[[nodiscard]] ContainerResident memoryFigures(std::string_view memoryStat);
// v2 in bytes by kind; v1 in pages.
[[nodiscard]] std::vector<NodeResident> nodeFigures(std::string_view numaStat, Bytes pageSize);

// A limit of CPU time: so much in each period, and what may be saved up for later ones.
struct CpuLimit {
  std::int64_t quotaMicros{-1};  // -1: none
  std::int64_t periodMicros{100'000};
  std::int64_t burstMicros{0};
  [[nodiscard]] MilliCpu cpus() const { return MilliCpu(quotaMicros < 0 || periodMicros <= 0 ? 0 : quotaMicros * 1000 / periodMicros); }
  friend bool operator==(const CpuLimit&, const CpuLimit&) = default;
};
// cpu.max: "max 100000", "50000 100000".
[[nodiscard]] std::optional<CpuLimit> cpuMaxFigures(std::string_view cpuMax);

}  // namespace coterie::linux
