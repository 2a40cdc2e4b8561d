#include "linux/cgroup_quota.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "linux/cgroup_tree.h"
#include "linux/files.h"

namespace coterie::linux {

namespace {

std::optional<std::int64_t> numberIn(const std::string& path) {
  const auto text = readText(path);
  if (!text) return std::nullopt;
  return numberOf("n " + *text, "n");
}

}  // namespace

QuotaDirectory quotaDirectory(const CgroupDirectories& own) {
  if (const auto v1 = own.v1.find("cpu"); v1 != own.v1.end()) return {v1->second, false};
  if (own.v2) return {*own.v2, true};
  return {};
}

std::optional<CpuLimit> readCpuLimit(const QuotaDirectory& where) {
  if (where.directory.empty()) return std::nullopt;
  if (where.v2) {
    auto limit = cpuMaxFigures(readText(where.directory + "/cpu.max").value_or(""));
    if (limit) limit->burstMicros = numberIn(where.directory + "/cpu.max.burst").value_or(0);
    return limit;
  }
  const auto quota = numberIn(where.directory + "/cpu.cfs_quota_us");
  const auto period = numberIn(where.directory + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return CpuLimit{*quota, *period, numberIn(where.directory + "/cpu.cfs_burst_us").value_or(0)};
}

std::optional<QuotaFiles> QuotaFiles::open(const QuotaDirectory& where) {
  if (where.directory.empty()) return std::nullopt;
  QuotaFiles files;
  files.where_ = where;
  files.quota_ = openFor(where.directory + (where.v2 ? "/cpu.max" : "/cpu.cfs_quota_us"), O_WRONLY);
  files.burst_ = openFor(where.directory + (where.v2 ? "/cpu.max.burst" : "/cpu.cfs_burst_us"), O_WRONLY);
  if (!files.quota_) return std::nullopt;
  return files;
}

std::vector<PreparedWrite> QuotaFiles::writes(const CpuLimit& from, const CpuLimit& to) const {
  std::vector<PreparedWrite> writes;
  const auto burst = [&](std::int64_t micros) {
    if (burst_) writes.push_back(fileWrite(burst_, std::to_string(micros)));
  };
  const bool lower = to.quotaMicros >= 0 && from.burstMicros > to.quotaMicros;
  const std::int64_t kept = lower ? to.quotaMicros : from.burstMicros;
  if (lower) burst(kept);
  if (from.quotaMicros != to.quotaMicros) {
    const std::string amount = to.quotaMicros < 0 ? (where_.v2 ? "max" : "-1") : std::to_string(to.quotaMicros);
    writes.push_back(fileWrite(quota_, where_.v2 ? amount + " " + std::to_string(to.periodMicros) : amount));
  }
  const std::int64_t wanted = to.quotaMicros >= 0 ? std::min(to.burstMicros, to.quotaMicros) : to.burstMicros;
  if (wanted != kept) burst(wanted);
  return writes;
}

}  // namespace coterie::linux
