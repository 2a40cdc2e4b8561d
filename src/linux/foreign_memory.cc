#include "linux/foreign_memory.h"

#include <fcntl.h>

#include <vector>

#include "linux/cgroup_tree.h"
#include "linux/files.h"

namespace coterie::linux {

std::shared_ptr<ForeignMemory> ForeignMemory::open(const std::string& directory, bool v2) {
  std::shared_ptr<ForeignMemory> made(new ForeignMemory());
  made->nodes_ = openFor(directory + "/cpuset.mems", O_RDWR);
  made->effective_ = openFor(directory + (v2 ? "/cpuset.mems.effective" : "/cpuset.effective_mems"), O_RDONLY);
  made->above_ = directory.substr(0, directory.rfind('/')) + (v2 ? "/cpuset.mems.effective" : "/cpuset.effective_mems");
  if (!made->nodes_ || !made->effective_) return nullptr;
  const CpuSet all = made->above();
  made->original_ = {directory, v2, setIn(made->nodes_)};
  const bool chosen = !made->original_.set.empty() && !all.isSubsetOf(made->original_.set);
  if (all.empty() || chosen || setIn(made->effective_).empty()) return nullptr;
  return made;
}

CpuSet ForeignMemory::above() const { return setOf(readText(above_)); }

std::vector<PreparedWrite> ForeignMemory::writes(const CpuSet& nodes) {
  const CpuSet possible = nodes & above();
  if (possible.empty()) return {};
  asked_ = nodes;
  written_ = possible;
  std::vector<PreparedWrite> writes;
  writes.push_back(fileWrite(nodes_, possible.toString()));
  return writes;
}

CpuSet ForeignMemory::observe() const {
  CpuSet effective = setIn(effective_);
  if (!asked_.empty() && setIn(nodes_) == written_ && effective == written_) return asked_;
  return effective;
}

}  // namespace coterie::linux
