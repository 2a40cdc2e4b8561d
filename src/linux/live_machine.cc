#include "linux/live_machine.h"

#include <fcntl.h>

#include "linux/cgroup_paths.h"
#include "linux/files.h"
#include "linux/machine_reader.h"

namespace coterie::linux {
namespace {
std::optional<CpuSet> readSet(const UniqueFd& file) {
  CpuSet set = setOf(file ? readText(file.get()) : std::nullopt);
  return set.empty() ? std::nullopt : std::optional(std::move(set));
}

bool insideVirtualMachine() {
  const std::string cpus = readText("/proc/cpuinfo").value_or("");
  const std::size_t flags = cpus.find("\nflags");
  const std::string_view line =
      flags == std::string::npos ? std::string_view{} : std::string_view(cpus).substr(flags + 1, cpus.find('\n', flags + 1) - flags);
  return line.find(" hypervisor") != std::string_view::npos || readText("/sys/hypervisor/type").has_value();
}
}  // namespace

LiveMachine::LiveMachine() : online_(openFor("/sys/devices/system/cpu/online", O_RDONLY)) {
  const CgroupDirectories own = ownCgroupDirectories();
  if (const auto v1 = own.v1.find("cpuset"); v1 != own.v1.end()) {
    cpuset_ = openFor(v1->second + "/cpuset.effective_cpus", O_RDONLY);
    if (!cpuset_) cpuset_ = openFor(v1->second + "/cpuset.cpus", O_RDONLY);
  }
  if (!cpuset_ && own.v2) cpuset_ = openFor(*own.v2 + "/cpuset.cpus.effective", O_RDONLY);
  const auto affinity = affinityOf(0);
  const auto granted = cpuset_ ? readSet(cpuset_) : readSet(online_);
  // A kernel that isolates CPUs leaves them out of every process's mask: that is nobody's wish, and who has all the others was not narrowed. (The
  // mask of one who was not has no CPU that was offline at the start, either: those come with the kernel's sets.)
  const auto isolated = readSet(openFor("/sys/devices/system/cpu/isolated", O_RDONLY));
  if (affinity && granted && !(*granted - isolated.value_or(CpuSet{})).isSubsetOf(*affinity)) startAffinity_ = affinity;
}

Result<MachineSets> LiveMachine::poll() {
  const auto online = readSet(online_);
  if (!online) return Error{Code::Internal, "MachineUnreadable", "/sys/devices/system/cpu/online cannot be read: is /sys mounted?"};
  MachineSets sets{*online, *online};
  if (const auto granted = readSet(cpuset_)) sets.allowed &= *granted;
  if (startAffinity_) sets.allowed &= *startAffinity_;
  return sets;
}

Result<Machine> LiveMachine::read() {
  Result<Machine> machine = readMachine();
  if (!machine) return machine;
  if (const auto sets = poll()) machine->allowed = sets->allowed & machine->online;
  machine->virtualMachine = insideVirtualMachine();
  return machine;
}

}  // namespace coterie::linux
