#include "linux/foreign_memory.h"

#include "linux/cgroup_tree.h"

namespace coterie::linux {

std::shared_ptr<ForeignMemory> ForeignMemory::open(const std::string& directory, bool v2, SetsAbove& above) {
  std::shared_ptr<ForeignMemory> made(new ForeignMemory());
  made->nodes_ = OwnSet(directory, OwnSet::Of::MemoryNodes, v2, above);
  if (!made->nodes_.valid()) return nullptr;
  const CpuSet all = made->nodes_.aboveNow();
  made->original_ = {directory, v2, made->nodes_.askedNow()};
  const bool chosen = !made->original_.set.empty() && !all.isSubsetOf(made->original_.set);
  if (all.empty() || chosen || made->nodes_.inForceNow().empty()) return nullptr;
  return made;
}

std::vector<PreparedWrite> ForeignMemory::writes(const CpuSet& nodes) {
  const CpuSet possible = nodes & nodes_.aboveNow();
  if (possible.empty()) return {};
  asked_ = nodes;
  written_ = possible;
  std::vector<PreparedWrite> writes;
  writes.push_back(fileWrite(nodes_.asked(), possible.toString()));
  return writes;
}

CpuSet ForeignMemory::observe(const SetsAbove& above) {
  if (CpuSet single = nodes_.singleAbove(above); !single.empty()) return single == written_ ? asked_ : single;
  const OwnSet::Sets& sets = nodes_.read(above);
  return !asked_.empty() && sets.asked == written_ && sets.inForce == written_ ? asked_ : sets.inForce;
}

}  // namespace coterie::linux
