// The CPU quota of somebody else's container: read, and written in an order that the kernel takes.
//
// A burst may not exceed the quota: where it would, it is lowered first. Version 1: cpu.cfs_quota_us, cpu.cfs_period_us, cpu.cfs_burst_us; version 2:
// cpu.max, cpu.max.burst (kernels before 5.14 have no burst). A quota of version 1 may not exceed its parent's. The period is never changed. Kernel
// rules: scheduler/sched-bwc.rst. Thread rule: control loop; the writes may be made elsewhere while the object lives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "linux/cgroup_figures.h"
#include "linux/cgroup_paths.h"
#include "ports/cpu_controller.h"

namespace coterie::linux {

struct QuotaDirectory {
  std::string directory;  // empty: there is no quota to be had
  bool v2{false};
  friend bool operator==(const QuotaDirectory&, const QuotaDirectory&) = default;
};
[[nodiscard]] QuotaDirectory quotaDirectory(const CgroupDirectories& own);

[[nodiscard]] std::optional<CpuLimit> readCpuLimit(const QuotaDirectory& where);

class QuotaFiles {
 public:
  [[nodiscard]] static std::optional<QuotaFiles> open(const QuotaDirectory& where);
  // From one limit to another of the same period.
  [[nodiscard]] std::vector<PreparedWrite> writes(const CpuLimit& from, const CpuLimit& to) const;
  [[nodiscard]] std::optional<CpuLimit> read() const { return readCpuLimit(where_); }

 private:
  QuotaDirectory where_;
  UniqueFd quota_, burst_;  // the second may be missing
};

}  // namespace coterie::linux
