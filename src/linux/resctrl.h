// Cache classes by the kernel's resctrl file system (Intel RDT, AMD QoS; on others where the kernel has it): a group for each class.
//
// Kernel rules (Linux, filesystems/resctrl or x86/resctrl): a group is a directory below /sys/fs/resctrl; making one takes a class of service of the
// hardware (ENOSPC: none is left; the default group has one of info/*/num_closids). `schemata` takes lines like "L3:0=3f;1=3f", masks in
// hexadecimal by cache id, as a whole or not at all (EINVAL; why is in info/last_cmd_status). `tasks` takes one thread a write; what that begins is
// in the same group; a removed group's threads are the default group's. Masks: runs of info/L3/min_cbm_bits at least within info/L3/cbm_mask; those
// in info/L3/shareable_bits are used by devices, too, and left to them where enough others are there; what a group of somebody else's has exclusively
// (E, P in info/L3/bit_usage) is out of bounds. MB: percent of a core's rate, in steps of info/MB/bandwidth_gran from info/MB/min_bandwidth; where
// the default group shows more than 100 it is no percentage (AMD, mba_MBps), and left alone. Mounted with cdp there are masks for code and for data:
// caches are not divided then.
// Ours are the groups whose name begins with that of a run (cgroup_tree.h: coterie-PID-START.NAME); create() removes those of runs that have gone.
// Groups of others, a living run's too, and the default group are never written. Which CPUs are below which cache is read from
// devices/system/cpu/cpuN/cache. Cost: ports/cache_classes.h. Thread rule: control loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "linux/resctrl_files.h"
#include "ports/cache_classes.h"

namespace coterie::linux {

// "L3:0=3f;1=3f\nMB:0=50;1=100\n", blanks anywhere; other lines and values that make no sense are skipped. Pure.
struct Schemata {
  std::map<int, CacheWays> ways;
  std::map<int, std::int64_t> bandwidth;
};
[[nodiscard]] Schemata parseSchemata(const std::string& text);
[[nodiscard]] std::string schemataText(const ClassShares& shares);

class Resctrl final : public CacheClasses {
 public:
  // sysfs: where devices/system/cpu is.
  [[nodiscard]] static std::unique_ptr<Resctrl> create(std::unique_ptr<ResctrlFiles> files = std::make_unique<MountedResctrl>(),
                                                       std::string sysfs = "/sys");

  [[nodiscard]] Result<CacheControl> read() override;
  [[nodiscard]] Status set(const CacheClass& wanted) override;
  [[nodiscard]] Result<std::vector<int>> join(const std::string& name, const std::vector<int>& processes) override;
  void remove(const std::string& name) override;
  [[nodiscard]] std::vector<CacheClass> list() const override;
  void restore() override;

 private:
  Resctrl(std::unique_ptr<ResctrlFiles> files, std::string sysfs);
  [[nodiscard]] std::string groupOf(const std::string& name) const { return prefix_ + name; }
  [[nodiscard]] std::vector<std::string> othersGroups() const;
  [[nodiscard]] Error errorOf(int error, const std::string& what) const;
  void readCaches(CacheControl& control, const Schemata& now) const;
  void readBandwidth(CacheControl& control, const Schemata& now) const;

  std::unique_ptr<ResctrlFiles> files_;
  std::string sysfs_;
  std::string prefix_;
};

}  // namespace coterie::linux
